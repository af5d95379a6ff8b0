#include "gpu/amd_rules.h"

#include <utility>

#include "base/text/text_layout.h"

namespace railwise::gpu {
namespace {

// RSMI_GPU_BLOCK_FUSE, AMDSMI_GPU_BLOCK_FUSE.
constexpr uint64_t kLastBlock = 0x2000;
constexpr uint64_t kXgmiBlock = 0x80;  // RSMI_GPU_BLOCK_XGMI_WAFL, AMDSMI_GPU_BLOCK_XGMI_WAFL
// In a PCI address: the function and the partition, in which the partitions of one GPU differ.
constexpr uint64_t kPartitionBits = 0xf000'0007;

// The forms of a number of an architecture do not overlap: decimal up to gfx1250 (1250), hexadecimal from
// gfx700 (0x700, 1792) to gfx1250 (0x1250, 4688), decimal with one digit more from gfx700 (7000) to gfx90c
// (9012).
constexpr uint64_t kFirstHexadecimal = 0x700;
constexpr uint64_t kFirstLonger = 7000;
constexpr uint64_t kEndOfLonger = 10'000;

}  // namespace

std::vector<uint64_t> amdErrorBlocks(uint64_t enabled) {
  std::vector<uint64_t> blocks;
  for (uint64_t block = 1; block <= kLastBlock; block <<= 1)
    if ((enabled & block) != 0) blocks.push_back(block);
  return blocks;
}

void addAmdErrors(Health& health, uint64_t block, uint64_t corrected, uint64_t uncorrected) {
  if (block == kXgmiBlock) health.link_errors = corrected + uncorrected;
  else health.ecc_uncorrected = health.ecc_uncorrected.value_or(0) + uncorrected;
}

std::string amdBusId(uint64_t pci) {
  return formatText("%04x:%02x:%02x.%x", static_cast<unsigned>(pci >> 32),
                    static_cast<unsigned>(pci >> 8 & 0xff), static_cast<unsigned>(pci >> 3 & 0x1f),
                    static_cast<unsigned>(pci & 7));
}

std::string amdArchitecture(uint64_t number) {
  if (number < 100 || number >= kEndOfLonger) return "";
  const unsigned value = static_cast<unsigned>(number);
  if (value < kFirstHexadecimal) return formatText("gfx%u", value);
  if (value < kFirstLonger) return formatText("gfx%x", value);
  return formatText("gfx%u%x", value / 100, value % 100);
}

void AmdGpus::addDevice(Device device, std::optional<uint64_t> pci, std::string id,
                        const std::string& partition) {
  if (pci) device.busid = amdBusId(*pci);
  if (partition != "SPX") device.partition = partition;
  device.partitioned = !device.partition.empty();
  topology_.gpus.push_back(std::move(device));
  if (pci) pci = *pci & ~kPartitionBits;
  places_.push_back({pci, std::move(id)});
}

bool AmdGpus::onePackage(int a, int b) const {
  const Place& one = places_[a];
  const Place& other = places_[b];
  return (one.pci && one.pci == other.pci) || (!one.id.empty() && one.id == other.id);
}

void AmdGpus::shareGpus() {
  const int count = static_cast<int>(places_.size());
  for (int i = 0; i < count; ++i) {
    Device& device = topology_.gpus[i];
    if (!device.partitioned) continue;
    int parts = 0;
    for (int k = 0; k < count; ++k) parts += onePackage(i, k) || i == k ? 1 : 0;
    device.share = 1.0 / parts;
  }
}

void AmdGpus::addPath(const AmdPath& path) {
  if (path.accessible) {
    PeerStatus peer;
    peer.from = path.from;
    peer.to = path.to;
    peer.allowed = *path.accessible;
    if (!peer.allowed) peer.reason = "not accessible";
    topology_.peers.push_back(std::move(peer));
  }
  // xGMI with more hops leads over a third GPU.
  if (path.type != kAmdPcie && (path.type != kAmdXgmi || path.hops > 1)) return;
  Link link;
  link.from = path.from;
  link.to = path.to;
  link.to_busid = topology_.gpus[path.to].busid;
  link.width = 1;
  if (path.type == kAmdXgmi) {
    const bool package = onePackage(path.from, path.to);
    link.kind = package ? LinkKind::kInfinityFabric : LinkKind::kXgmi;
    link.latency = package ? LatencyClass::kPackage : LatencyClass::kDirect;
    link.gb_per_s = static_cast<double>(path.max_mbps) / 1000;
    // The driver gives one link as the minimum, and all of them as the maximum.
    if (path.min_mbps > 0 && path.max_mbps > 0 && path.max_mbps % path.min_mbps == 0 &&
        path.max_mbps / path.min_mbps <= 64)
      link.width = static_cast<int>(path.max_mbps / path.min_mbps);
    if (path.max_mbps == 0)
      topology_.remarks.push_back("the library does not tell how fast xGMI is from AMD GPU " +
                                  std::to_string(path.from) + " to " + std::to_string(path.to));
  }
  topology_.links.push_back(std::move(link));
}

}  // namespace railwise::gpu
