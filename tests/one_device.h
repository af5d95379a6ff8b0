// The machine of a configuration that describes no device has two InfiniBand devices. Tests that say nothing
// of devices are about one RoCE device, soft0.
#pragma once

#include <string>

namespace railwise::test {

// `text`, and one device if it describes none: keys of mode and process alone do not.
inline std::string oneDeviceAtLeast(const std::string& text) {
  for (const char* key : {"name=",   "count=",   "link=",  "speed=",      "width=", "mtu=", "gid=",
                          "guid=",   "ports=",   "port1.", "port_state=", "pci",    "max_", "ece=",
                          "dmabuf=", "atomics=", "rail=",  "netdev=",     "host ",  "@"}) {
    if (text.find(key) != std::string::npos) return text;
  }
  return text + (text.empty() ? "name=soft0" : ";name=soft0");
}

}  // namespace railwise::test
