#include "base/secrets.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <random>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace railwise::sha256 {
namespace {

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

#if defined(__x86_64__)
__m128i load(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
#endif

uint32_t bigEndianAt(const std::byte* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(bytes[i]);
  return value;
}

}  // namespace

void addBlockPortably(State& state, const std::byte* block) {
  std::array<uint32_t, 64> w;
  for (std::size_t t = 0; t < 16; ++t) w[t] = bigEndianAt(block + 4 * t);
  for (std::size_t t = 16; t < 64; ++t) {
    const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
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
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += worked[i];
}

#if defined(__x86_64__)

bool hasInstructions() {
  constexpr unsigned kFeatures = 1, kSsse3 = 1U << 9, kSse41 = 1U << 19;  // in ecx
  constexpr unsigned kMoreFeatures = 7, kSha = 1U << 29;                  // in ebx
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(kFeatures, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((ecx & kSsse3) == 0 || (ecx & kSse41) == 0) return false;
  return __get_cpuid_count(kMoreFeatures, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & kSha) != 0;
}

// The instructions want the eight words as two registers, ABEF and CDGH, from the highest word down; the
// state has DCBA and HGFE. sha256rnds2 does two rounds.
[[gnu::target("sha,sse4.1,ssse3")]] void addBlockByInstructions(State& state, const std::byte* block) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i cdab = _mm_shuffle_epi32(load(state.data()), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(load(&state[4]), 0x1b);
  const __m128i abef_before = _mm_alignr_epi8(cdab, efgh, 8);
  const __m128i cdgh_before = _mm_blend_epi16(efgh, cdab, 0xf0);
  __m128i abef = abef_before;
  __m128i cdgh = cdgh_before;
  __m128i w[4];  // the last 16 words of the message schedule
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) {
    __m128i& now = w[i % 4];
    if (i < 4) {
      now = _mm_shuffle_epi8(load(block + 16 * i), big_endian);
    } else {
      const __m128i last = w[(i + 3) % 4];
      const __m128i seventh = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
      now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]), seventh), last);
    }
    const __m128i words = _mm_add_epi32(now, load(&kRounds[4 * i]));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, words);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(words, 0x0e));
  }
  const __m128i feba = _mm_shuffle_epi32(_mm_add_epi32(abef, abef_before), 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(_mm_add_epi32(cdgh, cdgh_before), 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data()), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool hasInstructions() { return false; }
void addBlockByInstructions(State& state, const std::byte* block) { addBlockPortably(state, block); }

#endif

}  // namespace railwise::sha256

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

void fillRandom(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), GRND_NONBLOCK);
    if (got < 0 && errno != EINTR) break;
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  if (bytes.empty()) return;
  std::random_device device;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(device());
}

std::string randomHex() {
  std::array<std::byte, 16> bytes;
  fillRandom(bytes);
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte >> 4)];
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte & std::byte{15})];
  }
  return text;
}

}  // namespace railwise
