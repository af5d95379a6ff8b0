#include "topo/graph/constants.h"

#include <algorithm>
#include <array>

#include "base/pci.h"

namespace railwise::topo {
namespace {

struct ClassPrefix {
  std::string_view prefix;
  NodeType type;
};

// In NCCL's order: the first matching prefix decides.
constexpr std::array<ClassPrefix, 6> kClasses = {{
    {"0x060400", NodeType::kPci},  // PCI bridge
    {"0x080100", NodeType::kPci},  // ConnectX-8 Data Direct
    {"0x068000", NodeType::kNvs},  // NVSwitch
    {"0x068001", NodeType::kCpu},  // POWER's NVLink bridge
    {"0x03", NodeType::kGpu},
    {"0x02", NodeType::kNic},
}};
constexpr std::string_view kAmdAccelerator = "0x120000";  // MI300

constexpr int kGen3Lane = 60;

const PcieGeneration* findSpeed(std::string_view speed) {
  for (const PcieGeneration& each : kPcieGenerations)
    if (speed.starts_with(each.text) || (!each.old_text.empty() && speed.starts_with(each.old_text)))
      return &each;
  return nullptr;
}

// Bandwidth of the interconnect between sockets, in GB/s.
constexpr float kPower9 = 32;
constexpr float kArm = 6;
constexpr float kZen12 = 16;
constexpr float kZen34 = 24;
constexpr float kZen5 = 32;
constexpr float kBroadwell = 6;
constexpr float kSkylake = 10;
constexpr float kOldSkylake = 9;
constexpr float kSapphireRapids = 22;
constexpr float kEmeraldRapids = 40;
constexpr float kZhaoxin = 6;
constexpr float kYongfeng = 9;

float intelBandwidth(CpuModel model, NcclVersion release) {
  switch (model) {
    case CpuModel::kEmeraldRapids:
      return kEmeraldRapids;
    case CpuModel::kSapphireRapids:
      return kSapphireRapids;
    case CpuModel::kSkylake:
      return release.has(NcclRule::kSkylake10) ? kSkylake : kOldSkylake;
    default:
      return kBroadwell;
  }
}

// From 2.16.2 to 2.19 only 2.16.2 itself knew a bandwidth between AMD's CPUs.
constexpr NcclVersion kKnewAmd{21602};

float amdBandwidth(CpuModel model, NcclVersion release) {
  if (!release.has(NcclRule::kAmd16) && release != kKnewAmd) return kLocalBandwidth;
  if (model == CpuModel::kZen5) return kZen5;
  return model == CpuModel::kZen34 ? kZen34 : kZen12;
}

// The family as the processor's manuals count it, and as NCCL counted it up to 2.30 (base family + extended
// family << 4), which topology files of those releases have.
CpuModel amdModel(int family) {
  if (family == 26 || family == 0xBF) return CpuModel::kZen5;
  return family == 25 || family == 0xAF ? CpuModel::kZen34 : CpuModel::kZen12;
}

// Granite Rapids and Sierra Forest have lower numbers than the older Emerald Rapids.
bool isEmeraldRapids(int model, NcclVersion release) {
  if (model >= 0xCF) return true;
  return release.has(NcclRule::kGraniteRapids) && model >= 0xAD && model <= 0xAF;
}

}  // namespace

NodeType classType(std::string_view pci_class, int document_version) {
  for (const ClassPrefix& entry : kClasses)
    if (pci_class.starts_with(entry.prefix)) return entry.type;
  if (document_version == 2 && pci_class.starts_with(kAmdAccelerator)) return NodeType::kGpu;
  return NodeType::kPci;
}

float pciBandwidth(std::string_view speed, int width) {
  const PcieGeneration* known = findSpeed(speed);
  const int lane = known == nullptr ? kGen3Lane : known->nccl_lane;
  const auto lanes = static_cast<unsigned>(width == 0 ? 16 : width);
  return static_cast<float>(static_cast<int>(lanes * static_cast<unsigned>(lane)) / 80.0);
}

bool pciSpeedKnown(std::string_view speed) { return findSpeed(speed) != nullptr; }

CpuArch cpuArch(std::string_view text) {
  if (text.starts_with("x86_64")) return CpuArch::kX86;
  if (text.starts_with("arm64")) return CpuArch::kArm;
  if (text.starts_with("ppc64")) return CpuArch::kPower;
  return CpuArch::kUnknown;
}

CpuVendor cpuVendor(std::string_view text) {
  if (text.starts_with("GenuineIntel")) return CpuVendor::kIntel;
  if (text.starts_with("AuthenticAMD")) return CpuVendor::kAmd;
  if (text.starts_with("CentaurHauls") || text.starts_with("  Shanghai  ")) return CpuVendor::kZhaoxin;
  return CpuVendor::kUnknown;
}

CpuModel cpuModel(CpuVendor vendor, int family, int model, NcclVersion release) {
  if (vendor == CpuVendor::kZhaoxin)
    return family == 7 && model == 0x5B ? CpuModel::kYongfeng : CpuModel::kUndefined;
  if (vendor == CpuVendor::kAmd) return amdModel(family);
  const bool rapids = family == 6 && release.has(NcclRule::kSapphireRapids);
  if (rapids && isEmeraldRapids(model, release)) return CpuModel::kEmeraldRapids;
  if (rapids && model >= 0x8F) return CpuModel::kSapphireRapids;
  if (family == 6 && model >= 0x55) return CpuModel::kSkylake;
  return CpuModel::kBroadwell;
}

float interCpuBandwidth(const Node& cpu, NcclVersion release) {
  switch (cpu.arch) {
    case CpuArch::kPower:
      return kPower9;
    case CpuArch::kArm:
      return kArm;
    case CpuArch::kX86:
      break;
    default:
      return kLocalBandwidth;
  }
  switch (cpu.vendor) {
    case CpuVendor::kIntel:
      return intelBandwidth(cpu.model, release);
    case CpuVendor::kAmd:
      return amdBandwidth(cpu.model, release);
    case CpuVendor::kZhaoxin:
      return cpu.model == CpuModel::kYongfeng ? kYongfeng : kZhaoxin;
    default:
      return kLocalBandwidth;
  }
}

float nvlinkBandwidth(int sm, NcclVersion release) {
  if (sm >= 100 && release.has(NcclRule::kBlackwellNvlink))
    return release.has(NcclRule::kBlackwellNvlink401) ? 40.1F : 40.0F;
  if (sm >= 90 && release.has(NcclRule::kHopperNvlink)) return 20.6F;
  if (sm == 86) return 12.0F;
  if (sm >= 60 && sm < 70) return 18.0F;
  return release.has(NcclRule::kNvlink20) ? 20.0F : 22.0F;
}

float xgmiBandwidth(std::string_view gcn) {
  if (gcn.starts_with("gfx90a")) return 36.0F;
  if (gcn.starts_with("gfx94") || gcn.starts_with("gfx95")) return 48.0F;
  return 24.0F;
}

std::string gcnName(const std::string& text) {
  // Older RCCL files give the architecture as a number.
  if (text == "910") return "gfx90a";
  if (text == "906" || text == "908" || text == "940" || text == "941" || text == "942") return "gfx" + text;
  return text.substr(0, text.find(':'));
}

int broadcomGeneration(uint64_t pci_device, int level) {
  const uint64_t device = pci_device & 0xfffffffffffff000ULL;
  if (device == 0x1000c0101000a000ULL) return 4;
  if (device == (0x1000c03010000000ULL | static_cast<uint64_t>(level) * 0x1000)) return 5;
  return 0;
}

}  // namespace railwise::topo
