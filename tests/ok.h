// ASSERT_OK(x) and EXPECT_OK(x): x, a Status, Result or Outcome, is no error; else the test fails with the
// error's own text. EXPECT_HAS(text, part) and EXPECT_LACKS(text, part): the part stands in the text, or does
// not; else the test fails and shows both.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

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

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// How often the part stands in the text.
inline int countOf(std::string_view text, std::string_view part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

template <bool wanted>
testing::AssertionResult hasPart(const char* expression, const char* /*part*/, std::string_view text,
                                 std::string_view part) {
  if (has(text, part) == wanted) return testing::AssertionSuccess();
  return testing::AssertionFailure() << expression << (wanted ? " has no \"" : " has \"") << part << "\":\n"
                                     << text;
}

}  // namespace railwise::test

#define ASSERT_OK(answer) ASSERT_PRED_FORMAT1(::railwise::test::isOk, answer)
#define EXPECT_OK(answer) EXPECT_PRED_FORMAT1(::railwise::test::isOk, answer)
#define ASSERT_HAS(text, part) ASSERT_PRED_FORMAT2(::railwise::test::hasPart<true>, text, part)
#define EXPECT_HAS(text, part) EXPECT_PRED_FORMAT2(::railwise::test::hasPart<true>, text, part)
#define EXPECT_LACKS(text, part) EXPECT_PRED_FORMAT2(::railwise::test::hasPart<false>, text, part)
