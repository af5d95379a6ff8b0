// The findings of a judgement, by the names of their checks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <string>
#include <string_view>

#include "doctor/finding.h"

namespace railwise::doctor {

inline std::string checksOf(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings.all()) text += (text.empty() ? "" : " ") + finding.check;
  return text;
}

// The first finding that fits; null: none does.
template <std::predicate<const Finding&> Fits>
const Finding* findingOf(const Findings& findings, const Fits& fits) {
  const auto all = findings.all();
  const auto found = std::ranges::find_if(all, fits);
  return found == all.end() ? nullptr : &*found;
}
// Null: no finding of this check.
inline const Finding* findingOf(const Findings& findings, std::string_view check) {
  return findingOf(findings, [&](const Finding& finding) { return finding.check == check; });
}

// The finding of this check. Without one the test fails, at the caller's line.
inline Finding found(const Findings& findings, std::string_view check, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
  if (const Finding* const finding = findingOf(findings, check)) return *finding;
  ADD_FAILURE_AT(file, line) << "no " << check << ", but: " << checksOf(findings);
  return {.seen = {Seen()}};
}

}  // namespace railwise::doctor
