// The part of NCCL that puts a device found in /sys into the XML of one rank: the device, the switches above
// it and the NUMA node (xml.cc of NCCL 2.30.7: ncclTopoGetXmlFromSys and what it calls). Used by sysfs.h, one
// for all ranks of a tree: it remembers what it read. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "topo/document/xml.h"
#include "topo/settings.h"
#include "topo/sources/cpu_identity.h"
#include "topo/sources/pci_devices.h"

namespace railwise::topo {

class SysWalk {
 public:
  struct Machine {
    CpuIdentity cpu;
    std::string host_hash;
    std::set<std::string> nvml_gpus;  // busids of the GPUs that NVML would know
  };
  SysWalk(const FileTree& tree, const Settings& settings, Machine machine)
      : tree_(tree), settings_(settings), machine_(std::move(machine)) {}

  // The <pci> of that address, made when there is none; not hung up yet.
  static XmlNode* pciNode(XmlDocument& document, const std::string& busid);
  // Fills the attributes of a <pci> and of all above it, up to the <cpu>, and hangs it up. Empty: all
  // right; else why not (the tree goes in circles).
  std::string fillPci(XmlDocument& document, XmlNode* pci);
  // A <cpu> with that numaid and nothing else but the host.
  XmlNode* addCpu(XmlDocument& document, const std::string& numaid) const;

  // The class of the device with that address; "" when the tree has none.
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

  const FileTree& tree_;
  const Settings& settings_;
  Machine machine_;
  std::unordered_map<std::string, std::optional<std::string>> paths_;
  std::unordered_map<std::string, std::string> attributes_;
};

}  // namespace railwise::topo
