// Makes a Machine from a file or a document, and adds what NVML and the network plugin would add.
#pragma once

#include <string>

#include "topo/machine/machine.h"

namespace railwise::topo {

// What a running machine would add to a file that lists only PCI devices, or to a bare /sys.
struct Detection {
  // Compute capability of each GPU (90 means 9.0); 0: not known, 80 is assumed and a remark says so.
  int gpu_sm = 0;
  int nvswitch_links = 0;  // number of NVLinks from each GPU to an NVSwitch
  int nic_speed = 400000;  // Mb/s of each NIC whose speed is not known
  // Accept files with more elements than NCCL reads, e.g. the dump of an NVLink domain.
  bool any_size = false;
  bool fuse_nics = false;  // fuse NICs as NCCL does, even in files that describe GPUs and nets
};

// The compute capability (times ten) that is assumed for GPUs if it is not known.
inline constexpr int kAssumedSm = 80;
// NCCL's name for the other end of an NVLink that a VM cannot see, and the device class that NCCL assumes for
// it.
inline constexpr const char* kHiddenTarget = "fffffff:ffff:ff";
inline constexpr const char* kNvswitchClass = "0x068000";
// The file of NVIDIA's topology daemon. NCCL reads it if NCCL_TOPO_FILE is not set (ncclTopoGetSystem).
inline constexpr const char* kVirtualTopology = "/var/run/nvidia-topologyd/virtualTopology.xml";

// True if the document describes no <gpu> with a rank: on a running machine NCCL would add the GPUs.
bool needsCompletion(const XmlDocument& document);

// Gives the GPUs and NICs of a PCI-only document their rank, dev and other attributes, in the order of their
// bus ids, and fuses NICs as NCCL does when a rank starts. See docs/topology.md, "Completing a file".
Outcome<XmlDocument> completeDocument(XmlDocument document, const Settings& settings,
                                      const Detection& detection, std::vector<std::string>* remarks);

// Makes a machine from a document. The document is completed first if it needs to be, or if NIC fusion is
// asked for. The error of a document without a GPU is kNoDevice.
Outcome<Machine> loadDocument(XmlDocument document, const Settings& settings, const Detection& detection,
                              std::string name);
Outcome<Machine> loadFile(const std::string& path, const Settings& settings, const Detection& detection);

}  // namespace railwise::topo
