#include "topo/machine/load.h"

#include <map>

#include "topo/machine/completion.h"

namespace railwise::topo {
namespace {

// Returns "", or why no communicator can be made of hosts that were described by several files.
std::string repeatedRank(const XmlDocument& document) {
  std::map<std::string, const XmlNode*> ranks;
  for (const XmlNode* node : document.order()) {
    if (node->name != "gpu" || !node->has("rank")) continue;
    const auto [first, added] = ranks.emplace(node->get("rank"), node);
    if (added || first->second->parent == node->parent) continue;
    return where(document, node->position) + ": rank " + node->get("rank") + " is in line " +
           std::to_string(first->second->position.line) +
           " already, on another GPU of this NVLink domain; give each GPU its own rank";
  }
  return "";
}

void identifyCpus(XmlDocument& document, std::vector<std::string>& remarks) {
  for (XmlNode* node : document.order()) {
    if (node->name != "cpu" || (node->has("arch") && node->has("vendor"))) continue;
    setCpuIdentity(*node);
    if (node->get("arch") == "x86_64")
      remarks.push_back("<cpu numaid=\"" + node->get("numaid") +
                        "\"> has no identity: Sapphire Rapids assumed");
  }
}

}  // namespace

Outcome<Machine> loadDocument(XmlDocument document, const Settings& settings, const Detection& detection,
                              std::string name) {
  std::vector<std::string> remarks;
  Assumed assumed;
  identifyCpus(document, remarks);
  const bool complete = detection.fuse_nics || needsCompletion(document);
  if (complete) {
    auto completed = completeDocument(std::move(document), settings, detection, &remarks, &assumed);
    if (!completed.ok()) return completed.failure();
    document = std::move(*completed);
  } else if (const std::string failed = repeatedRank(document); !failed.empty()) {
    return Error{failed};
  }
  auto machine = makeMachine(std::move(document), settings, std::move(name));
  if (!machine.ok()) return machine;
  machine->completed = complete;
  machine->remarks = std::move(remarks);
  machine->assumed = assumed;
  return machine;
}

Outcome<Machine> loadFile(const std::string& path, const Settings& settings, const Detection& detection) {
  auto document = readXmlFile(path, {.max_nodes = detection.any_size ? 0 : kXmlMaxNodes});
  if (!document.ok()) return Error{document.error()};
  const std::size_t slash = path.rfind('/');
  return loadDocument(std::move(*document), settings, detection,
                      path.substr(slash == std::string::npos ? 0 : slash + 1));
}

}  // namespace railwise::topo
