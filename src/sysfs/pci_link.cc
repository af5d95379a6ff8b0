#include "sysfs/pci_link.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text/bus_id.h"
#include "base/text/text_layout.h"

namespace railwise::sysfs {
namespace {

constexpr double kMostGigatransfers = 1024;
constexpr int kMostLanes = 32;

// `which`: "current" or "max".
PciLink linkOf(const FileTree& tree, const std::string& path, const std::string& which) {
  const std::string width = firstLine(tree, path + "/" + which + "_link_width");
  PciLink link;
  link.speed = firstLine(tree, path + "/" + which + "_link_speed");
  const std::string& speed = link.speed;
  const auto rate = std::from_chars(speed.data(), speed.data() + speed.size(), link.gigatransfers);
  const auto lanes = std::from_chars(width.data(), width.data() + width.size(), link.lanes);
  const bool fits = link.gigatransfers > 0 && link.gigatransfers <= kMostGigatransfers && link.lanes > 0 &&
                    link.lanes <= kMostLanes;
  return rate.ec == std::errc() && lanes.ec == std::errc() && fits ? link : PciLink();
}

}  // namespace

uint32_t PciLink::mbps() const {
  // From this rate on PCIe sends 130 bits for 128 (generations 3 to 5); below it 10 bits for 8. Generation 6
  // (64 GT/s) sends flits without a line code, whose other costs are of the same size.
  constexpr double kGeneration3 = 8.0;
  constexpr double kNewCode = 128.0 / 130.0;
  constexpr double kOldCode = 8.0 / 10.0;
  const double code = gigatransfers < kGeneration3 ? kOldCode : kNewCode;
  return static_cast<uint32_t>(std::lround(gigatransfers * lanes * code * 1000));
}

std::string PciLink::text() const { return formatText("%g GT/s x%d", gigatransfers, lanes); }

PciLink currentLink(const FileTree& tree, const std::string& path) { return linkOf(tree, path, "current"); }
PciLink bestLink(const FileTree& tree, const std::string& path) { return linkOf(tree, path, "max"); }

PciLink bestLinkInSlot(const FileTree& tree, const std::string& path) {
  PciLink link = bestLink(tree, path);
  const std::string above = path.substr(0, path.rfind('/'));
  const PciLink slot = isBusId(baseName(above)) ? bestLink(tree, above) : PciLink();
  if (!slot.known()) return link;
  link.gigatransfers = std::min(link.gigatransfers, slot.gigatransfers);
  link.lanes = std::min(link.lanes, slot.lanes);
  return link;
}

PciLink narrowestLink(const FileTree& tree, const std::string& path) {
  PciLink narrowest;
  std::string folder = path;
  while (isBusId(baseName(folder))) {
    const PciLink link = currentLink(tree, folder);
    if (link.known() && (!narrowest.known() || link.mbps() < narrowest.mbps())) narrowest = link;
    folder.resize(folder.rfind('/'));
  }
  return narrowest;
}

}  // namespace railwise::sysfs
