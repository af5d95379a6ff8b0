// Findings as a text for people and as JSON. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/text/json.h"
#include "doctor/finding.h"

namespace railwise::doctor {

struct ReportStyle {
  std::string subject;              // what was looked at: "node17", "3 logs of 16 ranks"
  std::string page = "doctor.md";   // the page in docs/ that has a heading for each check
  std::vector<std::string> looked;  // "8 RDMA ports: mlx5_0 ..."; shown below the findings
  std::vector<std::string> hidden;  // what could not be looked at, and what would help: "as root: ACS"
};

// The verdict with the worst finding and what to type comes first, then each finding. A finding on many
// devices names the first ones.
std::string reportText(const Findings& findings, const ReportStyle& style);

// Writes the keys "verdict" ("fine", "warnings" or "errors"), "counts", "findings" (check, severity, what,
// seen, why, fix, page), "looked", "hidden" into the object that is open.
void writeReportJson(JsonWriter& json, const Findings& findings, const ReportStyle& style);

// A short text by a format of printf; it is cut off after 159 characters.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

}  // namespace railwise::doctor
