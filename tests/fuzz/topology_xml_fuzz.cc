// Arbitrary bytes as a topology file: the reader must be safe, the writer's output must read as the same
// document, lint must take whatever was read, and so must the graph, its paths and the choices. A corpus to
// start from:
// ../shared/topologies/machines/quirks, or any topology files.
#include <cstdint>
#include <cstdlib>
#include <set>

#include "base/text/printable.h"
#include "topo/document/xml.h"
#include "topo/lint/lint.h"
#include "topo/machine/assumed_devices.h"
#include "topo/machine/machine.h"
#include "topo/paths/policy.h"

namespace {

using namespace railwise::topo;
using railwise::Outcome;

void require(bool condition) {
  if (!condition) std::abort();
}

// `b` is `a`, written and read again. XML has no control characters, so the writer replaces them.
bool isWritten(const std::string& a, const std::string& b) {
  return railwise::withoutControls(a, "\n\t") == b;
}

// Kinds aside: an element that is opened and closed at once is written as a single tag.
void requireSame(const XmlNode& a, const XmlNode& b) {
  require(isWritten(a.name, b.name) && a.attributes.size() == b.attributes.size() &&
          a.children.size() == b.children.size());
  for (std::size_t i = 0; i < a.attributes.size(); i++) {
    require(isWritten(a.attributes[i].name, b.attributes[i].name) &&
            isWritten(a.attributes[i].value, b.attributes[i].value));
  }
  for (std::size_t i = 0; i < a.children.size(); i++) requireSame(*a.children[i], *b.children[i]);
}

void checkFindings(const std::vector<Finding>& findings) {
  static const std::vector<std::string> kList = lintRules();
  static const std::set<std::string> kRules(kList.begin(), kList.end());
  for (const Finding& finding : findings) require(kRules.count(finding.rule) == 1 && !finding.text.empty());
}

void useMachine(const Machine& machine) {
  const Paths& paths = *machine.paths;
  const int gpus = machine.graph->count(NodeType::kGpu);
  const int nets = machine.graph->count(NodeType::kNet);
  for (int gpu = 0; gpu < gpus; gpu++) {
    (void)localNets(paths, gpu).ok();
    if (gpus > 0) (void)checkP2p(paths, gpu, gpus - 1 - gpu).ok();
    for (int net = 0; net < nets; net++) {
      (void)checkGdr(paths, gpu, net, false).ok();
      (void)needFlush(paths, gpu, net);
      (void)proxyRank(paths, gpu, net).ok();
    }
  }
}

void useDocument(const XmlDocument& document) {
  const Outcome<Machine> machine = makeMachine(document, {}, "fuzz");
  if (machine.ok()) useMachine(*machine);
}

// Each rank has one GPU, and each device a name that is its own. An address is what the file has, also "".
void checkAssumed(const AssumedDevices& devices) {
  std::set<int> ranks;
  for (const AssumedGpu& gpu : devices.gpus) require(ranks.insert(gpu.rank).second);
  std::set<std::string> names;
  for (const NetDevice& net : devices.nets) require(names.insert(net.name).second);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<XmlRemark> remarks;
  Outcome<XmlDocument> document = parseXml(text, "fuzz.xml", {}, &remarks);
  if (!document.ok()) {
    require(document.error().starts_with("fuzz.xml:"));
    return 0;
  }
  const Outcome<XmlDocument> again = parseXml(writeXml(*document), "written.xml");
  require(again.ok());
  requireSame(*document->system(), *again->system());
  checkFindings(lint(*document, remarks));
  useDocument(*document);
  Detection detection;
  detection.fuse_nics = size % 2 == 0;
  detection.nvswitch_links = static_cast<int>(size % 3);
  checkAssumed(assumeDevices(*document, detection));
  const Outcome<Machine> loaded = loadDocument(*document, {}, detection, "fuzz");
  if (loaded.ok()) useMachine(*loaded);
  std::vector<std::string> told;
  const Outcome<XmlDocument> complete = completeDocument(std::move(*document), {}, detection, &told);
  if (complete.ok()) useDocument(*complete);
  return 0;
}
