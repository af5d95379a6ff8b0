// What the kernel holds of RDMA for a process, as `rdma resource show` tells, asked in the same way
// (netlink).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace railwise::test {

struct KernelObject {
  std::string device;
  std::string kind;  // ctx, pd, mr, cq, qp, srq, cm_id
  uint32_t number = 0;
  uint64_t bytes = 0;  // of an mr
  bool operator==(const KernelObject&) const = default;
};

// Sorted by device, kind and number. Throws std::runtime_error when the kernel does not answer.
std::vector<KernelObject> kernelObjects(pid_t process);

// "rxe0: 2 qp 17 18, 1 mr 5 (65536 bytes)"; "nothing".
std::string describe(const std::vector<KernelObject>& objects);

}  // namespace railwise::test
