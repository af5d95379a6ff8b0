#include "topo/sources/sysfs.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "gpu/json.h"
#include "sysfs/pci_devices.h"
#include "topo/machine/assumed_devices.h"
#include "topo/machine/fusion.h"
#include "topo/machine/known_machines.h"
#include "topo/sources/gpu_answers.h"
#include "topo/sources/net_devices.h"
#include "topo/sources/sys_walk.h"

namespace railwise::topo {
namespace {

// NCCL looks for NVLink-C2C from this compute capability on (ncclTopoGetXmlFromGpu).
constexpr int kFirstC2cSm = 90;
// The classes that NCCL from 2.31 on writes for a GPU and for POWER's bridge at the other end of an NVLink.
constexpr const char* kGpuClass = "0x03";
constexpr const char* kNpuClass = "0x068001";

// The number of NVLinks that NCCL reads for a GPU (ncclTopoGetXmlFromGpu).
int maxNvlinks(int sm) {
  if (sm < 60) return 0;
  if (sm < 70) return 4;
  if (sm < 80) return 6;
  return sm < 90 ? 12 : 18;
}

// What NCCL asks NVML about a GPU, or RCCL the ROCm libraries, because /sys does not have it.
struct GpuIdentity {
  struct LinkTo {
    std::string target;  // bus id of a GPU or an NVSwitch, or kHiddenTarget (load.h)
    int count = 0;
    bool nvswitch = false;  // the target is an NVSwitch
  };
  int sm = kAssumedSm;
  std::string gcn;              // AMD
  std::vector<LinkTo> nvlinks;  // in the library's order; of AMD: xGMI
  int c2c_links = 0;
  int c2c_mbps = 0;  // of one of them
};

class SysfsReader {
 public:
  SysfsReader(const sysfs::FileTree& tree, const Settings& settings, const SysfsOptions& options,
              const gpu::GpuTopology* answers, std::vector<std::string>* remarks)
      : tree_(tree), settings_(settings), options_(options), remarks_(remarks), answers_(answers) {}

  // What the last read() has assumed.
  Assumed assumed() const {
    const bool speed = std::ranges::any_of(nets_, &NetDevice::speed_assumed);
    return {.nic_speed = speed && options_.detection.nic_speed == Detection().nic_speed};
  }

  Outcome<XmlDocument> read(const std::optional<XmlDocument>& topology_file) {
    if (topology_file) file_ = &*topology_file;
    if (const std::string missing = findDevices(); !missing.empty()) return Error{missing};
    if (file_ != nullptr && remarks_ != nullptr) {
      remarkUnknownDevices(*file_);
      remarkUnknownNets(*file_);
    }
    SysWalk walk(tree_, settings_, machine());
    // Reading this file makes Broadcom's driver look at its switches again (the misspelling is the driver's).
    (void)tree_.read("/sys/kernel/pci_switch_link/refresh_switch_toplogy");
    XmlDocument all;
    for (std::size_t rank = 0; rank < gpus_.size(); ++rank) {
      const Outcome<XmlDocument> document = rankDocument(walk, topology_file, static_cast<int>(rank));
      if (!document.ok()) return Error{document.error()};
      if (const std::string limit = fuseXml(all, *document); !limit.empty()) {
        return Error{tree_.name() + ": " + limit};
      }
    }
    all.version = amd_ ? 2 : 1;
    if (topology_file) all.file = topology_file->file;
    return all;
  }

 private:
  void remark(std::string text) {
    if (remarks_ != nullptr) remarks_->push_back(std::move(text));
  }

  // Returns "", or what is missing.
  std::string findDevices() {
    gpus_ = sysfs::gpuDevices(tree_);
    if (gpus_.empty()) {
      return "no GPU in " + tree_.name() + ": /sys/bus/pci/devices lists no display device by NVIDIA or AMD";
    }
    dropUnlisted();
    amd_ = gpus_.front().isAmdGpu();
    const bool mixed = std::any_of(gpus_.begin(), gpus_.end(),
                                   [&](const sysfs::PciDevice& gpu) { return gpu.isAmdGpu() != amd_; });
    if (mixed) return tree_.name() + " has GPUs by NVIDIA and by AMD: no NCCL drives both";
    constexpr std::size_t kNodesPerGpu = 2;  // <pci> and <gpu>
    if (gpus_.size() * kNodesPerGpu > static_cast<std::size_t>(kXmlMaxNodes)) {
      return tree_.name() + " has " + std::to_string(gpus_.size()) +
             " GPUs; NCCL's XML of one host is limited to " + std::to_string(kXmlMaxNodes) +
             " nodes, so its init would fail";
    }
    nets_ = options_.nets
                ? *options_.nets
                : netDevices(tree_, settings_, {options_.detection.nic_speed, options_.gdr}, remarks_);
    lookUpGpus();
    remarkDevices();
    return {};
  }

