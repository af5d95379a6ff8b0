#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "base/interfaces.h"

namespace railwise {
namespace {

bool inside(const char* range, const char* address) {
  const auto parsed = parseAddressRange(range);
  EXPECT_TRUE(parsed) << range;
  std::array<uint8_t, 16> bytes = {};
  EXPECT_EQ(inet_pton(AF_INET6, address, bytes.data()), 1) << address;
  return parsed->contains(bytes);
}

TEST(AddressRange, Contains) {
  EXPECT_TRUE(inside("10.1.0.0/16", "::ffff:10.1.255.255"));
  EXPECT_FALSE(inside("10.1.0.0/16", "::ffff:10.2.0.0"));
  EXPECT_TRUE(inside("10.1.0.0/15", "::ffff:10.0.0.1"));
  EXPECT_TRUE(inside("10.1.0.77/32", "::ffff:10.1.0.77"));
  EXPECT_FALSE(inside("10.1.0.77/32", "::ffff:10.1.0.76"));
  EXPECT_TRUE(inside("0.0.0.0/0", "::ffff:192.168.0.1"));
  EXPECT_FALSE(inside("0.0.0.0/0", "2001:db8::1")) << "of the other family";
  EXPECT_TRUE(inside("2001:db8::/32", "2001:db8:1::1"));
  EXPECT_FALSE(inside("2001:db8::/32", "2001:db9::1"));
  EXPECT_TRUE(inside("2001:db8::/29", "2001:dbf::1"));
  EXPECT_TRUE(inside("::/0", "2001:db9::1"));
}

TEST(AddressRange, RefusesWhatIsNone) {
  for (const char* bad : {"", "/", "10.1.0.0", "10.1.0.0/", "10.1.0.0/33", "10.1.0.0/-1", "10.1.0.0/8x",
                          "10.1/16", "2001:db8::/129", "host/24", "10.1.0.0/16/8"})
    EXPECT_FALSE(parseAddressRange(bad)) << bad;
}

}  // namespace
}  // namespace railwise
