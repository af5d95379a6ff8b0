#include "doctor/finding.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "base/installed_places.h"
#include "base/text/printable.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"

namespace railwise::doctor {
namespace {

// A finding shows so many places; --json has all of them.
constexpr std::size_t kShownPlaces = 4;
constexpr std::size_t kShownDevices = 8;

std::string countsText(const Findings& findings, const std::string& unjudged) {
  std::string text;
  const auto append = [&](Severity severity, const char* one, const char* many) {
    const std::size_t number = findings.count(severity);
    if (number == 0) return;
    text += (text.empty() ? "" : ", ") + counted(number, one, many);
  };
  append(Severity::kError, "error", "errors");
  append(Severity::kWarning, "warning", "warnings");
  append(Severity::kAdvice, "piece of advice", "pieces of advice");
  if (!text.empty()) return text;
  return unjudged.empty() ? "fine" : "nothing found; " + unjudged;
}

// The devices of a finding, each once: "mlx5_0 port 1, mlx5_1 port 1 and 6 more".
std::string devicesText(const Finding& finding) {
  std::vector<std::string> devices;
  std::set<std::string_view> known;
  for (const Seen& seen : finding.seen)
    if (!seen.device.empty() && known.insert(seen.device).second) devices.push_back(seen.device);
  return firstItems(devices, kShownDevices);
}

std::string titleOf(const Finding& finding) {
  const std::string devices = devicesText(finding);
  return devices.empty() ? finding.what : devices + ": " + finding.what;
}

// Several lines, each below the other: the label stands before the first.
void appendLines(std::string& text, const char* label, const std::string& lines) {
  for (const std::string& line : linesOf(lines)) {
    text += std::string("  ") + label + "  " + line + "\n";
    label = "    ";
  }
}

void appendFinding(std::string& text, const Finding& finding, const ReportStyle& style) {
  text += "\n" + wrappedText(titleOf(finding),
                             upperCase(severityName(finding.severity)) + " " + finding.check + ": ", "  ");
  std::string places;
  for (std::size_t i = 0; i < std::min(finding.seen.size(), kShownPlaces); ++i) {
    const Seen& seen = finding.seen[i];
    places += (i == 0 ? "" : "\n") + seen.where + (seen.where.empty() || seen.value.empty() ? "" : ": ") +
              seen.value;
  }
  if (finding.seen.size() > kShownPlaces)
    places += "\nand " + std::to_string(finding.seen.size() - kShownPlaces) + " more (--json has all)";
  appendLines(text, "seen", places);
  if (!finding.why.empty()) text += wrappedText(finding.why, "  why   ");
  appendLines(text, "fix ", finding.fix);
  appendLines(text, "more", docsFolder() + style.page + "#" + finding.check);
}

const char* verdictOf(const Findings& findings, const ReportStyle& style) {
  const char* const kVerdicts[] = {style.unjudged.empty() ? "fine" : "not judged", "warnings", "errors"};
  return kVerdicts[findings.exitStatus()];
}

}  // namespace

const char* severityName(Severity severity) {
  static constexpr const char* kNames[] = {"error", "warning", "advice"};
  return kNames[static_cast<int>(severity)];
}

void Findings::add(Finding finding) {
  const auto alike = [&](const Finding& other) {
    return other.check == finding.check && other.severity == finding.severity && other.what == finding.what;
  };
  const auto known = std::ranges::find_if(findings_, alike);
  if (known == findings_.end()) {
    findings_.push_back(std::move(finding));
    return;
  }
  constexpr const char* kOthers = "\nLikewise for the others.";
  if (known->fix != finding.fix && !known->fix.ends_with(kOthers)) known->fix += kOthers;
  std::move(finding.seen.begin(), finding.seen.end(), std::back_inserter(known->seen));
}

void Findings::add(std::string check, Severity severity, std::string what, std::vector<Seen> seen,
                   std::string why, std::string fix) {
  add({std::move(check), severity, std::move(what), std::move(seen), std::move(why), std::move(fix)});
}

void Findings::sort() { std::ranges::stable_sort(findings_, {}, &Finding::severity); }

std::size_t Findings::count(Severity severity) const {
  return static_cast<std::size_t>(std::ranges::count(findings_, severity, &Finding::severity));
}

int Findings::exitStatus() const {
  if (count(Severity::kError) > 0) return 2;
  return count(Severity::kWarning) > 0 ? 1 : 0;
}

std::string reportText(const Findings& unsorted, const ReportStyle& style) {
  Findings findings = unsorted;
  findings.sort();
  std::string text = style.subject + ": " + countsText(findings, style.unjudged) + "\n";
  if (!findings.empty() && findings.exitStatus() != 0) {
    const Finding& worst = findings.all().front();
    text += "worst: " + titleOf(worst) + "\n";
    if (!worst.fix.empty()) text += "type:  " + worst.fix.substr(0, worst.fix.find('\n')) + "\n";
  }
  for (const Finding& finding : findings.all()) appendFinding(text, finding, style);
  if (!style.looked.empty()) text += "\nLooked at:\n";
  for (const std::string& line : style.looked) text += wrappedText(line, "  ", "    ");
  if (!style.hidden.empty()) text += "\nNot looked at:\n";
  for (const std::string& line : style.hidden) text += wrappedText(line, "  ", "    ");
  return withoutControls(text, "\n\t");  // files and their names come from outside
}

void writeReportJson(JsonWriter& json, const Findings& unsorted, const ReportStyle& style) {
  Findings findings = unsorted;
  findings.sort();
  json.key("verdict").value(verdictOf(findings, style));
  json.key("counts").beginInlineObject();
  for (const Severity severity : {Severity::kError, Severity::kWarning, Severity::kAdvice})
    json.key(severityName(severity)).value(static_cast<uint64_t>(findings.count(severity)));
  json.endInlineObject();
  json.key("findings").objects(findings.all(), [&](const Finding& finding) {
    json.key("check").value(finding.check);
    json.key("severity").value(severityName(finding.severity));
    json.key("what").value(finding.what);
    json.key("seen").inlineObjects(finding.seen, [&](const Seen& seen) {
      json.key("device").value(seen.device).key("where").value(seen.where).key("value").value(seen.value);
    });
    json.key("why").value(finding.why);
    json.key("fix").value(finding.fix);
    json.key("page").value("docs/" + style.page + "#" + finding.check);
  });
  json.key("looked").array(style.looked);
  json.key("hidden").array(style.hidden);
}

}  // namespace railwise::doctor
