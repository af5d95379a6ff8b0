#include "base/sha256.h"

#include <algorithm>

namespace railwise {
namespace {

constexpr std::size_t kHmacBlockBytes = 64;

void putBigEndian(uint64_t value, std::span<std::byte> to) {
  for (std::size_t i = to.size(); i-- > 0; value >>= 8) to[i] = static_cast<std::byte>(value & 0xff);
}

const bool g_has_instructions = sha256::hasInstructions();

}  // namespace

void Sha256::addBlock(const std::byte* block) {
  if (g_has_instructions) sha256::addBlockByInstructions(state_, block);
  else sha256::addBlockPortably(state_, block);
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
