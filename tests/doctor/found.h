// The findings of a judgement, by the names of their checks.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "doctor/finding.h"

namespace railwise::doctor {

inline std::string checksOf(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings.all()) text += (text.empty() ? "" : " ") + finding.check;
  return text;
}

// Null: no finding of this check.
inline const Finding* findingOf(const Findings& findings, std::string_view check) {
  for (const Finding& finding : findings.all())
    if (finding.check == check) return &finding;
  return nullptr;
}

// The finding of this check. Without one the test fails, at the caller's line.
inline Finding found(const Findings& findings, std::string_view check, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
  if (const Finding* const finding = findingOf(findings, check)) return *finding;
  ADD_FAILURE_AT(file, line) << "no " << check << ", but: " << checksOf(findings);
  return {.seen = {Seen()}};
}

}  // namespace railwise::doctor
