// What `railwise doctor` says is wrong: a list of findings. Plain values; thread-safe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/text/json.h"

namespace railwise::doctor {

enum class Severity {
  kError,    // jobs fail, hang, or lose most of their speed
  kWarning,  // a job is slower or less safe than this machine allows
  kAdvice,   // worth knowing; costs nothing, or only in some jobs
};
const char* severityName(Severity severity);  // "error", "warning", "advice"

// Where something was seen: one device, one file, its value.
struct Seen {
  std::string device;  // "mlx5_0 port 1", "GPU 3 (0000:1b:00.0)", "rank 7 on node12"; empty: the machine
  std::string where;   // a path ("/sys/class/..."), "FILE:LINE", an environment variable, a command
  std::string value;   // what is there; one line
};

struct Finding {
  std::string check;  // kebab-case, does not change between versions; an anchor in the documentation
  Severity severity = Severity::kWarning;
  std::string what;        // the fault in a clause without the device's name: "the port is down"
  std::vector<Seen> seen;  // at least one
  std::string why;         // what it costs, in one sentence, with a figure where there is one
  std::string fix;         // what to type, one command or step per line
};

// The findings of a run, in the order in which people should read them.
class Findings {
 public:
  // A finding that differs from an earlier one in `seen` alone is joined to it: eight NICs with the same
  // fault are one finding.
  void add(Finding finding);
  void add(std::string check, Severity severity, std::string what, std::vector<Seen> seen, std::string why,
           std::string fix);
  // Moves the worst to the front. Findings of one severity keep their order.
  void sort();

  std::span<const Finding> all() const { return findings_; }
  std::size_t count(Severity severity) const;
  bool empty() const { return findings_.empty(); }
  // Exit status of the command: 0 no error and no warning, 1 a warning, 2 an error.
  int exitStatus() const;

 private:
  std::vector<Finding> findings_;
};

struct ReportStyle {
  std::string subject;              // what was looked at: "node17", "3 logs of 16 ranks"
  std::string page = "doctor.md";   // the page in docs/ that has a heading for each check
  std::string unjudged;             // why the verdict cannot be "fine": "no check could look"; "": it can
  std::vector<std::string> looked;  // "8 RDMA ports: mlx5_0 ..."; shown below the findings
  std::vector<std::string> hidden;  // what could not be looked at, and what would help: "as root: ACS"
};

// The verdict with the worst finding and what to type comes first, then each finding. A finding on many
// devices names the first ones.
std::string reportText(const Findings& findings, const ReportStyle& style);

// Writes the keys "verdict" ("fine", "not judged", "warnings" or "errors"), "counts", "findings" (check,
// severity, what, seen, why, fix, page), "looked", "hidden" into the object that is open.
void writeReportJson(JsonWriter& json, const Findings& findings, const ReportStyle& style);

}  // namespace railwise::doctor
