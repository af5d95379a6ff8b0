// What is wrong with a topology file although NCCL may say nothing: every silent trap of its parser, its
// graph builder and its detection as a finding with a line and a fix. The rules are listed in docs/lint.md.
// Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "topo/document/xml.h"

namespace railwise::topo {

struct Finding {
  enum Severity {
    kError,    // NCCL fails its init, or drops or mis-reads something for certain
    kWarning,  // probably not what was meant
    kNote,     // worth knowing
  };
  Severity severity = kNote;
  XmlPosition position;  // line 0: the file as a whole
  std::string rule;      // stable, kebab-case: "link-speed"
  std::string text;      // what is so and what NCCL makes of it
  std::string fix;       // what to write or do
};

const char* severityName(Finding::Severity severity);  // "error", "warning", "note"

// In the order of the lines. `remarks` are those of the reader that made the document.
std::vector<Finding> lint(const XmlDocument& document, const std::vector<XmlRemark>& remarks);

struct LintReport {
  bool read = false;  // false: the only finding says why NCCL refuses the file
  std::vector<Finding> findings;
};
LintReport lintFile(const std::string& path);
// One object: file, accepted, findings (severity, rule, line, column, text, fix).
void writeLintJson(JsonWriter& json, const std::string& file, const LintReport& report);

// Every rule id that a finding can carry.
std::vector<std::string> lintRules();

}  // namespace railwise::topo
