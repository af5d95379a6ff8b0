// What the kernel says of a network interface by netlink and ioctl, as the text of the files below /railwise
// (system.h). Thread-safe.
#pragma once

#include <string>

namespace railwise::doctor {

// PFC and the map of DSCP to priorities (IEEE 802.1Qaz): "pfc 0x08", "dscp 26 3", "trust dscp", a line each.
// "": the driver has no DCB, or does not answer.
std::string dcbText(const std::string& interface);

// Mb/s of the fastest link mode that interface and module support, as `ethtool` lists them. 0: not known.
int fastestLinkMode(const std::string& interface);

}  // namespace railwise::doctor
