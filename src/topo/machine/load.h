// Makes a Machine from a topology file or a document. What NVML and the network plugin would add is assumed
// (completion.h).
#pragma once

#include <string>

#include "topo/machine/detection.h"
#include "topo/machine/machine.h"

namespace railwise::topo {

// The file of NVIDIA's topology daemon. NCCL reads it if NCCL_TOPO_FILE is not set (ncclTopoGetSystem).
inline constexpr const char* kVirtualTopology = "/var/run/nvidia-topologyd/virtualTopology.xml";

// Makes a machine from a document. The document is completed first if it needs to be, or if NIC fusion is
// asked for; the remarks say what was assumed. The error of a document without a GPU is kNoDevice.
Outcome<Machine> loadDocument(XmlDocument document, const Settings& settings, const Detection& detection,
                              std::string name);
Outcome<Machine> loadFile(const std::string& path, const Settings& settings, const Detection& detection);

}  // namespace railwise::topo
