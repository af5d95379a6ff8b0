// How many pairs of devices, one on each of two hosts, can still carry traffic on a fabric. All functions are
// pure; only DeviceStates has a memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "softdev/control/control.h"
#include "softdev/faults/faults.h"

namespace railwise::cli {

// The devices of a fabric, by host. A device that no process has open any more keeps its last known state: a
// device that failed before it was closed is lost, and a device that was only closed is not.
class DeviceStates {
 public:
  void see(const std::vector<softdev::PortInfo>& ports);

  struct Device {
    std::string name;
    bool works = false;  // a port is up and has an address, and the device has not failed
  };
  std::vector<Device> of(const std::string& host) const;

 private:
  std::map<std::string, std::map<std::string, bool>> works_;
};

// True if the rule lets no data through from the host's device to the other host while it is active: it
// strikes every message, on whichever queue pair.
bool cutsOff(const softdev::FaultStatus& rule, const std::string& host, const std::string& device,
             const std::string& peer);

int pairsBetween(const DeviceStates& devices, const std::vector<softdev::FaultStatus>& rules,
                 const std::string& a, const std::string& b);

}  // namespace railwise::cli
