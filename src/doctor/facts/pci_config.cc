#include "doctor/facts/pci_config.h"

namespace railwise::doctor {
namespace {

constexpr std::size_t kCapabilityPointer = 0x34;
constexpr std::size_t kExtendedStart = 0x100;
constexpr uint8_t kPciExpress = 0x10;
constexpr uint16_t kAcs = 0x0d;
// More capabilities than fit: a list that goes in circles.
constexpr int kMostCapabilities = 1024;

}  // namespace

PciConfig::PciConfig(const System& system, const std::string& path)
    : bytes_(system.text(path + "/config", 4096)) {}

std::optional<uint32_t> PciConfig::read(std::size_t at, std::size_t bytes) const {
  if (at + bytes > bytes_.size()) return {};
  uint32_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes_[at + i])) << (8 * i);
  return value;
}

std::size_t PciConfig::capability(uint8_t id) const {
  std::size_t at = read(kCapabilityPointer, 1).value_or(0) & 0xfcU;
  for (int i = 0; i < kMostCapabilities && at >= kHeader; ++i) {
    const auto header = read(at, 2);
    if (!header.has_value()) return 0;
    if ((*header & 0xff) == id) return at;
    at = *header >> 8 & 0xfcU;
  }
  return 0;
}

std::size_t PciConfig::extendedCapability(uint16_t id) const {
  std::size_t at = kExtendedStart;
  for (int i = 0; i < kMostCapabilities && at >= kExtendedStart; ++i) {
    const auto header = read(at, 4);
    if (!header.has_value() || *header == 0 || *header == 0xffffffffU) return 0;
    if ((*header & 0xffff) == id) return at;
    at = *header >> 20 & 0xffcU;
  }
  return 0;
}

std::optional<bool> PciConfig::relaxedOrdering() const {
  constexpr std::size_t kDeviceControl = 8;
  constexpr uint32_t kEnableRelaxedOrdering = 0x10;
  const std::size_t at = capability(kPciExpress);
  const auto control = at == 0 ? std::nullopt : read(at + kDeviceControl, 2);
  if (!control.has_value()) return {};
  return (*control & kEnableRelaxedOrdering) != 0;
}

std::optional<uint16_t> PciConfig::acsControl() const {
  constexpr std::size_t kControl = 6;
  const std::size_t at = extendedCapability(kAcs);
  const auto control = at == 0 ? std::nullopt : read(at + kControl, 2);
  if (!control.has_value()) return {};
  return static_cast<uint16_t>(*control);
}

}  // namespace railwise::doctor
