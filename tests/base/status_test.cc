#include <gtest/gtest.h>

#include <memory>
#include <type_traits>

#include "base/outcome.h"
#include "tests/ok.h"

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

TEST(Outcome, HoldsAValueOrAText) {
  const Outcome<std::unique_ptr<int>> value = std::make_unique<int>(7);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(**value, 7);
  const Outcome<std::unique_ptr<int>> error = Error{"no such file", Code::kInvalidUsage};
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.error(), "no such file");
  EXPECT_EQ(error.failure().code, Code::kInvalidUsage);
}

TEST(Outcome, OfVoidHoldsNothingOrAText) {
  const auto check = [](bool good) -> Outcome<void> {
    if (!good) return Error{"bad"};
    return {};
  };
  EXPECT_TRUE(check(true).ok());
  EXPECT_EQ(check(false).error(), "bad");
}

TEST(Result, HoldsAValueOrAStatus) {
  Result<std::unique_ptr<int>> value = std::make_unique<int>(7);
  ASSERT_OK(value);
  EXPECT_EQ(**value, 7);
  const Result<std::unique_ptr<int>> status = failing();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.status().sys_errno, 5);
}

}  // namespace
}  // namespace railwise
