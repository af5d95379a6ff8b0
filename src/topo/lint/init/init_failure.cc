#include "topo/lint/init/init_failure.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "topo/graph/graph.h"
#include "topo/machine/machine.h"
#include "topo/search/search.h"

namespace railwise::topo {
namespace {

// What NCCL refuses before it has a graph has rules of its own.
bool makesGraph(const XmlDocument& document, const Settings& settings) {
  if (!needsCompletion(document)) return buildGraph(document, settings).ok();
  const auto completed = completeDocument(XmlDocument(document), settings, {}, nullptr);
  return completed.ok() && buildGraph(*completed, settings).ok();
}

// The first <pcilink> of a switch whose target has none back; else the whole file.
XmlPosition oneWayLink(const XmlDocument& document) {
  std::set<std::pair<std::string, std::string>> links;
  for (const XmlNode* node : document.order())
    if (node->name == "pcilink") links.emplace(node->parent->get("busid"), node->get("target"));
  for (const XmlNode* node : document.order())
    if (node->name == "pcilink" && !links.contains({node->get("target"), node->parent->get("busid")}))
      return node->position;
  return {};
}

}  // namespace

void addInitFailure(LintReport& report, const Settings& settings,
                    std::shared_ptr<const GraphFile> graph_file) {
  if (!report.document || report.document->version != 1) return;
  if (std::any_of(report.findings.begin(), report.findings.end(),
                  [](const Finding& finding) { return finding.severity == Finding::kError; }))
    return;
  const XmlDocument& document = *report.document;
  auto machine = loadDocument(XmlDocument(document), settings, {}, document.file);
  std::string error;
  if (machine.ok()) {
    machine->graph_file = std::move(graph_file);
    error = initFailure(*machine);
    if (error.empty()) return;
  } else {
    if (!makesGraph(document, settings)) return;
    error = machine.error();
    if (error.starts_with(document.file + ": ")) error.erase(0, document.file.size() + 2);
  }
  addInitFailure(report, error);
}

void addInitFailure(LintReport& report, const std::string& error) {
  auto [text, fix] = splitAdvice(error);
  const bool of_switches = report.document && text.find("<pcilink>") != std::string::npos;
  const XmlPosition position = of_switches ? oneWayLink(*report.document) : XmlPosition{};
  const auto after =
      std::find_if(report.findings.begin(), report.findings.end(),
                   [&](const Finding& finding) { return finding.position.line > position.line; });
  report.findings.insert(after, {Finding::kError, position, "init-fails", std::move(text), std::move(fix)});
}

}  // namespace railwise::topo
