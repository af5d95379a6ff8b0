// A complete machine: its XML, its graph, its paths, and the domains that a communicator on it sees. The
// outputs, explain, diff and the plugin work on it. The sources make it. Immutable; reading is
// thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "gpu/topology.h"
#include "topo/document/xml.h"
#include "topo/graph/graph.h"
#include "topo/machine/assumed_devices.h"
#include "topo/paths/paths.h"
#include "topo/settings.h"

namespace railwise::topo {

class GraphFile;

// GPUs that a communicator keeps together after ncclTopoTrimSystem: P2P or shared memory connects all of
// them.
struct Domain {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const Paths> paths;  // the paths as a communicator sees them
  std::vector<int> ranks;              // in the graph's order
  float max_bandwidth = 0;             // GB/s of one channel (NCCL's maxBw)
  float total_bandwidth = 0;           // GB/s that leave one GPU (NCCL's totalBw)
};

struct Machine {
  std::string name;  // the file, /sys tree or host that the machine comes from
  std::unique_ptr<const Settings> settings;
  // The document that the graph was made of: completed, fused, trimmed.
  std::unique_ptr<const XmlDocument> xml;
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const Paths> paths;  // the paths without a communicator, for the whole host
  std::vector<Domain> domains;         // sorted by their lowest rank
  // NCCL_GRAPH_FILE: its graphs are taken instead of searched. Null: there is no such file.
  std::shared_ptr<const GraphFile> graph_file;
  bool completed = false;            // Railwise numbered the GPUs and NICs, as a running machine would
  Assumed assumed;                   // what the file does not say
  std::vector<std::string> remarks;  // what was assumed, in words for people
  // What the vendors' libraries said of the GPUs; null: nobody asked them (a topology file).
  std::shared_ptr<const gpu::GpuTopology> gpu_answers;
};

// Makes the graph, paths and domains of a document. An error if NCCL's init would fail.
Outcome<Machine> makeMachine(XmlDocument document, const Settings& settings, std::string name);

// Makes a Machine from a topology file or a document. What NVML and the network plugin would add is assumed
// (completeDocument() below).

// The file of NVIDIA's topology daemon. NCCL reads it if NCCL_TOPO_FILE is not set (ncclTopoGetSystem).
inline constexpr const char* kVirtualTopology = "/var/run/nvidia-topologyd/virtualTopology.xml";

// Makes a machine from a document. The document is completed first if it needs to be, or if NIC fusion is
// asked for; the remarks say what was assumed. The error of a document without a GPU is kNoDevice.
Outcome<Machine> loadDocument(XmlDocument document, const Settings& settings, Detection detection,
                              std::string name);

// Makes of a topology file what NCCL makes of it when a communicator starts (ncclTopoGetSystem): each rank
// adds its own GPU, and the devices of the network plugin; then the ranks' documents become one. This is for
// a file alone, where assumed_devices.h stands for the driver and the plugin. For a file on a machine see
// sources/sysfs.h. See docs/topology.md, "Completing a file". Thread-safe.

// True if NCCL would see another machine than the one that the document describes: it names no GPU with a
// rank, it leaves out what NCCL adds, or NCCL would not find a GPU under its address.
bool needsCompletion(const XmlDocument& document);

// An error: there is no GPU (kNoDevice), or NCCL's init would fail. `remarks` (may be null) receives what was
// assumed, in words for people.
Outcome<XmlDocument> completeDocument(XmlDocument document, const Settings& settings,
                                      const Detection& detection, std::vector<std::string>* remarks,
                                      Assumed* assumed = nullptr);

// Sets what the identity of a <cpu> lacks: Sapphire Rapids is assumed.
void setCpuIdentity(XmlNode& cpu);

}  // namespace railwise::topo
