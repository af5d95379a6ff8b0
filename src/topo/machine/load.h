// From a file or a /sys tree to a Machine, with what NVML and the net plugin would add.
#pragma once

#include <string>

#include "topo/machine/machine.h"

namespace railwise::topo {

// What a running machine would add to a file that lists only PCI devices or to a bare /sys.
struct Detection {
  int gpu_sm = 0;  // compute capability of each GPU (90 = 9.0); 0: not told, 80 is assumed and remarked
  int nvswitch_links = 0;  // NVLinks of each GPU to an NVSwitch
  int nic_speed = 400000;  // Mb/s of each NIC whose speed is not known
  bool any_size = false;   // also files with more elements than NCCL reads, e.g. the dump of an NVLink domain
  bool fuse_nics = false;  // also for files that describe GPUs and nets: NIC fusion as NCCL does it
};

// The compute capability (times ten) of GPUs that nobody has told.
inline constexpr int kAssumedSm = 80;
// NCCL's name for the far end of an NVLink that the VM does not see, and the class that it takes such a one
// for.
inline constexpr const char* kHiddenTarget = "fffffff:ffff:ff";
inline constexpr const char* kNvswitchClass = "0x068000";
// The file of NVIDIA's topology daemon, which NCCL reads where NCCL_TOPO_FILE is not set (ncclTopoGetSystem).
inline constexpr const char* kVirtualTopology = "/var/run/nvidia-topologyd/virtualTopology.xml";

// True when no <gpu> with a rank is described, so that NCCL on a machine would add them.
bool needsCompletion(const XmlDocument& document);

// Gives GPUs and NICs of a PCI-only document rank, dev and the rest, in bus order, and fuses NICs as NCCL
// does at the start of every rank. See docs/topology.md, "Completing a file".
Outcome<XmlDocument> completeDocument(XmlDocument document, const Settings& settings,
                                      const Detection& detection, std::vector<std::string>* remarks);

// A document to a machine: completed when it needs to be (or fusion is asked for), else as it is.
Outcome<Machine> loadDocument(XmlDocument document, const Settings& settings, const Detection& detection,
                              std::string name);
Outcome<Machine> loadFile(const std::string& path, const Settings& settings, const Detection& detection);

}  // namespace railwise::topo
