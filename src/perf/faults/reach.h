// What a fabric still lets two hosts do: how many pairs of devices, one of each, can carry traffic. Pure but
// for Ports, which remembers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "softdev/control/control.h"
#include "softdev/faults/faults.h"

namespace railwise::tools {

// The devices of a fabric by host. One that no process has open any more is as it was last seen: a device
// that failed and was closed is gone, one that was merely closed is not.
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

// Whether no data get from the device of a host to another host while the rule stands: it strikes each of
// them, of whichever queue pair.
bool cutsOff(const softdev::FaultStatus& rule, const std::string& host, const std::string& device,
             const std::string& peer);

int pairsBetween(const DeviceStates& devices, const std::vector<softdev::FaultStatus>& rules,
                 const std::string& a, const std::string& b);

}  // namespace railwise::tools
