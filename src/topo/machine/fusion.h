// What NCCL does to a rank's XML when it imports a net plugin's devices (ncclTopoProcessNet): it writes <net>
// elements, merges NICs into virtual ones, trims what no rank uses, and fuses the XML of all ranks of a host.
// One thread at a time per document.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "topo/document/xml.h"
#include "topo/settings.h"

namespace railwise::topo {

// A device as a net plugin describes it to NCCL (ncclNetProperties).
struct NetDevice {
  std::string name;
  std::string busid;  // the PCI function it reports; empty: not a PCI device
  int speed_mbps = 400000;
  int port = 1;
  uint64_t guid = 0;
  int max_comms = 131072;
  bool gdr = true;
  int rail = -1;
  int plane = -1;
  std::vector<int> members;  // virtual: the physical devices' indices
  bool can_fuse = true;      // false: the plugin refuses to make it part of a virtual one
  std::string link;          // "InfiniBand", "Ethernet": the plugin fuses devices of the same link only
};

// Hangs a device that the document does not have yet into it (ncclTopoFillNet): the <pci> for its busid,
// filled as the source knows it. Null: it has no PCI device, and goes to the first <cpu>.
using FindPci = std::function<XmlNode*(XmlDocument& document, const NetDevice& device)>;

// Writes the devices, and (can_merge: the plugin has makeVDevice) merges them into virtual NICs by
// NCCL_NET_MERGE_LEVEL and its friends, which are appended to `devices`. Empty: all right; else why NCCL
// would fail.
std::string importNets(XmlDocument& document, std::vector<NetDevice>& devices, const Settings& settings,
                       const FindPci& find_pci, bool can_merge = true);

// Removes pci, cpu, nic and net elements without keep="1" in or below them (ncclTopoTrimXml).
void trimXml(XmlDocument& document);

// Adds to `all` what `rank` has and it has not (ncclTopoFuseXml). Empty: all right; else the limit that was
// hit.
std::string fuseXml(XmlDocument& all, const XmlDocument& rank);

}  // namespace railwise::topo
