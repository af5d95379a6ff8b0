// Floating-point numbers of 16 bits: IEEE half precision and bfloat16. They calculate in float, and round to
// the nearest, to even in the middle. Plain values.
#pragma once

#include <bit>
#include <cstdint>

namespace railwise::cli {

class Half {
 public:
  constexpr Half() = default;
  constexpr Half(float value) : bits_(rounded(value)) {}  // NOLINT: implicit, like the built-in types
  constexpr operator float() const {                      // NOLINT
    constexpr uint32_t kExponent = 0x7c00;
    const uint32_t sign = uint32_t{bits_} << 16 & kSign;
    const uint32_t exponent = bits_ & kExponent;
    const uint32_t fraction = bits_ & 0x3ff;
    if (exponent == 0) {
      const float subnormal = static_cast<float>(fraction) * 0x1p-24F;
      return sign != 0 ? -subnormal : subnormal;
    }
    const uint32_t rebased = exponent == kExponent ? 0xff : (exponent >> 10) + kRebase;
    return std::bit_cast<float>(sign | rebased << 23 | fraction << 13);
  }

 private:
  static constexpr uint32_t kSign = 0x8000'0000;
  static constexpr uint32_t kRebase = 127 - 15;

  static constexpr uint16_t rounded(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits & kSign) >> 16;
    const uint32_t size = bits & ~kSign;
    if (size > 0x7f80'0000) return static_cast<uint16_t>(sign | 0x7e00);  // NaN
    if (size >= std::bit_cast<uint32_t>(0x1p16F)) return static_cast<uint16_t>(sign | 0x7c00);
    if (size < std::bit_cast<uint32_t>(0x1p-14F)) {
      // The last bit of 0.5 as a float is the last bit of a subnormal half.
      const float shifted = std::bit_cast<float>(size) + 0.5F;
      return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5F)));
    }
    const uint32_t up = 0xfff + (size >> 13 & 1);
    return static_cast<uint16_t>(sign | (size - (kRebase << 23) + up) >> 13);
  }

  uint16_t bits_ = 0;
};

class BFloat16 {
 public:
  constexpr BFloat16() = default;
  constexpr BFloat16(float value) : bits_(rounded(value)) {}                                // NOLINT
  constexpr operator float() const { return std::bit_cast<float>(uint32_t{bits_} << 16); }  // NOLINT

 private:
  static constexpr uint16_t rounded(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fff'ffff) > 0x7f80'0000) return static_cast<uint16_t>(bits >> 16 | 0x40);  // NaN
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }

  uint16_t bits_ = 0;
};

}  // namespace railwise::cli