  // GPUs of which no library has told are known by their PCI ids, if all are of one kind.
  void lookUpGpus() {
    if (!options_.detection.takesKnownGpus()) return;
    const KnownGpu* const kind = knownGpu(gpus_.front().vendor, gpus_.front().device);
    const bool alike = std::all_of(gpus_.begin(), gpus_.end(), [&](const sysfs::PciDevice& gpu) {
      return knownGpu(gpu.vendor, gpu.device) == kind;
    });
    if (alike) known_ = knownDetection(kind, static_cast<int>(gpus_.size()));
  }

  // Where a vendor's library lists GPUs, a job can use these and no others: /sys shows all GPUs of the host
  // also to a container that has been given some of them, and the graphics of the processor besides.
  void dropUnlisted() {
    if (answers_ == nullptr || answers_->gpus.empty()) return;
    // A GPU whose address the library does not tell may be any of these.
    const bool addressless =
        std::any_of(answers_->gpus.begin(), answers_->gpus.end(),
                    [](const gpu::Device& device) { return gpu::isWhole(device) && device.busid.empty(); });
    if (addressless) return;
    std::string dropped;
    std::erase_if(gpus_, [&](const sysfs::PciDevice& gpu) {
      if (answerFor(gpu.busid) != nullptr || !listsLike(gpu)) return false;
      dropped += (dropped.empty() ? "" : ", ") + gpu.busid;
      return true;
    });
    if (gpus_.empty()) {
      gpus_ = sysfs::gpuDevices(tree_);
      remark("the vendor's library lists GPUs that /sys does not have: its answers are not used");
      answers_ = nullptr;
    } else if (!dropped.empty()) {
      remark(dropped +
             ": in /sys, but the vendor's library does not list it: left out (a container shows some of the "
             "GPUs, or the driver has lost one: see dmesg)");
    }
  }

  bool inSys(const std::string& busid) const {
    return std::any_of(gpus_.begin(), gpus_.end(),
                       [&](const sysfs::PciDevice& gpu) { return gpu.busid == busid; });
  }

  // Has the GPU's library listed any GPU? Beside NVIDIA's GPUs, one of AMD that no library lists is the
  // graphics of the processor.
  bool listsLike(const sysfs::PciDevice& gpu) const {
    return std::any_of(answers_->gpus.begin(), answers_->gpus.end(), [&](const gpu::Device& device) {
      return gpu.isAmdGpu() || device.vendor == gpu::Vendor::kNvidia;
    });
  }

  const gpu::Device* answerFor(const std::string& busid) const {
    if (answers_ == nullptr) return nullptr;
    const auto at = std::find_if(
        answers_->gpus.begin(), answers_->gpus.end(),
        [&](const gpu::Device& device) { return gpu::isWhole(device) && device.busid == busid; });
    return at == answers_->gpus.end() ? nullptr : &*at;
  }

  // The element of a device in the topology file, which NCCL takes before it asks /sys and the libraries.
  // Null: the file does not have the device.
  const XmlNode* inFile(const std::string& busid) const {
    return file_ != nullptr ? file_->find("pci", "busid", busid) : nullptr;
  }

  // True if neither a vendor's library nor the topology file tells what is assumed of the GPU.
  bool untold(const sysfs::PciDevice& gpu) const {
    if (answerFor(gpu.busid) != nullptr) return false;
    const XmlNode* const pci = inFile(gpu.busid);
    const XmlNode* const described = pci != nullptr ? pci->child("gpu") : nullptr;
    if (described == nullptr || !described->has(amd_ ? "gcn" : "sm")) return true;
    return known_.nvswitch_links > 0 && described->child("nvlink") == nullptr;
  }

