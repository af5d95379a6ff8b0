#include "topo/machine/assumed_devices.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>

#include "base/text/words.h"
#include "topo/graph/constants.h"

namespace railwise::topo {
namespace {

constexpr uint64_t kFirstGuid = 0x1000;

bool isClass(const XmlNode& pci, const char* prefix) { return pci.get("class").starts_with(prefix); }

// What descriptions lack, and what stands for it: one sentence about them all.
class LeftOut {
 public:
  void add(const char* attribute, std::string assumed) {
    attributes_.emplace_back(attribute);
    assumed_.push_back(std::move(assumed));
  }
  // "the file leaves out sm and gdr of GPUs, which the driver tells NCCL: ... and ... assumed".
  void remark(const std::string& whose, std::vector<std::string>& remarks) const {
    if (!attributes_.empty())
      remarks.push_back("the file leaves out " + listText(attributes_) + " of " + whose +
                        " tells NCCL: " + listText(assumed_) + " assumed");
  }

 private:
  std::vector<std::string> attributes_;
  std::vector<std::string> assumed_;
};

class DeviceAssumer {
 public:
  DeviceAssumer(const XmlDocument& document, const Detection& detection)
      : document_(document), detection_(detection) {}

  AssumedDevices run() {
    findGpus();
    findNets();
    remarkGpus();
    remarkNets();
    return std::move(devices_);
  }

 private:
  // --- GPUs ---

  bool isGpu(const XmlNode& pci) const {
    return pci.name == "pci" && pci.has("busid") &&
           (pci.child("gpu") != nullptr || isClass(pci, "0x03") ||
            (document_.version == 2 && isClass(pci, "0x12")));
  }

  // The file's ranks count, where it has them: a device may have several. Otherwise the GPUs are numbered in
  // the order of their addresses.
  void findGpus() {
    std::set<int> ranks;
    bool repeated = false;
    for (const XmlNode* node : document_.order()) {
      if (node->name != "gpu" || !node->has("rank") || !node->parent->has("busid")) continue;
      if (isHidden(*node->parent->child("gpu"))) continue;
      ranked_.push_back(node);
      repeated = !ranks.insert(intOf(*node, "rank", 0)).second || repeated;
    }
    if (ranked_.empty() || repeated) {
      numberGpus();
    } else {
      takeRanks();
    }
    if (repeated)
      devices_.remarks.push_back(
          "a rank is there twice: NCCL takes the ranks from the job, here the GPUs are numbered in bus "
          "order");
  }

  // NCCL takes dev="-1" for a GPU that is not to be used.
  static bool isHidden(const XmlNode& gpu) { return intOf(gpu, "dev", 0) == -1; }

  // The GPUs in the order of their addresses, as the driver numbers them. Its first <gpu>, or null, is that
  // which NCCL fills in.
  std::map<std::string, const XmlNode*> inBusOrder() const {
    std::map<std::string, const XmlNode*> found;
    for (const XmlNode* node : document_.order()) {
      if (!isGpu(*node)) continue;
      const XmlNode* gpu = node->child("gpu");
      if (gpu == nullptr || !isHidden(*gpu)) found.emplace(lowerCase(node->get("busid")), gpu);
    }
    return found;
  }

  void numberGpus() {
    for (const auto& [busid, gpu] : inBusOrder()) {
      const auto number = static_cast<int>(devices_.gpus.size());
      devices_.gpus.push_back({.busid = busid, .dev = number, .rank = number, .described = gpu});
      if (gpu != nullptr) devices_.gpus.back().mlopart = gpu->get("mlopart", "-1");
    }
  }

  void takeRanks() {
    const auto all = inBusOrder();
    for (const XmlNode* gpu : ranked_) {
      const auto at = all.find(lowerCase(gpu->parent->get("busid")));
      devices_.gpus.push_back({.busid = at->first,
                               .dev = static_cast<int>(std::distance(all.begin(), at)),
                               .rank = intOf(*gpu, "rank", 0),
                               .mlopart = gpu->get("mlopart", "-1"),
                               .described = at->second});
    }
    std::stable_sort(devices_.gpus.begin(), devices_.gpus.end(),
                     [](const AssumedGpu& a, const AssumedGpu& b) { return a.rank < b.rank; });
  }

