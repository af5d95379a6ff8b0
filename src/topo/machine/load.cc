#include "topo/machine/load.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "topo/graph/constants.h"
#include "topo/machine/fusion.h"

namespace railwise::topo {
namespace {

// The identity of a <cpu> that has none, if no running CPU can be asked: Sapphire Rapids.
constexpr const char* kDefaultArch = "x86_64";
constexpr const char* kDefaultVendor = "GenuineIntel";
constexpr const char* kDefaultFamily = "6";
constexpr const char* kDefaultModel = "143";
constexpr const char* kHostHash = "0x1";
constexpr uint64_t kFirstGuid = 0x1000;

template <typename Visit>
void visitNodes(XmlNode* node, const Visit& visit) {
  visit(node);
  const auto children = node->children;
  for (XmlNode* child : children) visitNodes(child, visit);
}

int number(const XmlNode& node, const char* attribute) {
  return static_cast<int>(std::strtol(node.get(attribute).c_str(), nullptr, 0));
}

bool classIs(const XmlNode& pci, const char* prefix) {
  return pci.name == "pci" && pci.get("class").starts_with(prefix);
}

bool lacksIdentity(const XmlNode& node) {
  return node.name == "cpu" && (!node.has("arch") || !node.has("vendor"));
}

void setCpuIdentity(XmlNode& cpu) {
  cpu.setIfUnset("arch", kDefaultArch);
  cpu.setIfUnset("vendor", kDefaultVendor);
  if (cpu.has("familyid")) return;
  cpu.set("familyid", kDefaultFamily);
  cpu.set("modelid", kDefaultModel);
}

void completeCpu(XmlNode& cpu) {
  cpu.setIfUnset("affinity", "");
  setCpuIdentity(cpu);
}

// Sets the attributes that NCCL sets on all elements above an imported device, if /sys knows nothing
// (ncclTopoGetXmlFromSys).
void fillUpwards(XmlNode* node) {
  for (; node != nullptr && node->name != "system"; node = node->parent) {
    if (node->name == "pci") {
      node->setIfUnset("link_speed", "");
      node->setIfUnset("link_width", "");
    }
  }
}

struct GpuSlot {
  std::string busid;
  int rank = 0;
  std::string mlopart;
};

class Completion {
 public:
  Completion(XmlDocument document, const Settings& settings, const Detection& detection)
      : document_(std::move(document)), settings_(settings), detection_(detection) {}

  Outcome<XmlDocument> run(std::vector<std::string>* remarks) {
    findGpus();
    findNets();
    if (gpus_.empty())
      return Error{
          document_.file +
              ": the file names no GPU: no <gpu> and no pci of class 0x03; name them, or lay the file over "
              "the machine (--root)",
          Code::kNoDevice};
    if (remarks != nullptr) remark(*remarks);
    visitNodes(document_.system(), [](XmlNode* node) {
      if (node->name != "cpu") return;
      node->set("host_hash", kHostHash);
      completeCpu(*node);  // otherwise the ranks' documents would differ here, and the CPU would appear twice
    });
    XmlDocument all;
    for (const GpuSlot& gpu : gpus_) {
      XmlDocument rank(document_);
      std::vector<NetDevice> devices = nets_;
      addGpu(rank, gpu);
      std::string failed = importNets(rank, devices, settings_, findPci, can_merge_);
      if (failed.empty()) {
        trimXml(rank);
        failed = fuseXml(all, rank);
      }
      if (!failed.empty()) return Error{document_.file + ": " + failed};
    }
    return all;
  }

