// The configuration space of a PCI function: what /sys's `config` file has. Without root the kernel gives the
// first 64 bytes alone, which hold no capability. Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "doctor/facts/system.h"

namespace railwise::doctor {

class PciConfig {
 public:
  // `path`: the function's folder.
  PciConfig(const System& system, const std::string& path);

  // False: this user may not read the capabilities, or the tree does not have them.
  bool complete() const { return bytes_.size() > kHeader; }
  // The Relaxed Ordering bit of the PCI Express capability's Device Control. Null: not known.
  std::optional<bool> relaxedOrdering() const;
  // The control register of Access Control Services. Null: not known, or the function has no ACS.
  std::optional<uint16_t> acsControl() const;

 private:
  static constexpr std::size_t kHeader = 64;
  std::optional<uint32_t> read(std::size_t at, std::size_t bytes) const;
  // The offset of a capability of the first 256 bytes. 0: none.
  std::size_t capability(uint8_t id) const;
  std::size_t extendedCapability(uint16_t id) const;

  std::string bytes_;
};

// The bits of the ACS control register that send traffic between two devices below one switch up to the CPU:
// P2P Request Redirect, P2P Completion Redirect, Upstream Forwarding. Source: PCI Express specification,
// Access Control Services.
inline constexpr uint16_t kAcsRequestRedirect = 0x4;
inline constexpr uint16_t kAcsCompletionRedirect = 0x8;
// Requests that ATS has translated go straight all the same.
inline constexpr uint16_t kAcsDirectTranslated = 0x40;

}  // namespace railwise::doctor
