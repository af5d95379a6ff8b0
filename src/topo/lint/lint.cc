#include "topo/lint/lint.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "base/pci.h"
#include "topo/lint/rules.h"

namespace railwise::topo {
namespace {

// Makes a finding of the reader's error, "FILE:LINE:COLUMN: what is wrong; what to do".
Finding parseFinding(const std::string& file, const std::string& error) {
  Finding finding{Finding::kError, {}, Rule("parse-error").name(), error, ""};
  if (finding.text.starts_with(file + ":")) finding.text.erase(0, file.size() + 1);
  int length = 0;
  if (std::sscanf(finding.text.c_str(), "%d:%d:%n", &finding.position.line, &finding.position.column,
                  &length) == 2) {
    finding.text.erase(0, static_cast<std::size_t>(length));
  }
  finding.text.erase(0, finding.text.find_first_not_of(' '));
  std::tie(finding.text, finding.fix) = splitAdvice(finding.text);
  return finding;
}

}  // namespace

const char* severityName(Finding::Severity severity) {
  static constexpr const char* kNames[] = {"error", "warning", "note"};
  return kNames[severity];
}

std::vector<std::string> lintRules() { return {kLintRules.begin(), kLintRules.end()}; }

Linter::Linter(const XmlDocument& document, NcclVersion nccl) : document_(document), nccl_(nccl) {
  for (const XmlNode* node : document.order()) {
    by_name_[node->name].push_back(node);
    if (node->name == "pci" && node->has("busid"))
      by_busid_.emplace(std::pair{hostOf(*node), busIdToNumber(*node->find("busid"))}, node);
    if (node->name == "gpu" && node->has("rank")) describes_gpus_ = true;
    if (node->name == "net" && (node->has("dev") || node->has("name"))) describes_nets_ = true;
  }
}

const std::vector<const XmlNode*>& Linter::all(std::string_view name) const {
  static const std::vector<const XmlNode*> kNone;
  const auto found = by_name_.find(name);
  return found != by_name_.end() ? found->second : kNone;
}

const XmlNode* Linter::pciAt(const XmlNode& from, std::string_view busid) const {
  const auto found = by_busid_.find({hostOf(from), busIdToNumber(busid)});
  return found != by_busid_.end() ? found->second : nullptr;
}

void Linter::add(Finding::Severity severity, Rule rule, XmlPosition position, std::string text,
                 std::string fix) {
  findings_.push_back({severity, position, rule.name(), std::move(text), std::move(fix)});
}
void Linter::error(Rule rule, XmlPosition position, std::string text, std::string fix) {
  add(Finding::kError, rule, position, std::move(text), std::move(fix));
}
void Linter::warning(Rule rule, XmlPosition position, std::string text, std::string fix) {
  add(Finding::kWarning, rule, position, std::move(text), std::move(fix));
}
void Linter::note(Rule rule, XmlPosition position, std::string text, std::string fix) {
  add(Finding::kNote, rule, position, std::move(text), std::move(fix));
}

std::vector<Finding> Linter::take() {
  const auto before = [](const Finding& a, const Finding& b) {
    return std::tie(a.position.line, a.position.column) < std::tie(b.position.line, b.position.column);
  };
  std::stable_sort(findings_.begin(), findings_.end(), before);
  return std::move(findings_);
}

std::string inQuotes(std::string_view value) {
  std::string text = "\"";
  for (const char c : value.substr(0, 60)) text += c >= ' ' && c < 127 ? c : '?';
  return text + (value.size() > 60 ? "...\"" : "\"");
}

std::string pciText(const XmlNode& pci) {
  const std::string busid = inQuotes(pci.get("busid", "without busid"));
  return "<pci " + busid.substr(1, busid.size() - 2) + ">";
}

XmlPosition placeOf(const XmlNode& node, std::string_view attribute) {
  for (const XmlAttribute& candidate : node.attributes) {
    if (candidate.name == attribute) return candidate.position;
  }
  return node.position;
}

std::vector<std::string> missingOf(const XmlNode& node, std::initializer_list<const char*> attributes) {
  std::vector<std::string> missing;
  for (const char* name : attributes)
    if (!node.has(name)) missing.emplace_back(name);
  return missing;
}

bool hasRank(const XmlNode& pci) {
  return std::any_of(pci.children.begin(), pci.children.end(),
                     [](const XmlNode* child) { return child->name == "gpu" && child->has("rank"); });
}

std::string moreText(const std::vector<const XmlNode*>& nodes) {
  return nodes.size() > 1 ? " (and " + std::to_string(nodes.size() - 1) + " more like it)" : "";
}

bool hasNamedNet(const XmlNode& pci) {
  const XmlNode* nic = pci.child("nic");
  return nic != nullptr && std::any_of(nic->children.begin(), nic->children.end(),
                                       [](const XmlNode* net) { return net->has("name"); });
}

std::vector<Finding> lint(const XmlDocument& document, const std::vector<XmlRemark>& remarks,
                          NcclVersion nccl) {
  Linter linter(document, nccl);
  lintTags(linter, remarks);
  lintCpus(linter);
  lintPci(linter);
  lintGpus(linter);
  lintNvlinks(linter);
  lintNets(linter);
  return linter.take();
}

static LintReport reportOf(Outcome<XmlDocument> document, const std::string& file,
                           const std::vector<XmlRemark>& remarks, NcclVersion nccl) {
  if (!document.ok()) return {false, {parseFinding(file, document.error())}, {}};
  LintReport report{true, lint(*document, remarks, nccl), {}};
  report.document = std::move(*document);
  return report;
}

LintReport lintFile(const std::string& path, NcclVersion nccl) {
  std::vector<XmlRemark> remarks;
  return reportOf(readXmlFile(path, {}, &remarks), path, remarks, nccl);
}

LintReport lintText(std::string_view text, const std::string& file, NcclVersion nccl) {
  std::vector<XmlRemark> remarks;
  return reportOf(parseXml(text, file, {}, &remarks), file, remarks, nccl);
}

void writeLintJson(JsonWriter& json, const std::string& file, const LintReport& report) {
  json.beginObject();
  json.key("file").value(file).key("accepted").value(report.read);
  json.key("findings").objects(report.findings, [&](const Finding& finding) {
    json.key("severity").value(severityName(finding.severity)).key("rule").value(finding.rule);
    json.key("line").value(finding.position.line).key("column").value(finding.position.column);
    json.key("text").value(finding.text).key("fix").value(finding.fix);
  });
  json.endObject();
}

}  // namespace railwise::topo
