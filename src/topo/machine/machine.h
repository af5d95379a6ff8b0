// A machine, complete: its XML, its graph, its paths, and the domains a communicator on it sees. What the
// outputs, explain, diff and the plugin are given. Made by the sources (load.h); immutable; reading is
// thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "topo/document/xml.h"
#include "topo/graph/graph.h"
#include "topo/outcome.h"
#include "topo/paths/paths.h"
#include "topo/settings.h"

namespace railwise::topo {

// GPUs that a communicator keeps together after ncclTopoTrimSystem: P2P or shared memory reaches all of them.
struct Domain {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const Paths> paths;  // with the view of a communicator
  std::vector<int> ranks;              // in the graph's order
  float max_bandwidth = 0;             // GB/s of one channel (NCCL's maxBw)
  float total_bandwidth = 0;           // GB/s out of one GPU (NCCL's totalBw)
};

struct Machine {
  std::string name;  // the file, tree or host it came from
  std::unique_ptr<const Settings> settings;
  std::unique_ptr<const XmlDocument> xml;  // as used for the graph: completed, fused, trimmed
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const Paths> paths;  // without a communicator: the whole host
  std::vector<Domain> domains;         // by their lowest rank
  bool completed = false;              // GPUs and NICs were numbered by us, as on a running machine
  std::vector<std::string> remarks;    // what was assumed, for people
};

// Graph, paths and domains of a document. An error where NCCL would fail its init.
Outcome<Machine> makeMachine(XmlDocument document, const Settings& settings, std::string name);

}  // namespace railwise::topo
