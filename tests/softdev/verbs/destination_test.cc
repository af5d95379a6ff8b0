// Addresses that no port of the fabric has: a software device of another machine.
#include <gtest/gtest.h>

#include <cerrno>

#include "softdev/endpoint.h"
#include "softdev/verbs/transitions.h"

namespace railwise::softdev::test {
namespace {

TEST(Destination, AnotherMachinesGidIsRefusedAtOnce) {
  Endpoint end;
  Address elsewhere = end.address();
  ASSERT_EQ(end.toInit(), 0);
  elsewhere.gid.raw[15] ^= 0x55;
  EXPECT_EQ(end.toRtr(elsewhere), EHOSTUNREACH);
  EXPECT_EQ(end.state(), IBV_QPS_INIT);  // as it was: the right address may still come
  EXPECT_EQ(end.toRtr(end.address()), 0);
}

TEST(Destination, SoIsAnotherMachinesLid) {
  Endpoint end("link=ib");
  Address elsewhere = end.address();
  ASSERT_EQ(end.toInit(), 0);
  elsewhere.lid = static_cast<uint16_t>(elsewhere.lid == 4000 ? 4001 : 4000);
  EXPECT_EQ(end.toRtr(elsewhere), EHOSTUNREACH);
  EXPECT_EQ(end.toRtr(end.address()), 0);
}

}  // namespace
}  // namespace railwise::softdev::test
