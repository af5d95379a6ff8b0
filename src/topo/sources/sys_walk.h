// The part of NCCL that adds a device of /sys to the XML of one rank: the device, the switches above it and
// the NUMA node (xml.cc of NCCL 2.30.7: ncclTopoGetXmlFromSys and the functions that it calls). sysfs.h uses
// one SysWalk for all ranks of a tree, because it remembers what it has read. Not thread-safe.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "sysfs/pci_devices.h"
#include "topo/document/xml.h"
#include "topo/settings.h"
#include "topo/sources/cpu_identity.h"

namespace railwise::topo {

class SysWalk {
 public:
  struct Machine {
    CpuIdentity cpu;
    std::string host_hash;
    std::set<std::string> nvml_gpus;  // bus ids of the GPUs that NVML would know
    bool endpoint_ids = true;         // see SysfsOptions
  };
  SysWalk(const sysfs::FileTree& tree, const Settings& settings, Machine machine)
      : tree_(tree), settings_(settings), machine_(std::move(machine)) {}

  // The <pci> with that address. If there is none, it is made without a parent.
  static XmlNode* pciNode(XmlDocument& document, const std::string& busid);
  // Fills the attributes of a <pci> and of all elements above it up to the <cpu>, and attaches it to its
  // parent. Returns an empty text, or why that is not possible (the links of the tree form a circle).
  std::string fillPci(XmlDocument& document, XmlNode* pci);
  // Adds a <cpu> with that numaid and the host, and no other attributes.
  XmlNode* addCpu(XmlDocument& document, const std::string& numaid) const;

  // The PCI class of the device with that address; "" if the tree has no such device.
  std::string classOf(const std::string& busid);

 private:
  void fillAttributes(XmlNode& pci, const std::optional<std::string>& path);
  void fillIds(XmlNode& pci, const std::optional<std::string>& path, bool nvml);
  void fillLinkFromSys(XmlNode& pci, const std::string& path);
  void fillLinkFromNvml(XmlNode& pci, const std::optional<std::string>& path);
  void addBroadcomLinks(XmlDocument& document, XmlNode& pci);
  void fillCpu(XmlNode& cpu) const;
  XmlNode* parentOf(XmlDocument& document, const std::optional<std::string>& path);
  XmlNode* parentOnBus(XmlDocument& document, const std::string& path);

  const std::optional<std::string>& path(const std::string& busid);
  const std::string& attribute(const std::string& folder, const std::string& file);
  void askForAttributes(XmlNode& pci, const std::optional<std::string>& path);

  const sysfs::FileTree& tree_;
  const Settings& settings_;
  Machine machine_;
  std::unordered_map<std::string, std::optional<std::string>> paths_;
  std::unordered_map<std::string, std::string> attributes_;
  // The attributes of each <pci>, before and after they were filled; by its address. Each rank of the model
  // fills every device, and /sys is read for the first one only.
  struct Filled {
    std::vector<XmlAttribute> before;
    std::vector<XmlAttribute> after;
  };
  std::unordered_map<std::string, Filled> filled_;
};

}  // namespace railwise::topo
