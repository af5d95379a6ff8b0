#include "base/sha256.h"

#include <algorithm>
#include <bit>

namespace railwise {
namespace {

constexpr std::size_t kHmacBlockBytes = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t bigEndianAt(const std::byte* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(bytes[i]);
  return value;
}

void putBigEndian(uint64_t value, std::span<std::byte> to) {
  for (std::size_t i = to.size(); i-- > 0; value >>= 8) to[i] = static_cast<std::byte>(value & 0xff);
}

}  // namespace

void Sha256::addBlock(const std::byte* block) {
  std::array<uint32_t, 64> w;
  for (std::size_t t = 0; t < 16; ++t) w[t] = bigEndianAt(block + 4 * t);
  for (std::size_t t = 16; t < 64; ++t) {
    const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t t = 0; t < 64; ++t) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t one = h + s1 + ((e & f) ^ (~e & g)) + kRounds[t] + w[t];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t two = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + one;
    d = c;
    c = b;
    b = a;
    a = one + two;
  }
  const std::array<uint32_t, 8> worked = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state_.size(); ++i) state_[i] += worked[i];
}

Sha256& Sha256::add(std::span<const std::byte> bytes) {
  const std::size_t begun = bytes_ % kBlockBytes;
  bytes_ += bytes.size();
  if (begun != 0) {
    const std::size_t count = std::min(bytes.size(), kBlockBytes - begun);
    std::copy_n(bytes.begin(), count, rest_.begin() + static_cast<std::ptrdiff_t>(begun));
    bytes = bytes.subspan(count);
    if (begun + count < kBlockBytes) return *this;
    addBlock(rest_.data());
  }
  for (; bytes.size() >= kBlockBytes; bytes = bytes.subspan(kBlockBytes)) addBlock(bytes.data());
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
  return *this;
}

Digest Sha256::digest() const {
  // A one, zeros up to the end of a block, and there the length in bits.
  std::array<std::byte, 2 * kBlockBytes> end = {std::byte{0x80}};
  const std::size_t begun = bytes_ % kBlockBytes;
  const std::size_t fill = (begun < 56 ? kBlockBytes : 2 * kBlockBytes) - begun;
  putBigEndian(bytes_ * 8, std::span(end).subspan(fill - 8, 8));
  Sha256 whole = *this;
  whole.add(std::span(end).first(fill));
  Digest digest;
  for (std::size_t i = 0; i < whole.state_.size(); ++i)
    putBigEndian(whole.state_[i], std::span(digest).subspan(4 * i, 4));
  return digest;
}

Hmac::Hmac(std::span<const std::byte> key) {
  std::array<std::byte, kHmacBlockBytes> block = {};
  if (key.size() > block.size()) {
    const Digest shorter = Sha256().add(key).digest();
    std::copy(shorter.begin(), shorter.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  for (std::byte& byte : block) byte ^= std::byte{0x36};
  inner_.add(block);
  for (std::byte& byte : block) byte ^= std::byte{0x36} ^ std::byte{0x5c};
  outer_.add(block);
}

Digest Hmac::digest() const {
  Sha256 outer = outer_;
  return outer.add(inner_.digest()).digest();
}

bool sameInConstantTime(std::span<const std::byte> one, std::span<const std::byte> other) {
  if (one.size() != other.size()) return false;
  // Volatile: the compiler may not return at the first difference.
  volatile unsigned difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    difference = difference | std::to_integer<unsigned>(one[i] ^ other[i]);
  return difference == 0;
}

}  // namespace railwise
