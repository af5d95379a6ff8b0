// Arbitrary bytes as a graph file (NCCL_GRAPH_FILE) of a machine with two hosts, and as a topology file to
// search: the reader must be safe, what it takes must have known ranks and NICs, and what is written must
// read as the same graphs.
#include <cstdint>
#include <cstdlib>

#include "topo/machine/machine.h"
#include "topo/search/search.h"

namespace {

using namespace railwise::topo;
using railwise::Outcome;

void require(bool condition) {
  if (!condition) std::abort();
}

const Machine& knownMachine() {
  static const Machine kMachine = [] {
    std::string hosts;
    for (int host = 0; host < 2; ++host) {
      const std::string digit = std::to_string(host);
      const std::string pci = "<pci busid=\"0000:1" + digit;
      const std::string link = " link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">";
      hosts +=
          "<cpu numaid=\"0\" host_hash=\"0x" + digit + "1\" affinity=\"f\" arch=\"arm64\">" + pci +
          ":00.0\" class=\"0x030200\"" + link + "<gpu dev=\"0\" sm=\"100\" rank=\"" + digit +
          "\" gdr=\"1\"><nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>" +
          pci + ":01.0\" class=\"0x020700\"" + link + "<nic><net name=\"n\" dev=\"" + digit +
          "\" speed=\"400000\" port=\"1\" guid=\"0x" + digit + "\" gdr=\"1\"/></nic></pci></cpu>";
    }
    auto document = parseXml("<system version=\"1\">" + hosts + "</system>", "known.xml");
    require(document.ok());
    auto machine = makeMachine(std::move(*document), {}, "known");
    require(machine.ok());
    return std::move(*machine);
  }();
  return kMachine;
}

void useFile(const GraphFile& file, int nodes) {
  const Machine& machine = knownMachine();
  const Graph& graph = *machine.domains[0].graph;
  const Outcome<CommunicatorGraphs> found =
      searchGraphs(machine.domains[0], *machine.settings, {.nodes = nodes, .file = &file});
  if (!found.ok()) return require(found.error().starts_with("fuzz.xml:"));
  for (const ChannelGraph& channels : found->graphs)
    for (const Channel& channel : channels.channels) {
      for (const int rank : channel.ranks) require(graph.gpuOfRank(rank) >= 0);
      for (const int net : {channel.net_in, channel.net_out})
        require(net >= -1 && net < graph.count(NodeType::kNet));
    }
  const Outcome<std::string> text = graphFileText(*found, graph, *machine.settings);
  if (text.ok()) require(GraphFile::parse(*text, "written.xml").ok());
}

void searchMachineOf(std::string_view text) {
  Outcome<XmlDocument> document = parseXml(text, "fuzz.xml");
  if (!document.ok()) return;
  const Outcome<Machine> machine = makeMachine(std::move(*document), {}, "fuzz");
  if (machine.ok()) (void)searchMachine(*machine, {}).ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Outcome<GraphFile> file = GraphFile::parse(text, "fuzz.xml");
  if (!file.ok()) {
    require(file.error().starts_with("fuzz.xml:"));
  } else {
    for (const int nodes : {1, 2}) useFile(*file, nodes);
  }
  searchMachineOf(text);
  return 0;
}
