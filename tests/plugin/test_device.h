// What the programs of this folder run on: the software device, each process on a fabric of its own; or, with
// RAILWISE_TEST_DEVICE=verbs, the machine's own devices through libibverbs and librdmacm, as tests/lab has
// them. Which of them comes from outside: NCCL_IB_HCA chooses, and all that it chooses must reach each other
// and be of one kind. So do RAILWISE_CONNECT and every other setting of the plugin; NCCL_SOCKET_IFNAME is lo
// when not set.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/setting.h"

namespace railwise::test {

// RAILWISE_TEST_DEVICE=verbs? Another word than that and "software" ends the program.
bool onRealDevices();

// A port of the machine that NCCL_IB_HCA chooses, as /sys describes it.
struct RealDevice {
  std::string name;
  int port = 1;
  bool iwarp = false;
  uint64_t guid = 0;  // of the system image
  int mbps = 0;
};
// Those that are active, by name. Empty on the software device.
const std::vector<RealDevice>& realDevices();
// Real devices, of iWARP.
bool onIwarp();
// How many devices a test has that asks the software device for `software`, and does with fewer real ones.
int deviceCount(int software = 1);

// Their names: the software device's are soft0 and on.
std::vector<std::string> deviceNames(int software = 1);

// Sets the environment for the next init. `software`: keys of the software device's configuration; real
// devices are what they are, so a test that depends on such a key begins with one of the macros below.
void useDevice(const std::string& software = "");

}  // namespace railwise::test

// At the begin of a test: `why` names what a real device cannot be told, or has not.
#define RAILWISE_NEEDS_SOFTWARE_DEVICE(why) \
  if (::railwise::test::onRealDevices()) GTEST_SKIP() << "needs the software device: " << (why)
#define RAILWISE_NEEDS_DEVICES(count)                                                                   \
  if (::railwise::test::onRealDevices() && ::railwise::test::realDevices().size() < std::size_t{count}) \
  GTEST_SKIP() << "needs " << (count) << " devices, NCCL_IB_HCA chooses "                               \
               << ::railwise::test::realDevices().size()
// Flushes, and NCCL_PTR_CUDA with them: a queue pair that is connected to itself.
#define RAILWISE_NEEDS_FLUSHES() \
  if (::railwise::test::onIwarp()) GTEST_SKIP() << "iWARP has no flush: NCCL is told of host memory only"
