// SHA-256 and HMAC-SHA-256 against the examples of their standards.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "base/secrets.h"

namespace railwise {
namespace {

std::span<const std::byte> bytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

std::string sha256(const std::string& text) { return hex(Sha256().add(bytesOf(text)).digest()); }
std::string hmac(const std::string& key, const std::string& text) {
  return hex(Hmac(bytesOf(key)).add(bytesOf(text)).digest());
}

// FIPS 180-4's examples (NIST's "SHA256.pdf"), and the long one of FIPS 180-2.
TEST(Sha256, KnowsTheExamplesOfItsStandard) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(
      sha256("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmn"
             "opqrsmnopqrstnopqrstu"),
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Blocks of bytes that a generator draws, each added to the state that the last one has left.
TEST(Sha256, TheProcessorsInstructionsDoTheSame) {
  if (!sha256::hasInstructions()) GTEST_SKIP() << "this processor has no instructions for SHA-256";
  std::minstd_rand draw(1);
  sha256::State portable = {1, 2, 3, 4, 5, 6, 7, 8};
  sha256::State other = portable;
  for (int i = 0; i < 10'000; ++i) {
    std::array<std::byte, sha256::kBlockBytes> block;
    for (std::byte& byte : block) byte = static_cast<std::byte>(draw() >> 8);
    sha256::addBlockPortably(portable, block.data());
    sha256::addBlockByInstructions(other, block.data());
    ASSERT_EQ(portable, other) << i;
  }
}

// As everything else is computed by one of both.
TEST(Sha256, ThePortableWayKnowsTheStandardsFirstExample) {
  std::array<std::byte, sha256::kBlockBytes> block = {std::byte{'a'}, std::byte{'b'}, std::byte{'c'},
                                                      std::byte{0x80}};
  block.back() = std::byte{24};
  sha256::State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  sha256::addBlockPortably(state, block.data());
  const sha256::State known = {0xba7816bf, 0x8f01cfea, 0x414140de, 0x5dae2223,
                               0xb00361a3, 0x96177a9c, 0xb410ff61, 0xf20015ad};
  EXPECT_EQ(state, known);
}

// The padding has its own cases around the end of a block.
TEST(Sha256, IsTheSameInWhateverPieces) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const std::string begin = text.substr(0, length);
    for (const std::size_t piece : {1U, 3U, 63U, 64U, 65U}) {
      Sha256 sum;
      for (std::size_t at = 0; at < length; at += piece) sum.add(bytesOf(begin.substr(at, piece)));
      ASSERT_EQ(hex(sum.digest()), sha256(begin)) << length << " in pieces of " << piece;
    }
  }
  // `printf 'a%.0s' {1..N} | sha256sum`
  EXPECT_EQ(sha256(std::string(55, 'a')), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(sha256(std::string(56, 'a')), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(sha256(std::string(64, 'a')), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

// RFC 4231, test cases 1 to 4, 6 and 7.
TEST(Hmac, KnowsTheExamplesOfItsStandard) {
  EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string counting;
  for (char c = 1; c <= 25; ++c) counting += c;
  EXPECT_EQ(hmac(counting, std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(
      hmac(std::string(131, '\xaa'),
           "This is a test using a larger than block-size key and a larger than block-size data. The key "
           "needs to be hashed before being used by the HMAC algorithm."),
      "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hmac, ACopyGoesOnByItself) {
  const Hmac key(bytesOf("Jefe"));
  Hmac one = key;
  EXPECT_EQ(hex(one.add(bytesOf("what do ya want ")).add(bytesOf("for nothing?")).digest()),
            hmac("Jefe", "what do ya want for nothing?"));
  Hmac other = key;
  EXPECT_EQ(hex(other.add(bytesOf("x")).digest()), hmac("Jefe", "x"));
}

TEST(SameInConstantTime, ComparesEveryByte) {
  const std::string text = "sixteen bytes...";
  EXPECT_TRUE(sameInConstantTime(bytesOf(text), bytesOf(text)));
  EXPECT_TRUE(sameInConstantTime({}, {}));
  EXPECT_FALSE(sameInConstantTime(bytesOf(text), bytesOf(text.substr(1))));
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = text;
      other[i] = static_cast<char>(other[i] ^ 1 << bit);
      EXPECT_FALSE(sameInConstantTime(bytesOf(text), bytesOf(other)));
    }
  }
}

}  // namespace
}  // namespace railwise
