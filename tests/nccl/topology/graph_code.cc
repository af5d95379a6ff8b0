// NCCL's graph code alone: reads a topology file that describes its GPUs and NICs in full, makes the paths
// and searches the rings and trees, and prints them as `railwise topo graphs --format json` does. NCCL's own
// objects do all of it (libnccl_host.a); only the ranks of the communicator are made up. graphs_check.py
// compares.
//
//   nccl_graph_code FILE.xml
//
// Ranks are those of the file. Exit status: 0 printed, 1 NCCL refuses the file, 2 a mistake on the command
// line.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm.h"
#include "graph.h"
#include "graph/topo.h"
#include "graph/xml.h"
#include "transport.h"

namespace {

void must(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: ncclResult_t %d\n", what, result);
  std::exit(1);
}

struct Xml {
  ncclXml* xml = nullptr;
  Xml() { must(xmlAlloc(&xml, NCCL_TOPO_XML_MAX_NODES), "xmlAlloc"); }
  ~Xml() { std::free(xml); }
};

// The host_hash of the file's first <cpu>; 0: it has none.
uint64_t hostOf(ncclXml* xml) {
  ncclXmlNode* cpu = nullptr;
  must(xmlFindTag(xml, "cpu", &cpu), "xmlFindTag");
  const char* hash = nullptr;
  if (cpu != nullptr) must(xmlGetAttr(cpu, "host_hash", &hash), "xmlGetAttr");
  return hash != nullptr ? std::strtoull(hash, nullptr, 16) : 0;
}

// The ranks of one host, or of two equal ones. Only the fields that the graph code reads are set.
struct Ranks {
  std::vector<ncclPeerInfo> peers;
  std::unique_ptr<ncclComm, decltype(&std::free)> comm{
      static_cast<ncclComm*>(std::calloc(1, sizeof(ncclComm))), &std::free};