 private:
  // A GPU that the file describes has its rank there; a device may have several. Other GPUs are numbered in
  // the order of their bus ids.
  void findGpus() {
    std::vector<GpuSlot> bare;
    visitNodes(document_.system(), [&](XmlNode* node) {
      if (node->name == "gpu" && node->has("rank") && node->parent->has("busid"))
        gpus_.push_back({node->parent->get("busid"), number(*node, "rank"), node->get("mlopart", "-1")});
      if (node->name == "pci" && node->has("busid") &&
          (node->child("gpu") != nullptr || classIs(*node, "0x03") ||
           (document_.version == 2 && classIs(*node, "0x12"))))
        bare.push_back({node->get("busid"), 0, "-1"});
    });
    if (!gpus_.empty()) {
      std::stable_sort(gpus_.begin(), gpus_.end(),
                       [](const GpuSlot& a, const GpuSlot& b) { return a.rank < b.rank; });
      return;
    }
    numbered_ = true;
    std::stable_sort(bare.begin(), bare.end(),
                     [](const GpuSlot& a, const GpuSlot& b) { return a.busid < b.busid; });
    for (const GpuSlot& gpu : bare) {
      if (!gpus_.empty() && gpus_.back().busid == gpu.busid) continue;
      gpus_.push_back({gpu.busid, static_cast<int>(gpus_.size()), gpu.mlopart});
    }
  }

  void findNets() {
    std::vector<const XmlNode*> described;
    std::vector<const XmlNode*> bare;
    visitNodes(document_.system(), [&](XmlNode* node) {
      if (node->name == "net" && node->has("dev") && node->has("name")) described.push_back(node);
      if (classIs(*node, "0x02") && node->child("nic") == nullptr) bare.push_back(node);
    });
    if (!described.empty()) {
      std::stable_sort(described.begin(), described.end(), [](const XmlNode* a, const XmlNode* b) {
        return number(*a, "dev") < number(*b, "dev");
      });
      for (const XmlNode* net : described) nets_.push_back(describedNet(*net));
      // RDMA ports are numbered from 1. A net with port 0 comes from NCCL's Socket plugin, which cannot
      // merge.
      can_merge_ = std::any_of(nets_.begin(), nets_.end(), [](const NetDevice& net) { return net.port > 0; });
      return;
    }
    std::stable_sort(bare.begin(), bare.end(),
                     [](const XmlNode* a, const XmlNode* b) { return a->get("busid") < b->get("busid"); });
    for (const XmlNode* pci : bare)
      nets_.push_back({.name = "mlx5_" + std::to_string(nets_.size()),
                       .busid = pci->get("busid"),
                       .speed_mbps = detection_.nic_speed,
                       .guid = kFirstGuid + nets_.size()});
    named_ = !bare.empty();
  }

  NetDevice describedNet(const XmlNode& net) const {
    const auto number = [&net](const char* name, int otherwise) {
      const std::string* text = net.find(name);
      return text == nullptr ? otherwise : static_cast<int>(std::strtol(text->c_str(), nullptr, 0));
    };
    return {.name = net.get("name"),
            .speed_mbps = number("speed", kDefaultNetMbps),
            .port = number("port", 0),
            .guid = net.has("guid") ? std::strtoull(net.get("guid").c_str(), nullptr, 16)
                                    : kFirstGuid + nets_.size(),
            .max_comms = number("maxconn", kMaxChannels),
            .gdr = number("gdr", 0) != 0,
            .rail = number("rail", -1),
            .plane = number("plane", -1)};
  }

  static XmlNode* findPci(XmlDocument& document, const NetDevice& device) {
    XmlNode* pci = device.busid.empty() ? nullptr : document.find("pci", "busid", device.busid);
    if (pci == nullptr) return nullptr;
    pci->setIfUnset("class", "0x02");
    fillUpwards(pci);
    return pci;
  }

