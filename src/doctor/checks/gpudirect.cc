// GPUDirect RDMA: can the NICs read and write GPU memory, and if not, why?
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/pci.h"
#include "base/text/words.h"
#include "doctor/checks/check.h"
#include "sysfs/peer_memory.h"
#include "topo/machine/known_machines.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::doctor {
namespace {

constexpr char kNvidiaVersion[] = "/proc/driver/nvidia/version";
constexpr char kNvidiaParameters[] = "/proc/driver/nvidia/params";
constexpr char kNoRegistration[] =
    "Registration of GPU memory fails, and NCCL falls back to host memory or to sockets.";

// The open kernel modules, and GPUDirect RDMA by dma-buf with them, are for Turing and later.
bool openModulesFit(const Examination& exam) {
  constexpr int kTuring = 75;
  for (const sysfs::PciDevice& gpu : exam.ownGpus()) {
    const topo::KnownGpu* known = topo::knownGpu(gpu.vendor, gpu.device);
    if (known != nullptr && known->sm < kTuring) return false;
  }
  return true;
}

bool hasRealNic(const Examination& exam) {
  return std::ranges::any_of(exam.ports, [](const RdmaPort& port) {
    // EFA has a peer-memory module of its own.
    return !port.simulated && !port.software && (port.roce() || port.infiniband());
  });
}

// True if the tree says anything of the kernel's modules; recordings before this version have none.
bool modulesKnown(const System& system) { return system.exists("/proc/modules"); }

void checkDriver(Examination& exam) {
  if (exam.options.preflight && sysfs::gpuDevices(exam.system.tree()).empty() &&
      exam.options.topology_file.empty())
    exam.add(
        Severity::kError, "the machine has no GPU", {{"", "/sys/bus/pci/devices", "no GPU of NVIDIA or AMD"}},
        "A node for jobs has GPUs (--strict).",
        "lspci | grep -i -e nvidia -e 'Processing accel'    (a GPU that is lost: sudo dmesg | grep -i xid; "
        "power the node off and on)");
  if (exam.skipSimulated()) return;
  std::vector<Seen> lost;
  for (const std::string& busid : lostGpus(exam.system))
    lost.push_back({"GPU " + busid, "/sys/bus/pci/devices", "not there, and NVML or AMD SMI has it"});
  exam.add(
      Severity::kError, "the GPU is no longer on the PCI bus", std::move(lost),
      "A job that wants all GPUs of the node does not start.",
      "sudo dmesg | grep -i -e xid -e 'fallen off'\npower the node off and on; lspci -D | grep -i nvidia");
  if (!modulesKnown(exam.system)) return;
  const auto look = [&](bool there, const char* module, const char* what, const std::string& fix) {
    if (!there || exam.system.moduleLoaded(module)) return;
    std::vector<Seen> seen;
    for (const sysfs::PciDevice& gpu : exam.ownGpus())
      seen.push_back({"GPU " + gpu.busid, "/proc/modules", std::string("no ") + module});
    exam.add(Severity::kError, what, std::move(seen), "No program sees the GPUs.", fix);
  };
  look(exam.hasGpu(&sysfs::PciDevice::isNvidiaGpu), "nvidia", "the NVIDIA driver is not loaded",
       "sudo modprobe nvidia; sudo dmesg | grep -i nvrm | tail    (dkms status tells if it was built for "
       "this kernel)");
  look(exam.hasGpu(&sysfs::PciDevice::isAmdGpu), "amdgpu", "AMD's driver is not loaded",
       "sudo modprobe amdgpu; sudo dmesg | grep -i amdgpu | tail");
}

bool peerMemoryRegistered(const System& system) {
  return system.exists("/sys/kernel/mm/memory_peers/nv_mem") ||
         system.exists("/sys/kernel/mm/memory_peers/nv_mem_nc");
}

// CUDA offers dma-bufs of GPU memory with the open kernel modules alone; the kernel since 5.12 takes them.
std::string dmaBufMissing(const System& system) {
  if (system.kernel() < std::pair(5, 12)) return "the kernel is older than 5.12";
  const std::string driver = system.line(kNvidiaVersion);
  if (driver.find("Open Kernel Module") == std::string::npos)
    return "the NVIDIA driver is not the open kernel module";
  return {};
}

int driverBranch(const System& system) {
  for (const std::string& word : wordsOf(system.line(kNvidiaVersion))) {
    const int branch = std::atoi(word.c_str());
    if (branch > 99 && word.find('.') != std::string::npos) return branch;
  }
  return 0;
}

// The open kernel modules of the branch that is installed: another branch would not fit the fabric manager.
std::string openModuleFix(const System& system) {
  const std::string branch = std::to_string(driverBranch(system));
  return system.installCommand("nvidia-driver-" + branch + "-server-open",
                               "nvidia-driver-" + branch + "-open") +
         "    (NVIDIA's repository may name it nvidia-open-" + branch +
         "; same branch as nvidia-fabricmanager)";
}

void checkPeerMemory(Examination& exam) {
  const System& system = exam.system;
  if (!exam.hasGpu(&sysfs::PciDevice::isNvidiaGpu) || !hasRealNic(exam) || exam.skipSimulated()) return;
  if (!system.exists(kNvidiaVersion)) return;  // gpu-driver tells
  const std::string no_dma_buf =
      system.isOff("NCCL_DMABUF_ENABLE") ? "NCCL_DMABUF_ENABLE=0" : dmaBufMissing(system);
  const bool loaded = system.moduleLoaded("nvidia_peermem") || system.moduleLoaded("nv_peer_mem");
  const bool registered = peerMemoryRegistered(system);
  if (no_dma_buf.empty() || registered) return;
  const std::string open_modules =
      openModulesFit(exam) ? "\nor, with kernel 5.12 and later: " + openModuleFix(system) : "";
  exam.add(Severity::kError,
           loaded ? "nvidia_peermem is loaded, but the RDMA drivers do not know it"
                  : "neither dma-buf nor nvidia_peermem gives the NICs GPU memory",
           {{"", kNvidiaVersion, system.line(kNvidiaVersion)},
            loaded ? Seen{"", "/sys/kernel/mm/memory_peers", "no nv_mem"}
                   : Seen{"", "/proc/modules", "no nvidia_peermem"}},
           "GPUDirect RDMA is off without a word: data goes through host memory, often at half of the "
           "bandwidth. (No dma-buf: " +
               no_dma_buf + ".)",
           (loaded ? "Build the NVIDIA driver again after the RDMA drivers: sudo dkms build nvidia/<version> "
                     "--force && sudo dkms install nvidia/<version> --force    (dkms status names the "
                     "version)\nIt needs RDMA drivers with ib_register_peer_memory_client: DOCA-OFED's, or "
                     "Ubuntu's kernels"
                   : "sudo modprobe nvidia-peermem && echo nvidia-peermem | sudo tee "
                     "/etc/modules-load.d/nvidia-peermem.conf") +
               open_modules);
}

void checkAmdDmaBuf(Examination& exam) {
  const auto on = [&](const char* name) {
    const Variable* const set = exam.system.variable(name);
    return set != nullptr && set->value != "0";
  };
  if (!exam.system.environmentKnown() || on("NCCL_DMABUF_ENABLE") || on("RCCL_FORCE_ENABLE_DMABUF")) return;
  exam.add(
      Severity::kWarning, "GPUDirect by dma-buf is off in RCCL unless NCCL_DMABUF_ENABLE=1",
      {{"", "NCCL_DMABUF_ENABLE", "not 1, and no peer-memory client of AMD's driver"}},
      "The NICs and the kernel could, and RCCL does not ask them: data goes through host memory, often at "
      "half of the bandwidth.",
      "export NCCL_DMABUF_ENABLE=1");
}

// RCCL's NICs reach GPU memory by dma-buf, which needs two options of the kernel, or by AMD's peer-memory
// client of MLNX_OFED. RCCL takes dma-bufs only when asked to. Source: RCCL 2.28.3, net_ib.cc
// (rocm_ib_init, ncclIbDmaBufSupport), misc/rocmwrap.cc, and its documentation.
void checkAmdMemory(Examination& exam) {
  const System& system = exam.system;
  if (!exam.hasGpu(&sysfs::PciDevice::isAmdGpu) || !hasRealNic(exam) || exam.skipSimulated()) return;
  if (!sysfs::peerMemoryModule(system.tree()).empty()) return;
  const std::string file = "/boot/config-" + system.line("/proc/sys/kernel/osrelease");
  const std::string options = system.text(file);
  if (options.empty()) return;
  std::vector<Seen> seen;
  for (const char* option : {"CONFIG_PCI_P2PDMA=y", "CONFIG_DMABUF_MOVE_NOTIFY=y"})
    if (("\n" + options).find(std::string("\n") + option) == std::string::npos)
      seen.push_back({"", file, std::string("no ") + option});
  if (seen.empty()) {
    checkAmdDmaBuf(exam);
    return;
  }
  exam.add(
      Severity::kError, "neither dma-buf nor AMD's peer-memory client gives the NICs GPU memory",
      std::move(seen),
      "GPUDirect RDMA is off without a word: data goes through host memory, often at half of the bandwidth.",
      system.installCommand("linux-generic-hwe-24.04", "kernel") +
          "    (a kernel with both options; the distributions' of 6.2 and later have them)\nuname -r; grep "
          "-e P2PDMA -e MOVE_NOTIFY /boot/config-$(uname -r)");
}

// The root port above a device, or the device itself: "/sys/devices/pci0009:00/0009:00:00.0".
std::string rootPortOf(const std::string& path) {
  const auto root = path.find("/pci");
  const auto port = root == std::string::npos ? root : path.find('/', root + 1);
  return port == std::string::npos ? "" : path.substr(0, path.find('/', port + 1));
}

// Grace's GPUs, which the driver reaches coherently, since 595: GPU and NIC share a root port, or the NIC is
// in an IOMMU group. Source: NVIDIA aicr issues 2459, 2607, 2691.
void checkSharedRoot(Examination& exam) {
  const System& system = exam.system;
  std::vector<Seen> seen;
  for (const sysfs::PciDevice& gpu : exam.ownGpus()) {
    const topo::KnownGpu* known = topo::knownGpu(gpu.vendor, gpu.device);
    const std::string_view name = known == nullptr ? "" : known->name;
    if (!name.starts_with("GH200") && !name.starts_with("GB200")) continue;
    for (const RdmaPort* port : exam.usedPorts()) {
      if (port->pci_path.empty() || port->software || rootPortOf(port->pci_path) == rootPortOf(gpu.path) ||
          system.exists(port->pci_path + "/iommu_group"))
        continue;
      seen.push_back({port->device, port->pci_path + "/iommu_group",
                      "none, and no root port in common with GPU " + gpu.busid});
    }
  }
  exam.add(Severity::kWarning, "the driver gives no dma-bufs to a NIC that is in no IOMMU group",
           std::move(seen), kNoRegistration,
           "sudo dmesg | grep -i -e smmu -e iommu    (switch the SMMU on: in the firmware, and no "
           "arm-smmu-v3.disable or iommu=off on the kernel's command line)\n"
           "drivers from 595 on have no NVreg_GrdmaPciTopoCheckOverride");
}

// The driver compares the IOMMU groups of GPU and NIC before it gives a dma-buf. On Grace they differ, and
// the override is needed; later drivers have neither check nor override. Source: azhpc-images pull request
// 589, NVIDIA aicr pull request 2607.
void checkOverride(Examination& exam) {
  constexpr int kRemovedInBranch = 595;
  const System& system = exam.system;
  const int branch = driverBranch(system);
  if (branch == 0 || peerMemoryRegistered(system)) return;
  if (branch >= kRemovedInBranch) return checkSharedRoot(exam);
  if (system.field(kNvidiaParameters, "GrdmaPciTopoCheckOverride") != "0") return;
  const auto group = [&](const std::string& path) {
    return sysfs::realPathOf(system.tree(), path + "/iommu_group");
  };
  std::vector<Seen> seen;
  for (const sysfs::PciDevice& gpu : exam.ownGpus()) {
    const std::string own = group(gpu.path);
    const bool translated = !own.empty() && system.hasSmmu();
    const bool shared =
        std::ranges::any_of(exam.ports, [&](const RdmaPort& port) { return group(port.pci_path) == own; });
    if (translated && !shared && !exam.ports.empty())
      seen.push_back({"GPU " + gpu.busid, kNvidiaParameters, "GrdmaPciTopoCheckOverride: 0"});
  }
  exam.add(
      Severity::kWarning, "the driver refuses dma-bufs to NICs of other IOMMU groups", std::move(seen),
      kNoRegistration,
      "echo 'options nvidia NVreg_GrdmaPciTopoCheckOverride=1' | sudo tee /etc/modprobe.d/nvidia-gdr.conf\n"
      "sudo update-initramfs -u (Debian, Ubuntu) or sudo dracut -f (RHEL), then reboot; drivers from 595 on "
      "need no override");
}

// The PCI root above a device: "pci0000:3a".
std::string rootOf(const std::string& path) {
  const std::vector<std::string> parts = sysfs::splitPath(path);
  const auto root = std::ranges::find_if(parts, [](const std::string& part) {
    return part.starts_with("pci") && part.find(':') != std::string::npos;
  });
  return root == parts.end() ? "" : *root;
}

// In a virtual machine that hides its tree (hidden-tree) each device has a root of its own: no GPU has a NIC.
void checkRoots(Examination& exam) {
  std::map<std::string, std::size_t> nics;  // by root
  // A NIC that NCCL_IB_HCA leaves out is there.
  for (const RdmaPort& port : exam.ports)
    if (!port.software && !port.not_given) ++nics[rootOf(port.pci_path)];
  const std::vector<sysfs::PciDevice> gpus = sysfs::gpuDevices(exam.system.tree());
  std::map<std::size_t, std::size_t> having;  // how many GPUs have so many NICs
  for (const sysfs::PciDevice& gpu : gpus) ++having[nics[rootOf(gpu.path)]];
  const auto usual = std::ranges::max_element(having, {}, &std::pair<const std::size_t, std::size_t>::second);
  if (usual == having.end() || 2 * usual->second <= gpus.size()) return;  // so the board was made, perhaps
  std::vector<Seen> seen;
  for (const sysfs::PciDevice& gpu : gpus) {
    const std::string root = rootOf(gpu.path);
    if (nics[root] < usual->first)
      seen.push_back({"GPU " + gpu.busid, gpu.path,
                      counted(nics[root], "NIC") + " on root " + root + ", " + std::to_string(usual->first) +
                          " at most other GPUs"});
  }
  // A card without its device has been told of.
  const bool told = std::ranges::any_of(
      exam.findings.all(), [](const Finding& finding) { return finding.check == "rdma-devices"; });
  if (seen.empty() || told) return;
  exam.add(Severity::kWarning, "fewer NICs are on the GPU's PCIe root complex than on those of other GPUs",
           std::move(seen), "A NIC is missing, or its slot is elsewhere: the GPU shares those of others.",
           "railwise explain    (tells each GPU's NIC and the path)\n"
           "compare with an equal node: lspci -D | grep -i -e mellanox -e amazon -e broadcom");
}

void checkDataDirect(Examination& exam) {
  bool cards = false, functions = false;
  for (const sysfs::PciDevice& device : sysfs::pciDevices(exam.system.tree())) {
    if (device.vendor != pci::kMellanox) continue;
    cards = cards || device.device == pci::kConnectX8;
    functions = functions || device.device == pci::kDataDirect;
  }
  if (!cards || !functions) return exam.nothingHere("no ConnectX-8 with Data Direct");
  if (!exam.system.isOff("NCCL_IB_DATA_DIRECT")) return;
  exam.add(
      Severity::kWarning, "Data Direct of ConnectX-8 is switched off by a setting",
      {{"", exam.system.variable("NCCL_IB_DATA_DIRECT")->where, "NCCL_IB_DATA_DIRECT=0"}},
      "GPU data then takes the way through the CPU's PCIe root instead of the card's own link to the GPU.",
      "unset NCCL_IB_DATA_DIRECT");
}

constexpr std::array<Check, 6> kGpuDirectChecks = {
    {{"gpu-driver", "gpudirect", "the GPUs' driver", checkDriver, Needs::kGpu},
     {"gpudirect", "gpudirect", "dma-buf and nvidia_peermem: loaded, and known to the RDMA drivers",
      checkPeerMemory, Needs::kNvidiaAndPort},
     {"gpudirect-amd", "gpudirect", "AMD's GPUs: dma-buf and the peer-memory client", checkAmdMemory,
      Needs::kAmdAndPort},
     {"gpudirect-override", "gpudirect",
      "IOMMU groups of GPUs and NICs on Grace: what drivers before and since 595 ask", checkOverride,
      Needs::kNvidiaAndPort},
     {"gpu-nic-root", "gpudirect", "GPUs with fewer NICs on their root complex than others", checkRoots,
      Needs::kGpuAndPort},
     {"data-direct", "gpudirect", "Data Direct of ConnectX-8", checkDataDirect}}};

}  // namespace

std::vector<std::string> lostGpus(const System& system) {
  std::vector<std::string> lost;
  const auto told = topo::recordedGpus(system.tree());
  // A container may hide the PCI bus.
  if (!told.ok() || *told == nullptr || sysfs::gpuDevices(system.tree()).empty()) return lost;
  for (const gpu::Device& gpu : (*told)->gpus)
    if (gpu::isWhole(gpu) && !gpu.busid.empty() && !system.exists("/sys/bus/pci/devices/" + gpu.busid))
      lost.push_back(gpu.busid);
  return lost;
}

std::span<const Check> gpuDirectChecks() { return kGpuDirectChecks; }

}  // namespace railwise::doctor
