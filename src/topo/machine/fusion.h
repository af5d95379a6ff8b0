// What NCCL does to a rank's XML when it imports the devices of a network plugin (ncclTopoProcessNet): it
// writes <net> elements, merges NICs into virtual NICs, removes what no rank uses, and fuses the XML of all
// ranks of a host. One thread at a time per document.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "topo/document/xml.h"
#include "topo/settings.h"

namespace railwise::topo {

// A device as a network plugin describes it to NCCL (ncclNetProperties).
struct NetDevice {
  std::string name;
  std::string busid;  // PCI function that the device reports; empty: it is not a PCI device
  int speed_mbps = 400000;
  bool speed_assumed = false;  // nobody has said it
  int port = 1;
  uint64_t guid = 0;
  int max_comms = 131072;
  bool gdr = true;
  int rail = -1;
  int plane = -1;
  std::vector<int> members;  // virtual device: indices of its physical devices
  bool can_fuse = true;      // false: the plugin refuses to merge this device into a virtual device
  std::string link;          // "InfiniBand" or "Ethernet"; the plugin fuses only devices of the same kind
};

// The ports in a name such as "mlx5_0+mlx5_1". The port that NCCL tells of a NIC is the device's and one more
// for each port before it on the card (net_devices.cc, numberPorts).
inline int portsIn(std::string_view name) {
  return 1 + static_cast<int>(std::count(name.begin(), name.end(), '+'));
}

// Adds the PCI place of a device to a document that does not have it yet (ncclTopoFillNet): the <pci> for the
// device's busid, with the attributes that the source knows. Null: the device has no PCI place and is added
// to the first <cpu>.
using FindPci = std::function<XmlNode*(XmlDocument& document, const NetDevice& device)>;

// Writes the devices into the document. If `can_merge` (the plugin has makeVDevice), also merges them into
// virtual NICs by NCCL_NET_MERGE_LEVEL and related settings, and appends the virtual NICs to `devices`.
// Returns an empty text, or the reason why NCCL would fail.
std::string importNets(XmlDocument& document, std::vector<NetDevice>& devices, const Settings& settings,
                       const FindPci& find_pci, bool can_merge = true);

// Makes `pci`, which has no parent yet, a child of `parent`. NCCL keeps the PCI children of a node sorted by
// address, compared as strings (NCCL's issue 820).
void insertByBusId(XmlNode& parent, XmlNode* pci);

// Removes each pci, cpu, nic and net element that has no keep="1", neither itself nor in an element below it
// (ncclTopoTrimXml).
void trimXml(XmlDocument& document);

// Adds to `all` the elements of `rank` that `all` does not have yet (ncclTopoFuseXml). Returns an empty text,
// or the limit that was exceeded.
std::string fuseXml(XmlDocument& all, const XmlDocument& rank);

}  // namespace railwise::topo
