// SHA-256 (FIPS 180-4), HMAC-SHA-256 (RFC 2104), and a comparison whose time tells nothing. Own code, because
// the plugin links nothing but libc. Plain values: a copy of a Sha256 or an Hmac goes on from where the
// original stands. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

// One block of SHA-256, in two ways.
namespace railwise::sha256 {

inline constexpr std::size_t kBlockBytes = 64;
using State = std::array<uint32_t, 8>;

void addBlockPortably(State& state, const std::byte* block);

// Does this processor have instructions for SHA-256 that this build knows (x86-64's SHA extensions)?
bool hasInstructions();
// By these instructions: some 250 instead of 3,000. Only where hasInstructions().
void addBlockByInstructions(State& state, const std::byte* block);

}  // namespace railwise::sha256

namespace railwise {

using Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  Sha256& add(std::span<const std::byte> bytes);
  // The digest of everything that was added so far.
  Digest digest() const;

 private:
  static constexpr std::size_t kBlockBytes = sha256::kBlockBytes;
  void addBlock(const std::byte* block);

  sha256::State state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlockBytes> rest_ = {};  // the begin of a block that is not full yet
  uint64_t bytes_ = 0;                            // number of bytes that were added
};

class Hmac {
 public:
  // A key may have any length.
  explicit Hmac(std::span<const std::byte> key);
  Hmac& add(std::span<const std::byte> bytes) {
    inner_.add(bytes);
    return *this;
  }
  Digest digest() const;

 private:
  Sha256 inner_;  // after the first block, which has the key
  Sha256 outer_;
};

// Are the bytes equal? Takes equally long wherever they differ, so that nobody learns a MAC byte by byte.
bool sameInConstantTime(std::span<const std::byte> one, std::span<const std::byte> other);

// Random bytes that nobody can guess: for secrets, tokens and names. Thread-safe.

// From getrandom. Where the kernel gives none (before it has entropy, or a seccomp filter refuses the call),
// libstdc++ asks the processor. Never waits.
void fillRandom(std::span<std::byte> bytes);

// 128 random bits, as 32 hexadecimal digits.
std::string randomHex();

}  // namespace railwise
