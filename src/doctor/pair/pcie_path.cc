#include "doctor/pair/pcie_path.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/bus_id.h"
#include "sysfs/pci_devices.h"

namespace railwise::doctor::pair {
namespace {

// From this rate on PCIe sends 130 bits for 128 (generation 3 to 5); below it 10 bits for 8. Generation 6
// (64 GT/s) sends flits without a line code, whose other costs are of the same size.
constexpr double kGeneration3 = 8.0;
constexpr double kNewCode = 128.0 / 130.0;
constexpr double kOldCode = 8.0 / 10.0;
constexpr double kMostGigatransfers = 1024;
constexpr int kMostLanes = 64;

}  // namespace

PcieLink pcieLink(std::string_view speed, std::string_view width) {
  double gigatransfers = 0;
  int lanes = 0;
  const auto rate = std::from_chars(speed.data(), speed.data() + speed.size(), gigatransfers);
  const auto read = std::from_chars(width.data(), width.data() + width.size(), lanes);
  if (rate.ec != std::errc() || read.ec != std::errc() || !(gigatransfers > 0) || lanes < 1) return {};
  if (gigatransfers > kMostGigatransfers || lanes > kMostLanes) return {};
  const double code = gigatransfers < kGeneration3 ? kOldCode : kNewCode;
  const std::string number(speed.substr(0, static_cast<std::size_t>(rate.ptr - speed.data())));
  return {static_cast<uint32_t>(std::lround(gigatransfers * lanes * code * 1000)),
          number + " GT/s x" + std::to_string(lanes)};
}

PcieLink narrowestPcieLink(const sysfs::FileTree& tree, const std::string& path) {
  PcieLink narrowest;
  std::string folder = path;
  while (isBusId(sysfs::baseName(folder))) {
    const PcieLink link = pcieLink(sysfs::firstLine(tree, folder + "/current_link_speed"),
                                   sysfs::firstLine(tree, folder + "/current_link_width"));
    if (link.mbps != 0 && (narrowest.mbps == 0 || link.mbps < narrowest.mbps)) narrowest = link;
    folder.resize(folder.rfind('/'));
  }
  return narrowest;
}

std::string nearestGpu(const sysfs::FileTree& tree, const std::string& path) {
  const std::vector<std::string> way = sysfs::splitPath(path);
  std::string nearest;
  std::ptrdiff_t most = -1;
  for (const sysfs::PciDevice& gpu : sysfs::gpuDevices(tree)) {
    const std::vector<std::string> its = sysfs::splitPath(gpu.path);
    const auto parted = std::mismatch(way.begin(), way.end(), its.begin(), its.end());
    if (parted.first - way.begin() <= most) continue;
    most = parted.first - way.begin();
    nearest = gpu.busid;
  }
  return nearest;
}

}  // namespace railwise::doctor::pair
