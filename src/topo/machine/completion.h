// Makes of a topology file what NCCL makes of it when a communicator starts (ncclTopoGetSystem): each rank
// adds its own GPU, and the devices of the network plugin; then the ranks' documents become one. This is for
// a file alone, where assumed_devices.h stands for the driver and the plugin. For a file on a machine see
// sources/sysfs.h. See docs/topology.md, "Completing a file". Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "topo/document/xml.h"
#include "topo/machine/assumed_devices.h"
#include "topo/machine/detection.h"
#include "topo/settings.h"

namespace railwise::topo {

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