  void remarkDevices() {
    if (remarks_ == nullptr) return;
    if (answers_ != nullptr)
      for (const std::string& text : answers_->remarks) remark(text);
    if (nets_.empty()) {
      remark("no RDMA device with an active port in /sys/class/infiniband of " + tree_.name() +
             ": NCCL would use sockets, which are not modelled here");
    }
    remarkLost();
    remarkNodeless();
    const bool unknown =
        std::any_of(gpus_.begin(), gpus_.end(), [&](const sysfs::PciDevice& gpu) { return untold(gpu); });
    if (amd_ && unknown) {
      remark(
          "no library has told of AMD's GPUs, and /sys has neither their architecture nor their xGMI links: "
          "none are shown");
    } else if (!amd_ && unknown && known_.gpu_sm != 0) {
      remark("NVML has not told of the GPUs; " + knownText(known_));
    } else if (!amd_ && unknown && options_.detection.gpu_sm == 0) {
      remark(
          "NVML has not told the compute capability of the GPUs, and /sys does not have it: 8.0 is assumed; "
          "--gpu-sm=N sets it");
    }
    for (const sysfs::PciDevice& gpu : gpus_) remarkSlowLink(gpu);
  }

  bool hasNet(const std::string& name) const {
    return std::any_of(nets_.begin(), nets_.end(),
                       [&name](const NetDevice& net) { return net.name == name; });
  }

  // Reports nets of the topology file that NCCL drops, because the plugin has no device of their name. "a+b"
  // is a virtual NIC, which NCCL may make.
  void remarkUnknownNets(const XmlDocument& topology_file) {
    std::string unknown;
    for (const XmlNode* node : topology_file.order()) {
      const std::string name = node->name == "net" ? node->get("name") : "";
      if (name.empty() || name.find('+') != std::string::npos || hasNet(name)) continue;
      unknown += (unknown.empty() ? "" : ", ") + name;
    }
    if (unknown.empty()) return;
    const std::string known = joined(nets_, ", ", &NetDevice::name);
    remark("the plugin has no device of the name " + unknown + ", which the topology file has: NCCL drops " +
           "what the file says of it" + (known.empty() ? "" : " (the plugin has " + known + ")"));
  }

  // Reports GPUs and NICs of the topology file that NCCL drops, because no rank has them.
  void remarkUnknownDevices(const XmlDocument& topology_file) {
    std::string unknown;
    for (const XmlNode* node : topology_file.order()) {
      if (node->name != "pci" || !node->has("busid")) continue;
      const std::string busid = lowerCase(node->get("busid"));
      const std::string& device_class = node->get("class");
      const bool gpu = node->child("gpu") != nullptr || device_class.starts_with("0x03");
      const bool nic = node->child("nic") != nullptr || device_class.starts_with("0x02");
      if ((gpu && !inSys(busid)) || (nic && !sysfs::pciPath(tree_, busid)))
        unknown += (unknown.empty() ? "" : ", ") + busid;
    }
    if (!unknown.empty())
      remark("the machine has nothing at " + unknown +
             ", where the topology file has a GPU or NIC: NCCL drops it");
  }

  // Reports devices that NCCL loses. Devices without a PCI place share the <nic> of the first CPU, so they
  // count as ports of one card. Their virtual NIC would be put into a <nic> inside that <nic>, where NCCL
  // does not look (ncclTopoGetVNicParent).
  void remarkLost() {
    std::string lost;
    int count = 0;
    for (const NetDevice& net : nets_) {
      if (!net.busid.empty() || !net.can_fuse) continue;
      lost += (lost.empty() ? "" : ", ") + net.name;
      ++count;
    }
    if (count < 2 || settings_.ib_merge_nics == 0 || settings_.net_merge_level < PathType::kNvl) return;
    remark(lost +
           " have no PCI place: NCCL makes one NIC of them and then does not find it, so it has none; "
           "NCCL_NET_MERGE_LEVEL=LOC keeps them (Railwise's plugin does not let it)");
  }

  // Reports devices without a NUMA node. On a machine with one NUMA node that is usual and changes nothing.
  void remarkNodeless() {
    if (sysfs::numaNodes(tree_).size() < 2) return;
    std::string nodeless;
    const auto look = [&](const std::string& busid, const std::string& name) {
      const XmlNode* place = inFile(busid);
      while (place != nullptr && place->name != "cpu") place = place->parent;
      if (place != nullptr && place->get("numaid") != "-1") return;
      const std::optional<std::string> folder = sysfs::pciPath(tree_, busid);
      if (folder && sysfs::attribute(tree_, *folder, "numa_node") == "-1")
        nodeless += (nodeless.empty() ? "" : ", ") + name;
    };
    for (const sysfs::PciDevice& gpu : gpus_) look(gpu.busid, gpu.busid);
    for (const NetDevice& net : nets_) look(net.busid, net.name);
    if (nodeless.empty()) return;
    remark("the firmware does not give the NUMA node of " + nodeless +
           ": NCCL takes that for a CPU of its own (-1), SYS away from all others; NCCL_TOPO_FILE can say "
           "where it is");
  }

