// The tables of explain.cc: a warning that holds the words of a row means what the row says. The first row
// that fits counts, so the narrower stand first.
#pragma once

#include <span>
#include <string_view>

#include "doctor/log/job.h"

namespace railwise::doctor {

inline constexpr EventKind kCause = EventKind::kCause;
inline constexpr EventKind kConsequence = EventKind::kConsequence;
inline constexpr EventKind kRemark = EventKind::kRemark;
inline constexpr EventKind kHarmless = EventKind::kHarmless;

struct KnownLine {
  std::string_view words;  // "A|B&C": the line has A, or both B and C
  const char* check;
  EventKind kind;
  const char* what;
  const char* why;
  const char* fix;
};

std::span<const KnownLine> knownNcclWarnings();
// Of the plugin: without "NET/Railwise : ". Their fix is in the line itself.
std::span<const KnownLine> knownRailwiseWarnings();
std::span<const KnownLine> knownOtherLines();

// An error status of a completion, as verbs number them.
struct KnownStatus {
  int status;
  EventKind kind;
  const char* name;  // "transport retry counter exceeded"
  const char* why;
  const char* fix;
};
const KnownStatus* knownStatus(int status);

}  // namespace railwise::doctor
