// Finds what is wrong with a topology file although NCCL may not complain: every silent trap of NCCL's
// parser, graph builder and detection becomes a finding with a line and a fix. docs/lint.md lists the rules.
// Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/json.h"
#include "topo/document/xml.h"
#include "topo/nccl_release.h"

namespace railwise::topo {

struct Finding {
  enum Severity {
    kError,    // NCCL's init fails, or NCCL certainly drops or misreads something
    kWarning,  // the file probably means something else
    kNote,     // worth knowing
  };
  Severity severity = kNote;
  XmlPosition position;  // line 0: the finding concerns the whole file
  std::string rule;      // for example "link-speed"; kebab-case, and does not change between versions
  std::string text;      // what the file says and what NCCL makes of it
  std::string fix;       // what to write or do
};

const char* severityName(Finding::Severity severity);  // "error", "warning", "note"

// The findings are in the order of the lines. `remarks` come from the reader that made the document.
std::vector<Finding> lint(const XmlDocument& document, const std::vector<XmlRemark>& remarks,
                          NcclVersion nccl = NcclVersion::kNewest);

struct LintReport {
  bool read = false;  // false: NCCL refuses the file, and the only finding says why
  std::vector<Finding> findings;
  std::optional<XmlDocument> document;  // what was read
};
LintReport lintFile(const std::string& path, NcclVersion nccl = NcclVersion::kNewest);
// As lintFile(), of a text that is already read. `file` is for messages.
LintReport lintText(std::string_view text, const std::string& file, NcclVersion nccl = NcclVersion::kNewest);
// Writes one object: file, accepted, findings (severity, rule, line, column, text, fix).
void writeLintJson(JsonWriter& json, const std::string& file, const LintReport& report);

// The names of all rules that a finding can have.
std::vector<std::string> lintRules();

}  // namespace railwise::topo