  void remarkSlowLink(const sysfs::PciDevice& gpu) {
    if (const XmlNode* pci = inFile(gpu.busid); pci != nullptr && pci->has("link_speed")) return;
    const std::string now = sysfs::attribute(tree_, gpu.path, "current_link_speed");
    const std::string most = sysfs::attribute(tree_, gpu.path, "max_link_speed");
    const float speed_now = std::strtof(now.c_str(), nullptr);
    if (speed_now <= 0 || speed_now >= std::strtof(most.c_str(), nullptr)) return;
    remark("the link of " + gpu.busid + " runs at " + now + " now, not at " + most +
           ": idle GPUs save power; NCCL uses what it finds at its init");
  }

  SysWalk::Machine machine() {
    SysWalk::Machine machine;
    machine.host_hash = options_.host_hash;
    machine.endpoint_ids = options_.endpoint_ids;
    if (options_.cpu) {
      machine.cpu = *options_.cpu;
    } else {
      CpuAnswer answer = cpuOf(tree_);
      machine.cpu = std::move(answer.cpu);
      if (answer.guessed) {
        remark(tree_.name() + " does not give its CPU: " + cpuIdentityText(machine.cpu) +
               " of this machine is taken; --cpu=arch,vendor,family,model sets it");
      }
    }
    for (const sysfs::PciDevice& gpu : gpus_) {
      if (gpu.isNvidiaGpu()) machine.nvml_gpus.insert(gpu.busid);
    }
    return machine;
  }

  Outcome<XmlDocument> rankDocument(SysWalk& walk, const std::optional<XmlDocument>& topology_file,
                                    int rank) {
    XmlDocument document = topology_file ? XmlDocument(*topology_file) : XmlDocument();
    for (XmlNode* node : document.order()) {
      if (node->name != "cpu") continue;
      node->set("host_hash", options_.host_hash);
      if (!options_.file_cpus_get_masks) node->setIfUnset("affinity", "");
    }
    if (document.system() == nullptr) {
      document.add(nullptr, "system")->set("version", amd_ ? "2" : "1");
    }
    std::string failed = fillGpu(walk, document, rank);
    if (failed.empty()) failed = importDevices(walk, document);
    if (!failed.empty()) return Error{tree_.name() + ": " + failed};
    trimXml(document);
    return document;
  }

  std::string importDevices(SysWalk& walk, XmlDocument& document) const {
    std::string circles;
    std::vector<NetDevice> devices = nets_;  // a copy, because importing adds virtual devices
    const std::string failed =
        importNets(document, devices, settings_, [&](XmlDocument& rank, const NetDevice& device) -> XmlNode* {
          if (device.busid.empty()) return nullptr;
          XmlNode* pci = SysWalk::pciNode(rank, device.busid);
          pci->setIfUnset("class", "0x02");
          const std::string problem = walk.fillPci(rank, pci);
          if (circles.empty()) circles = problem;
          return problem.empty() ? pci : nullptr;
        });
    return circles.empty() ? failed : circles;
  }