  bool anyGpuLacks(const char* attribute) const {
    return std::any_of(devices_.gpus.begin(), devices_.gpus.end(), [attribute](const AssumedGpu& gpu) {
      return gpu.described == nullptr || !gpu.described->has(attribute);
    });
  }

  bool anyGpuLinked() const {
    return std::any_of(devices_.gpus.begin(), devices_.gpus.end(), [](const AssumedGpu& gpu) {
      return gpu.described != nullptr &&
             (gpu.described->child("nvlink") != nullptr || gpu.described->child("xgmi") != nullptr);
    });
  }

  bool anyLinkLacksClass() const {
    return std::any_of(devices_.gpus.begin(), devices_.gpus.end(), [](const AssumedGpu& gpu) {
      return gpu.described != nullptr &&
             std::any_of(gpu.described->children.begin(), gpu.described->children.end(),
                         [](const XmlNode* link) { return link->name == "nvlink" && !link->has("tclass"); });
    });
  }

  void remarkGpus() {
    const bool undescribed = ranked_.empty();
    if (anyGpuLacks("gdr")) devices_.assumed.gpudirect = true;
    const std::string nothing = "the file does not describe its GPUs: ";
    std::vector<std::string>& remarks = devices_.remarks;
    if (document_.version == 2) {
      if (undescribed && !anyGpuLinked()) remarks.push_back(nothing + "no xGMI links assumed");
      return;
    }
    const bool without_sm = detection_.gpu_sm == 0 && anyGpuLacks("sm");
    if (undescribed) {
      if (without_sm) remarks.push_back(nothing + "compute capability 8.0 assumed (--gpu-sm=90 for Hopper)");
      if (detection_.nvswitch_links == 0 && !anyGpuLinked())
        remarks.push_back(nothing + "no NVLink assumed (--nvswitch-links=18 for H100)");
    } else {
      LeftOut left_out;
      if (anyGpuLacks("dev")) left_out.add("dev", "bus order");
      if (without_sm) left_out.add("sm", "compute capability 8.0 (--gpu-sm=90 for Hopper)");
      if (anyGpuLacks("gdr")) left_out.add("gdr", "GPUDirect");
      left_out.remark("GPUs, which the driver", remarks);
    }
    if (anyLinkLacksClass())
      remarks.emplace_back(
          "the file leaves out tclass of NVLinks: the class of the target, or an NVSwitch, assumed");
  }

  // --- NICs ---

  // The plugin's devices are those that the file names, or else all NICs.
  void findNets() {
    for (const XmlNode* node : document_.order())
      if (node->name == "net") described_.push_back(node);
    if (described_.empty()) {
      nameNics();
      return;
    }
    for (const XmlNode* net : described_)
      if (net->has("name")) names_.insert(net->get("name"));
    std::set<std::string> known;
    for (const XmlNode* net : inPluginOrder())
      if (!net->has("name") || known.insert(net->get("name")).second) addDescribed(*net);
    // RDMA ports are numbered from 1. A net with port 0 comes from NCCL's Socket plugin, which cannot merge.
    devices_.can_merge = std::any_of(devices_.nets.begin(), devices_.nets.end(),
                                     [](const NetDevice& net) { return net.port > 0; });
  }

  // In the order of dev; those without one fill the gaps, in the order of the file.
  std::vector<const XmlNode*> inPluginOrder() const {
    std::vector<const XmlNode*> numbered;
    std::vector<const XmlNode*> others;
    for (const XmlNode* net : described_) (net->has("dev") ? numbered : others).push_back(net);
    std::stable_sort(numbered.begin(), numbered.end(), [](const XmlNode* a, const XmlNode* b) {
      return intOf(*a, "dev", 0) < intOf(*b, "dev", 0);
    });
    std::vector<const XmlNode*> all;
    auto next = numbered.begin();
    for (const XmlNode* net : others) {
      while (next != numbered.end() && intOf(**next, "dev", 0) <= static_cast<int>(all.size()))
        all.push_back(*next++);
      all.push_back(net);
    }
    all.insert(all.end(), next, numbered.end());
    return all;
  }

