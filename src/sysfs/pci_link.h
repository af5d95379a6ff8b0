// The PCIe link of a function: what it runs at, and what it could. Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "sysfs/file_tree.h"

namespace railwise::sysfs {

struct PciLink {
  double gigatransfers = 0;  // of a lane, per second; 0: not known
  int lanes = 0;             // 0: not known
  std::string speed;         // as the kernel writes it: "32.0 GT/s PCIe"

  bool known() const { return gigatransfers > 0 && lanes > 0; }
  // What it carries in one direction, Mb/s, after the line code and before the headers of PCIe. 0: not known.
  uint32_t mbps() const;
  // "32 GT/s x16".
  std::string text() const;
};

// `path`: the folder of the function. Of virtual functions, and in many VMs, the kernel knows nothing or
// nonsense ("Unknown", 0, 63 or 255 lanes); that is a link that is not known.
PciLink currentLink(const FileTree& tree, const std::string& path);
PciLink bestLink(const FileTree& tree, const std::string& path);
// The best link that the function and the port above it can have together: a card in an older or narrower
// slot is as fast as the slot allows.
PciLink bestLinkInSlot(const FileTree& tree, const std::string& path);
// The narrowest of the links between the function and the root of its tree, as they run now. Links that are
// not known do not count.
PciLink narrowestLink(const FileTree& tree, const std::string& path);

}  // namespace railwise::sysfs