  void addGpu(XmlDocument& document, const GpuSlot& slot) const {
    XmlNode* pci = document.find("pci", "busid", slot.busid);
    if (pci == nullptr) return;
    pci->setIfUnset("class", "0x03");
    fillUpwards(pci);
    XmlNode* gpu = pci->child("gpu");
    if (gpu == nullptr) gpu = document.add(pci, "gpu");
    gpu->setIfUnset("dev", std::to_string(slot.rank));
    gpu->setIfUnset("sm", std::to_string(detection_.gpu_sm == 0 ? kAssumedSm : detection_.gpu_sm));
    if (gpu->child("nvlink") == nullptr && detection_.nvswitch_links > 0) {
      XmlNode* link = document.add(gpu, "nvlink");
      link->set("target", kHiddenTarget);
      link->set("count", std::to_string(detection_.nvswitch_links));
      link->set("tclass", kNvswitchClass);
    }
    gpu->set("keep", "1");
    gpu->set("rank", std::to_string(slot.rank));
    gpu->setIfUnset("gdr", "1");
    gpu->set("mlopart", slot.mlopart);
  }

  void remark(std::vector<std::string>& remarks) const {
    const bool amd = document_.version == 2;
    if (numbered_ && amd) remarks.push_back("the file does not describe its GPUs: no xGMI links assumed");
    if (numbered_ && !amd && detection_.gpu_sm == 0)
      remarks.push_back(
          "the file does not describe its GPUs: compute capability 8.0 assumed (--gpu-sm=90 for Hopper)");
    if (numbered_ && !amd && detection_.nvswitch_links == 0)
      remarks.push_back(
          "the file does not describe its GPUs: no NVLink assumed (--nvswitch-links=18 for H100)");
    if (named_)
      remarks.push_back("the file does not describe its NICs: named mlx5_0, mlx5_1, .. in bus order, " +
                        std::to_string(detection_.nic_speed) + " Mb/s, with GPUDirect (--nic-speed)");
  }

  XmlDocument document_;
  const Settings& settings_;
  const Detection& detection_;
  std::vector<GpuSlot> gpus_;
  std::vector<NetDevice> nets_;
  bool can_merge_ = true;
  bool numbered_ = false;
  bool named_ = false;
};

}  // namespace

bool needsCompletion(const XmlDocument& document) {
  return std::none_of(document.order().begin(), document.order().end(),
                      [](const XmlNode* node) { return node->name == "gpu" && node->has("rank"); });
}

Outcome<XmlDocument> completeDocument(XmlDocument document, const Settings& settings,
                                      const Detection& detection, std::vector<std::string>* remarks) {
  return Completion(std::move(document), settings, detection).run(remarks);
}

Outcome<Machine> loadDocument(XmlDocument document, const Settings& settings, const Detection& detection,
                              std::string name) {
  std::vector<std::string> remarks;
  for (XmlNode* node : document.order()) {
    if (!lacksIdentity(*node)) continue;
    setCpuIdentity(*node);
    if (node->get("arch").starts_with(kDefaultArch))
      remarks.push_back("<cpu numaid=\"" + node->get("numaid") +
                        "\"> has no identity: Sapphire Rapids assumed");
  }
  const bool complete = detection.fuse_nics || needsCompletion(document);
  if (complete) {
    auto completed = completeDocument(std::move(document), settings, detection, &remarks);
    if (!completed.ok()) return completed.failure();
    document = std::move(*completed);
  } else {
    for (XmlNode* node : document.order())
      if (node->name == "cpu" && !node->has("arch")) {
        setCpuIdentity(*node);
        remarks.push_back("<cpu numaid=\"" + node->get("numaid") +
                          "\"> has no identity: Sapphire Rapids assumed");
      }
  }
  auto machine = makeMachine(std::move(document), settings, std::move(name));
  if (!machine.ok()) return machine;
  machine->completed = complete;
  machine->remarks = std::move(remarks);
  return machine;
}

Outcome<Machine> loadFile(const std::string& path, const Settings& settings, const Detection& detection) {
  auto document = readXmlFile(path, {.max_nodes = detection.any_size ? 0 : kXmlMaxNodes});
  if (!document.ok()) return Error{document.error()};
  const std::size_t slash = path.rfind('/');
  return loadDocument(std::move(*document), settings, detection,
                      path.substr(slash == std::string::npos ? 0 : slash + 1));
}

}  // namespace railwise::topo
