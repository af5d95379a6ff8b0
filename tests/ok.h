// ASSERT_OK(x) and EXPECT_OK(x): x, a Status, Result or Outcome, is no error; else the test fails with the
// error's own text.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/status.h"

namespace railwise::test {

inline const char* codeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "success";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kInvalidUsage:
      return "invalid usage";
    case Code::kNoDevice:
      return "no device";
    case Code::kSystem:
      return "system error";
    case Code::kRemote:
      return "remote error";
    case Code::kRefused:
      return "refused by RAILWISE_STRICT";
    case Code::kInternal:
      return "internal error";
  }
  return "unknown";
}

inline std::string errorText(const Status& status) {
  std::string text = codeName(status.code);
  if (status.sys_errno != 0) text += ", errno " + std::to_string(status.sys_errno);
  return text;
}
template <typename T>
std::string errorText(const T& answer) {
  if constexpr (requires { answer.error(); }) return answer.error();
  else if constexpr (requires { answer.status(); }) return errorText(answer.status());
  else return "it is not ok()";
}

template <typename T>
testing::AssertionResult isOk(const char* expression, const T& answer) {
  if (answer.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << expression << ": " << errorText(answer);
}

}  // namespace railwise::test

#define ASSERT_OK(answer) ASSERT_PRED_FORMAT1(::railwise::test::isOk, answer)
#define EXPECT_OK(answer) EXPECT_PRED_FORMAT1(::railwise::test::isOk, answer)