  // What the vendor's library says about the GPU, or else what the options say about all GPUs.
  GpuIdentity identityOf(const sysfs::PciDevice& device) const {
    GpuIdentity identity;
    // RCCL writes the number of compute units there, which no library tells. It matters to one rule alone:
    // GPUs of 80 read from each other over NVLink.
    if (amd_) identity.sm = 0;
    if (options_.detection.gpu_sm != 0) identity.sm = options_.detection.gpu_sm;
    const gpu::Device* told = answerFor(device.busid);
    if (told == nullptr) {
      if (known_.gpu_sm != 0) identity.sm = known_.gpu_sm;
      const int links = std::max(options_.detection.nvswitch_links, known_.nvswitch_links);
      identity.nvlinks.push_back({kHiddenTarget, links, true});
      return identity;
    }
    if (told->sm != 0) identity.sm = told->sm;
    if (told->vendor == gpu::Vendor::kAmd) identity.gcn = told->architecture;
    for (const gpu::Link& link : answers_->links) {
      if (link.from != told->index || link.width <= 0 || link.kind == gpu::LinkKind::kPcie) continue;
      // To a partition that is no PCI function: NCCL would take its address for that of the whole GPU.
      if (link.to >= 0 && !inSys(link.to_busid)) continue;
      // Only a switch may be hidden, from a virtual machine.
      const bool may_hide = link.kind == gpu::LinkKind::kNvswitch || link.kind == gpu::LinkKind::kC2c;
      if (link.to_busid.empty() && !may_hide) continue;
      if (link.kind == gpu::LinkKind::kC2c) {
        identity.c2c_links = link.width;
        identity.c2c_mbps = static_cast<int>(std::lround(link.gb_per_s * 1000 / link.width));
      } else {
        identity.nvlinks.push_back({link.to_busid.empty() ? kHiddenTarget : link.to_busid, link.width,
                                    link.kind == gpu::LinkKind::kNvswitch});
      }
    }
    return identity;
  }

  // Does what ncclTopoFillGpu does, and what ncclTopoGetSystem adds for the rank.
  std::string fillGpu(SysWalk& walk, XmlDocument& document, int rank) {
    const sysfs::PciDevice& device = gpus_[static_cast<std::size_t>(rank)];
    XmlNode* pci = SysWalk::pciNode(document, device.busid);
    pci->setIfUnset("class", "0x03");
    if (std::string problem = walk.fillPci(document, pci); !problem.empty()) return problem;
    XmlNode* gpu = pci->child("gpu");
    if (gpu == nullptr) gpu = document.add(pci, "gpu");
    gpu->setIfUnset("dev", std::to_string(rank));  // NVML numbers GPUs in the order of their addresses
    // As in NCCL, a topology file can hide a GPU by dev="-1".
    if (std::strtol(gpu->get("dev").c_str(), nullptr, 0) == -1) return {};
    const GpuIdentity identity = identityOf(device);
    gpu->setIfUnset("sm", std::to_string(identity.sm));
    if (!identity.gcn.empty()) gpu->setIfUnset("gcn", identity.gcn);
    addNvlinks(walk, document, *gpu, identity);
    gpu->set("keep", "1");
    gpu->set("rank", std::to_string(rank));
    gpu->setIfUnset("gdr", options_.gdr ? "1" : "0");
    if (!amd_ && settings_.nccl.has(NcclRule::kPartitions)) gpu->set("mlopart", "-1");
    return {};
  }

  // The element for the links to that target. From 2.31 on all NVSwitches are one target, and NCCL writes the
  // class itself.
  XmlNode* linkTo(XmlDocument& document, XmlNode& gpu, const char* tag, const GpuIdentity::LinkTo& link) {
    const bool by_type = !amd_ && settings_.nccl.has(NcclRule::kOneNvswitch);
    const std::string target = by_type && link.nvswitch ? kHiddenTarget : link.target;
    if (XmlNode* known = gpu.child(tag, "target", target); known != nullptr) return known;
    XmlNode* added = document.add(&gpu, tag);
    added->set("target", target);
    added->set("count", "0");
    if (by_type) added->set("tclass", link.nvswitch ? kNvswitchClass : inSys(target) ? kGpuClass : kNpuClass);
    return added;
  }

  static void addLinks(XmlNode& link, int count) {
    const int known = static_cast<int>(std::strtol(link.get("count").c_str(), nullptr, 0));
    link.set("count", std::to_string(known + count));
  }

  // Adds the links that the vendor's library would report, of NVLinks up to the number that NCCL reads.
  void addNvlinks(SysWalk& walk, XmlDocument& document, XmlNode& gpu, const GpuIdentity& identity) {
    const int sm = static_cast<int>(std::strtol(gpu.get("sm").c_str(), nullptr, 0));
    const char* const tag = amd_ ? "xgmi" : "nvlink";
    int left = amd_ ? std::numeric_limits<int>::max() : maxNvlinks(sm);
    if (gpu.child(tag) != nullptr) left = 0;
    for (const GpuIdentity::LinkTo& link : identity.nvlinks) {
      const int count = std::min(left, link.count);
      if (count <= 0) continue;
      addLinks(*linkTo(document, gpu, tag, link), count);
      left -= count;
    }
    if (identity.c2c_links > 0 && sm >= kFirstC2cSm && gpu.child("c2c") == nullptr) {
      XmlNode* c2c = document.add(&gpu, "c2c");
      c2c->set("bw", std::to_string(identity.c2c_mbps));
      c2c->set("count", std::to_string(identity.c2c_links));
    }
    const bool fills = settings_.nccl.has(NcclRule::kNvlinkClassFilled);
    for (XmlNode* link : gpu.children) {
      if (!(link->name == "nvlink" && fills) && link->name != "xgmi") continue;
      if (link->has("tclass")) continue;
      const std::string target_class = walk.classOf(link->get("target"));
      link->set("tclass", target_class.empty() ? kNvswitchClass : target_class);
    }
  }