  void addDescribed(const XmlNode& net) {
    const auto index = static_cast<int>(devices_.nets.size());
    NetDevice device{.name = net.get("name"),
                     .speed_mbps = intOf(net, "speed", detection_.nic_speed),
                     .port = intOf(net, "port", 1),
                     .guid = net.has("guid") ? std::strtoull(net.get("guid").c_str(), nullptr, 16)
                                             : kFirstGuid + devices_.nets.size(),
                     .gdr = intOf(net, "gdr", 1) != 0,
                     .rail = intOf(net, "rail", -1),
                     .plane = intOf(net, "plane", -1)};
    device.max_comms = intOf(net, "maxconn", device.max_comms);
    if (!net.has("name")) {
      // The plugin tells its place, at which NCCL adds it anew.
      for (int number = index; device.name.empty(); ++number)
        if (names_.insert("mlx5_" + std::to_string(number)).second)
          device.name = "mlx5_" + std::to_string(number);
      if (net.parent->parent->name == "pci") device.busid = lowerCase(net.parent->parent->get("busid"));
      ++nameless_;
    }
    if (const int dev = intOf(net, "dev", index); dev != index && renumbered_.empty())
      renumbered_ = device.name + " is " + std::to_string(index) + ", not " + std::to_string(dev);
    devices_.nets.push_back(std::move(device));
  }

  void nameNics() {
    std::vector<std::string> bare;
    for (const XmlNode* node : document_.order())
      if (node->name == "pci" && isClass(*node, "0x02") && node->child("nic") == nullptr)
        bare.push_back(lowerCase(node->get("busid")));
    std::stable_sort(bare.begin(), bare.end());
    for (std::string& busid : bare)
      devices_.nets.push_back({.name = "mlx5_" + std::to_string(devices_.nets.size()),
                               .busid = std::move(busid),
                               .speed_mbps = detection_.nic_speed,
                               .guid = kFirstGuid + devices_.nets.size()});
  }

  bool anyNetLacks(const char* attribute) const {
    return std::any_of(described_.begin(), described_.end(),
                       [attribute](const XmlNode* net) { return !net->has(attribute); });
  }

  void remarkNets() {
    std::vector<std::string>& remarks = devices_.remarks;
    if (anyNetLacks("gdr") || (described_.empty() && !devices_.nets.empty()))
      devices_.assumed.gpudirect = true;
    const bool no_speed = anyNetLacks("speed") || (described_.empty() && !devices_.nets.empty());
    devices_.assumed.nic_speed = no_speed && detection_.nic_speed == Detection().nic_speed;
    const std::string speed = std::to_string(detection_.nic_speed) + " Mb/s";
    if (described_.empty() && !devices_.nets.empty())
      remarks.push_back("the file does not describe its NICs: named mlx5_0, mlx5_1, .. in bus order, " +
                        speed + ", with GPUDirect (--nic-speed)");
    if (nameless_ > 0)
      remarks.emplace_back("the file leaves out the name of NICs: NCCL adds them anew; named mlx5_N here");
    LeftOut left_out;
    if (anyNetLacks("dev")) left_out.add("dev", "the file's order");
    if (anyNetLacks("speed")) left_out.add("speed", speed + " (--nic-speed)");
    if (anyNetLacks("port")) left_out.add("port", "port 1");
    if (anyNetLacks("guid")) left_out.add("guid", "a guid for each");
    if (anyNetLacks("gdr")) left_out.add("gdr", "GPUDirect");
    left_out.remark("NICs, which the plugin", remarks);
    if (!renumbered_.empty())
      remarks.push_back("NCCL numbers NICs as the plugin lists them, not by dev: " + renumbered_ + " here");
  }

  const XmlDocument& document_;
  const Detection& detection_;
  AssumedDevices devices_;
  std::vector<const XmlNode*> ranked_;     // each <gpu> with a rank
  std::vector<const XmlNode*> described_;  // each <net>
  std::set<std::string> names_;            // that a NIC has
  int nameless_ = 0;
  std::string renumbered_;  // the first NIC whose number differs from the file's
};

}  // namespace

AssumedDevices assumeDevices(const XmlDocument& document, const Detection& detection) {
  return DeviceAssumer(document, detection).run();
}

}  // namespace railwise::topo
