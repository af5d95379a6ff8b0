// Enhanced connection establishment, as mlx5 does it: what is set takes effect on the way to RTR.
#include <gtest/gtest.h>

#include <cerrno>

#include "softdev/endpoint.h"

namespace railwise::softdev::test {
namespace {

constexpr uint32_t kVendor = 0x5257;

uint32_t optionsOf(ibv_qp* qp) {
  ibv_ece ece{};
  EXPECT_EQ(queryEce(qp, &ece), 0);
  EXPECT_EQ(ece.vendor_id, kVendor);
  return ece.options;
}

TEST(Ece, OptionsAreReducedOnTheWayToRtr) {
  const OpenDevice device("ece=0x6");
  Endpoint end(device);
  EXPECT_EQ(optionsOf(end.qp), 0x6U) << "what the device offers";
  ASSERT_EQ(end.toInit(), 0);
  ibv_ece peers{kVendor, 0x3, 0};
  ASSERT_EQ(setEce(end.qp, &peers), 0);
  EXPECT_EQ(optionsOf(end.qp), 0U) << "nothing is agreed yet";
  ASSERT_EQ(end.toRtr(end.address()), 0);
  EXPECT_EQ(optionsOf(end.qp), 0x2U);
  ASSERT_EQ(end.toState(IBV_QPS_RESET), 0);
  EXPECT_EQ(optionsOf(end.qp), 0x6U);
}

TEST(Ece, AnotherVendorsIsRefused) {
  Endpoint end;
  ibv_ece other{0x15b3, 1, 0};
  EXPECT_EQ(setEce(end.qp, &other), EINVAL);
  ibv_ece masked{kVendor, 1, 1};
  EXPECT_EQ(setEce(end.qp, &masked), EINVAL);
  ibv_ece none{};
  EXPECT_EQ(setEce(end.qp, &none), 0);
}

}  // namespace
}  // namespace railwise::softdev::test