  Ranks(ncclTopoSystem* system, int rank, int nodes) {
    const ncclTopoNodeSet& gpus = system->nodes[GPU];
    int ranks = 0;
    for (int g = 0; g < gpus.count; ++g) ranks = std::max(ranks, gpus.nodes[g].gpu.rank + 1);
    peers.resize(static_cast<std::size_t>(ranks));
    for (int g = 0; g < gpus.count; ++g) {
      const ncclTopoNode& gpu = gpus.nodes[g];
      ncclPeerInfo& peer = peers[static_cast<std::size_t>(gpu.gpu.rank)];
      peer.rank = gpu.gpu.rank;
      peer.hostHash = 1;
      peer.busId = NCCL_TOPO_ID_LOCAL_ID(gpu.id);
    }
    comm->rank = rank;
    comm->nRanks = gpus.count * nodes;
    comm->nNodes = nodes;
    comm->peerInfo = peers.data();
    comm->topo = system;
  }
};

// The system that the rank `rank` sees after init has trimmed it.
ncclTopoSystem* systemOf(ncclXml* xml, int rank, int nodes) {
  ncclTopoSystem* system = nullptr;
  must(ncclTopoGetSystemFromXml(xml, &system, hostOf(xml)), "ncclTopoGetSystemFromXml");
  if (system->nodes[GPU].count == 0) must(ncclInvalidUsage, "no GPU");
  if (rank < 0) return system;
  const Ranks ranks(system, rank, nodes);
  must(ncclTopoComputePaths(system, ranks.comm.get()), "ncclTopoComputePaths");
  must(ncclTopoTrimSystem(system, ranks.comm.get()), "ncclTopoTrimSystem");
  must(ncclTopoComputePaths(system, ranks.comm.get()), "ncclTopoComputePaths");
  must(ncclTopoSearchInit(system), "ncclTopoSearchInit");
  return system;
}

const char* const kPathNames[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                  "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};

long long device(const ncclTopoSystem* system, int64_t id) {
  const ncclTopoNodeSet& nets = system->nodes[NET];
  for (int n = 0; n < nets.count; ++n) {
    if (nets.nodes[n].id == id) return nets.nodes[n].net.dev;
  }
  return -1;
}

// A graph to search, with the inputs of init.cc.
struct Search {
  const char* name;
  int id;
  int pattern;
  int min_channels;
  int max_channels;
  bool collnet;
  bool head_only;  // of each channel only the head is meant
};

// Searches and prints one graph; returns its number of channels. A search that fails is only its result code.
int search(ncclTopoSystem* system, const Search& input) {
  const auto graph = std::make_unique<ncclTopoGraph>();  // large: 64 channels of 640 ranks
  graph->id = input.id;
  graph->pattern = input.pattern;
  graph->minChannels = input.min_channels;
  graph->maxChannels = input.max_channels;
  graph->collNet = input.collnet ? 1 : 0;
  const ncclResult_t result = ncclTopoCompute(system, graph.get());
  std::printf(", \"%s\": {\"rc\": %d", input.name, result);
  if (result == ncclSuccess) {
    std::printf(
        ", \"pattern\": %d, \"cross_nic\": %d, \"channels\": %d, \"bw_intra\": %.9g, \"bw_inter\": %.9g",
        graph->pattern, graph->crossNic, graph->nChannels, static_cast<double>(graph->bwIntra),
        static_cast<double>(graph->bwInter));
    std::printf(
        ", \"latency_inter\": %.9g, \"type_intra\": \"%s\", \"type_inter\": \"%s\", \"same\": %d, \"hops\": "
        "%d",
        static_cast<double>(graph->latencyInter), kPathNames[graph->typeIntra], kPathNames[graph->typeInter],
        graph->sameChannels, graph->nHops);
    std::printf(", \"order\": [");
    const int gpus = system->nodes[GPU].count;
    const bool net = system->inter != 0;
    for (int channel = 0; channel < graph->nChannels; ++channel) {
      std::printf("%s[%lld, [", channel > 0 ? ", " : "",
                  net ? device(system, graph->inter[channel * 2]) : -1);
      for (int i = 0; i < (input.head_only ? 1 : gpus); ++i)
        std::printf("%s%d", i > 0 ? ", " : "", graph->intra[channel * gpus + i]);
      std::printf("], %lld]", net ? device(system, graph->inter[channel * 2 + 1]) : -1);
    }
    std::printf("]");
  }
  std::printf("}");
  return graph->nChannels;
}

// All graphs, as init.cc has them searched.
void searchAll(ncclTopoSystem* system) {
  std::printf("{\"inter\": %d, \"max_bw\": %.9g, \"total_bw\": %.9g", system->inter,
              static_cast<double>(system->maxBw), static_cast<double>(system->totalBw));
  const int rings = search(system, {"ring", 0, NCCL_TOPO_PATTERN_RING, 1, MAXCHANNELS / 2, false, false});
  search(system, {"tree", 1, NCCL_TOPO_PATTERN_BALANCED_TREE, rings, rings, false, false});
  search(system, {"nvls", 3, NCCL_TOPO_PATTERN_NVLS, 1, MAXCHANNELS, false, true});
  if (system->nodes[NET].count > 0) {  // as with a CollNet plugin that serves each NIC
    for (int n = 0; n < system->nodes[NET].count; ++n) system->nodes[NET].nodes[n].net.collSupport = 1;
    search(system, {"collnet_chain", 2, NCCL_TOPO_PATTERN_TREE, rings, rings, true, false});
    search(system, {"collnet_direct", 4, NCCL_TOPO_PATTERN_COLLNET_DIRECT, 1, MAXCHANNELS, true, true});
  }
  std::printf("}");
}

std::vector<int> ranksOf(const ncclTopoSystem* system) {
  std::vector<int> ranks;
  for (int g = 0; g < system->nodes[GPU].count; ++g) ranks.push_back(system->nodes[GPU].nodes[g].gpu.rank);
  return ranks;
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fputs("usage: nccl_graph_code FILE.xml\n", stderr);
    return 2;
  }
  setenv("NCCL_IGNORE_DISABLED_P2P", "2",
         1);  // NVML of this machine has nothing to say of the GPUs in the file
  const Xml file;
  must(ncclTopoGetXmlFromFile(words[1], file.xml, 1), "ncclTopoGetXmlFromFile");
  ncclTopoSystem* const whole = systemOf(file.xml, -1, 1);
  std::vector<int> left = ranksOf(whole);
  std::sort(left.begin(), left.end());
  std::printf("{\"domains\": [");
  for (bool first = true; !left.empty(); first = false) {
    ncclTopoSystem* const alone = systemOf(file.xml, left.front(), 1);
    const std::vector<int> ranks = ranksOf(alone);
    std::printf("%s{\"ranks\": [", first ? "" : ", ");
    for (std::size_t i = 0; i < ranks.size(); ++i) std::printf("%s%d", i > 0 ? ", " : "", ranks[i]);
    std::printf("], \"graphs\": {");
    const bool nic = alone->nodes[NET].count > 0;
    const bool searched = alone->inter == 0 || nic;
    if (searched) {
      std::printf("\"nodes1\": ");
      searchAll(alone);
    }
    if (nic) {
      std::printf("%s\"nodes2\": ", searched ? ", " : "");
      searchAll(systemOf(file.xml, left.front(), 2));
    }
    std::printf("}}");
    std::erase_if(left, [&](int rank) { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); });
  }
  std::printf("]}\n");
  return 0;
}