  const sysfs::FileTree& tree_;
  const Settings& settings_;
  const SysfsOptions& options_;
  std::vector<std::string>* remarks_;
  const gpu::GpuTopology* answers_;
  const XmlDocument* file_ = nullptr;  // the topology file; null: there is none
  std::vector<sysfs::PciDevice> gpus_;
  std::vector<NetDevice> nets_;
  KnownDetection known_;  // of GPUs of which no library has told
  bool amd_ = false;
};

}  // namespace

Outcome<XmlDocument> readSysfs(const sysfs::FileTree& tree, const std::optional<XmlDocument>& topology_file,
                               const Settings& settings, const SysfsOptions& options,
                               std::vector<std::string>* remarks, Assumed* assumed) {
  GpuAnswers answers = options.gpu_answers;
  if (answers == nullptr) {
    auto recorded = recordedGpus(tree);
    if (!recorded.ok()) return recorded.failure();
    answers = std::move(*recorded);
  }
  const sysfs::RememberedTree remembered(tree);  // all ranks read the same devices
  SysfsReader reader(remembered, settings, options, answers.get(), remarks);
  auto document = reader.read(topology_file);
  if (assumed != nullptr) *assumed = reader.assumed();
  return document;
}

// A machine of 256 GPUs, each linked to each, needs 12 MB.
constexpr std::size_t kMaxAnswers = 32U << 20U;

Outcome<GpuAnswers> recordedGpus(const sysfs::FileTree& tree) {
  const std::optional<std::string> text = tree.read(kGpuAnswersPath, kMaxAnswers);
  if (!text) return GpuAnswers();
  auto answers = gpu::parseJson(*text);
  const std::string file = tree.name() + ": " + (kGpuAnswersPath + 1);
  if (!answers.ok())
    return Error{
        file + " " + answers.error() +
        "; record the machine again (railwise topo record), or remove the file: its GPUs are then assumed"};
  gpu::sanitize(*answers, file);
  return GpuAnswers(std::make_shared<gpu::GpuTopology>(std::move(*answers)));
}

Outcome<Machine> loadMachine(MachineInputs inputs) {
  const bool alone = inputs.tree == nullptr;
  const Detection& detection = inputs.options.detection;
  if (inputs.topology_file != nullptr) {
    const std::string& file = *inputs.topology_file;
    const XmlReadOptions limit{.max_nodes = alone && detection.any_size ? 0 : kXmlMaxNodes};
    auto read = inputs.topology_text == nullptr ? readXmlFile(file, limit)
                                                : parseXml(*inputs.topology_text, file, limit);
    if (!read.ok()) return read.failure();
    inputs.document = std::move(*read);
    if (inputs.name.empty()) inputs.name = sysfs::baseName(file);
  }
  if (alone)
    return loadDocument(std::move(inputs.document).value(), inputs.settings, detection,
                        std::move(inputs.name));
  if (inputs.options.gpu_answers == nullptr) {
    auto recorded = recordedGpus(*inputs.tree);
    if (!recorded.ok()) return recorded.failure();
    inputs.options.gpu_answers = std::move(*recorded);
  }
  std::vector<std::string> remarks;
  Assumed assumed;
  auto xml = readSysfs(*inputs.tree, inputs.document, inputs.settings, inputs.options,
                       inputs.remarks ? &remarks : nullptr, &assumed);
  if (!xml.ok()) return Error{xml.error(), Code::kNoDevice};
  auto machine = makeMachine(std::move(*xml), inputs.settings, inputs.tree->name());
  if (!machine.ok()) return machine;
  machine->completed = true;
  machine->remarks = std::move(remarks);
  machine->assumed = assumed;
  machine->gpu_answers = std::move(inputs.options.gpu_answers);
  return machine;
}

}  // namespace railwise::topo
