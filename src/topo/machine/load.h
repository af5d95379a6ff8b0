// Makes a Machine from a topology file or a document. What NVML and the network plugin would add is assumed
// (completeDocument() below).
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "topo/document/xml.h"
#include "topo/machine/assumed_devices.h"
#include "topo/machine/machine.h"
#include "topo/settings.h"

namespace railwise::topo {

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
