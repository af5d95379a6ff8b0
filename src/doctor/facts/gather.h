// Facts of the running machine that are in none of its files, as files below /railwise (system.h lists them).
// Main thread only: it forks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/settings/config.h"
#include "sysfs/file_tree.h"

namespace railwise::doctor {

struct GatherOptions {
  // How long counters are watched; 0: not at all.
  std::chrono::milliseconds watch = std::chrono::milliseconds(1000);
  // The environment, as environ(7); variables that concern no job of NCCL's are left out.
  const char* const* environment = nullptr;
};

// `machine`: this machine's files. Takes `watch`, and up to two seconds more where a driver does not answer.
sysfs::MemoryTree gatherFacts(const sysfs::FileTree& machine, const GatherOptions& options,
                              const Config& config);

// What the kernel says of a network interface by netlink and ioctl, as the text of the files below /railwise
// (system.h). Thread-safe.

// PFC and the map of DSCP to priorities (IEEE 802.1Qaz): "pfc 0x08", "dscp 26 3", "trust dscp", a line each.
// "": the driver has no DCB, or does not answer.
std::string dcbText(const std::string& interface);

// What a driver counts of an interface, as `ethtool -S` prints it: name and value. Empty: it counts nothing.
std::vector<std::pair<std::string, uint64_t>> ethernetCounters(const std::string& interface);

// Mb/s of the fastest link mode that interface and module support, as `ethtool` lists them. 0: not known.
int fastestLinkMode(const std::string& interface);

}  // namespace railwise::doctor
