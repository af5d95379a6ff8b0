#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <type_traits>

namespace railwise {
namespace {

static_assert(std::is_trivially_copyable_v<Status>);
static_assert(sizeof(Status) == 8);

Status failing() { return {Code::kSystem, 5}; }

Status passesUp() {
  RAILWISE_TRY(failing());
  return Status::success();
}

TEST(Status, TryPassesFailuresUp) {
  EXPECT_EQ(passesUp().code, Code::kSystem);
  EXPECT_EQ(passesUp().sys_errno, 5);
}

TEST(Status, EveryCodeHasItsOwnName) {
  EXPECT_STREQ(codeName(Code::kOk), "success");
  EXPECT_STREQ(codeName(Code::kRemote), "remote error");
  EXPECT_STREQ(codeName(static_cast<Code>(99)), "unknown");
}

TEST(Result, HoldsAValueOrAStatus) {
  Result<std::unique_ptr<int>> value = std::make_unique<int>(7);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(**value, 7);
  const Result<std::unique_ptr<int>> status = failing();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.status().sys_errno, 5);
}

}  // namespace
}  // namespace railwise
