#include "doctor/finding.h"

#include <algorithm>
#include <iterator>

namespace railwise::doctor {

const char* severityName(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kAdvice:
      return "advice";
  }
  return "";
}

void Findings::add(Finding finding) {
  const auto alike = [&](const Finding& other) {
    return other.check == finding.check && other.severity == finding.severity && other.what == finding.what;
  };
  const auto known = std::find_if(findings_.begin(), findings_.end(), alike);
  if (known == findings_.end()) {
    findings_.push_back(std::move(finding));
    return;
  }
  constexpr const char* kOthers = "\nLikewise for the others.";
  if (known->fix != finding.fix && !known->fix.ends_with(kOthers)) known->fix += kOthers;
  std::move(finding.seen.begin(), finding.seen.end(), std::back_inserter(known->seen));
}

void Findings::sort() {
  std::stable_sort(findings_.begin(), findings_.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
}

std::size_t Findings::count(Severity severity) const {
  return static_cast<std::size_t>(std::count_if(findings_.begin(), findings_.end(),
                                                [&](const Finding& f) { return f.severity == severity; }));
}

int Findings::exitStatus() const {
  if (count(Severity::kError) > 0) return 2;
  return count(Severity::kWarning) > 0 ? 1 : 0;
}

}  // namespace railwise::doctor
