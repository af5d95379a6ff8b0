// RAILWISE_STRICT at init: what makes this machine slower than it can be. Without the setting nothing here is
// called. violations() is pure; the others log. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/settings/config.h"
#include "net/device/device.h"
#include "sysfs/file_tree.h"

namespace railwise::net {

// What the checks look at.
struct PortFacts {
  std::string name;      // of the device, as NCCL sees it
  std::string type;      // ports of one type are expected to have one speed: NIC and link layer
  std::string pci_path;  // "": no place in the PCI tree
  int mbps = 0;
  bool gpu_direct = false;
  std::string why_no_gpu_direct;
};
struct MachineFacts {
  const sysfs::FileTree& tree;
  std::vector<PortFacts> ports;
  bool gpu_driver_loaded = false;  // this process uses GPUs: CUDA's or HIP's library is loaded
  std::string topology_asked;      // RAILWISE_TOPOLOGY
  std::string topology_file;       // in force; "": none
};

struct Violation {
  const char* word;  // the word of RAILWISE_STRICT that finds it
  std::string text;  // what, where, and what to do
};
std::vector<Violation> violations(const StrictMode& strict, const MachineFacts& machine);

// The mode that the settings ask for. kRefused, logged: RAILWISE_STRICT has a value that is not accepted.
Result<StrictMode> strictMode(const Config& config);
// Logs that no device can be used. Always kRefused.
Status refuseWithoutDevice(const Config& config);
// Logs all violations. kRefused if there are any. `topology_file`: what provideTopology() returned.
Status checkStrictly(const StrictMode& strict, const Config& config, const std::string& topology_file,
                     const std::vector<std::unique_ptr<Device>>& devices);

// What the last refusal said first. NCCL keeps the last warning for ncclGetLastError, which is all that a job
// without NCCL_DEBUG shows, so it is said again when NCCL's init fails.
std::string lastRefusal();

}  // namespace railwise::net
