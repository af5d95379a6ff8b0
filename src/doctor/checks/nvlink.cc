// NVLink and NVSwitch: has each GPU joined its fabric, and can NCCL use what the fabric offers?
#include <algorithm>
#include <array>

#include "doctor/checks/check.h"
#include "topo/machine/known_machines.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::doctor {
namespace {

constexpr int kHopper = 90;  // the first GPUs that NVML tells a fabric state of, and that have NVLS

topo::GpuAnswers gpusOf(const Examination& exam) {
  const auto answers = topo::recordedGpus(exam.system.tree());
  return answers.ok() ? *answers : nullptr;
}

// Compute capability times ten of the GPUs if NVSwitches join them; 0: no such board.
int switchedBoard(const Examination& exam) {
  constexpr std::size_t kLeast = 8;
  const std::vector<sysfs::PciDevice> gpus = exam.ownGpus();
  const topo::KnownGpu* const known = gpus.empty() ? nullptr : topo::knownGpu(gpus[0].vendor, gpus[0].device);
  return known == nullptr || known->nvswitch_links == 0 || gpus.size() < kLeast ? 0 : known->sm;
}

// Where fabricmanager's unit lets it write its process id. Source: nvidia-fabricmanager.service, FM_PID_FILE.
constexpr char kManagerFile[] = "/var/run/nvidia-fabricmanager/nv-fabricmanager.pid";
// The driver of NVSwitches that a host sees itself (before Blackwell).
constexpr char kSwitchDriver[] = "/proc/driver/nvidia-nvswitch";

constexpr const char* kManagerFix =
    "systemctl status nvidia-fabricmanager; sudo systemctl restart nvidia-fabricmanager    (its version must "
    "be the driver's; no job may run)\n"
    "nvidia-smi -q | grep -A 4 Fabric; sudo dmesg | grep -i -e sxid -e nvswitch";

// Before Hopper NVML tells nothing: the process must be there.
void checkOldManager(Examination& exam) {
  const System& system = exam.system;
  if (!system.container().empty() || !system.exists(kSwitchDriver) || system.exists(kManagerFile)) return;
  exam.add(Severity::kError, "no Fabric Manager runs on a machine with NVSwitches",
           {{"", kManagerFile, "not there"}, {"", kSwitchDriver, "there"}},
           "Each CUDA program fails at its start (error 802, system not yet initialized).", kManagerFix);
}

void checkFabric(Examination& exam) {
  const topo::GpuAnswers gpus = gpusOf(exam);
  bool told = false;
  std::vector<Seen> seen;
  for (std::size_t i = 0; gpus != nullptr && i < gpus->gpus.size(); ++i) {
    const gpu::Device& device = gpus->gpus[i];
    told = told || !device.fabric_state.empty();
    if (!gpu::isWhole(device) || device.fabric_state.empty() || device.fabric_state == "completed") continue;
    seen.push_back({"GPU " + device.busid, "NVML, fabric state", device.fabric_state});
  }
  exam.add(Severity::kError, "the GPU has not joined its NVLink fabric", std::move(seen),
           "CUDA programs fail at their start (error 802), or the GPU has no NVLink peers; NVLS and NVLink "
           "between hosts are off.",
           std::string(kManagerFix) +
               "\nOn a rack (NVL72) the switch trays run it: nvidia-smi -q, and NMX on the trays");
  const int sm = switchedBoard(exam);
  if (told) return;
  if (sm == 0) return exam.nothingHere("no GPUs with NVSwitches");
  if (sm < kHopper) return checkOldManager(exam);
  if (exam.system.environmentKnown() && !exam.skipSimulated())
    exam.cannotLook("NVLink fabric state: NVML does not tell (libnvidia-ml.so.1 of driver 525 or later)");
}

// The nodes over which GPU memory is shared between hosts. Source: NCCL 2.30.7, mnnvl.cc (init fails where
// the domain is complete and no handle can be exported), and the driver's line in /proc/devices.
constexpr char kChannels[] = "/dev/nvidia-caps-imex-channels";

void checkImex(Examination& exam) {
  const topo::GpuAnswers gpus = gpusOf(exam);
  const System& system = exam.system;
  const auto at = gpus == nullptr ? std::vector<gpu::Device>() : gpus->gpus;
  const auto domain =
      std::ranges::find_if(at, [](const gpu::Device& device) { return !device.fabric_cluster.empty(); });
  if (domain == at.end()) return exam.nothingHere("no NVLink domain of several hosts");
  if (system.isOff("NCCL_MNNVL_ENABLE")) return;
  if (system.isOff("NCCL_CUMEM_ENABLE"))
    return exam.add(Severity::kAdvice, "NCCL_CUMEM_ENABLE=0 switches NVLink between hosts off",
                    {{"", system.variable("NCCL_CUMEM_ENABLE")->where, "NCCL_CUMEM_ENABLE=0"}},
                    "Ranks of other hosts of the domain are then reached over the NICs.",
                    "unset NCCL_CUMEM_ENABLE");
  const std::string devices = system.text("/proc/devices");
  if (devices.empty()) return exam.cannotLook("IMEX channels: /proc/devices and /dev of the machine");
  if (!system.tree().list(kChannels).empty()) return;
  const bool driver = devices.find("nvidia-caps-imex-channels") != std::string::npos;
  exam.add(Severity::kError, "the NVLink domain spans hosts, and there is no IMEX channel",
           {{"GPU " + domain->busid, kChannels, "empty or missing"},
            {"", "/proc/devices", driver ? "nvidia-caps-imex-channels" : "no nvidia-caps-imex-channels"}},
           "NCCL finds the domain and cannot share memory in it: its init fails over several nodes.",
           system.container().empty()
               ? "sudo mkdir -p /dev/nvidia-caps-imex-channels && sudo mknod "
                 "/dev/nvidia-caps-imex-channels/channel0 c $(awk '/imex-channels/ {print $1}' "
                 "/proc/devices) 0    (for good: options nvidia NVreg_CreateImexChannel0=1)\n"
                 "nvidia-imex-ctl -N    (IMEX runs on all nodes of the domain?)"
               : "give the container a channel: --device=/dev/nvidia-caps-imex-channels/channel0; in "
                 "Kubernetes a ComputeDomain of NVIDIA's DRA driver");
}

void checkNvls(Examination& exam) {
  const topo::GpuAnswers gpus = gpusOf(exam);
  if (gpus == nullptr || switchedBoard(exam) < kHopper) return exam.nothingHere("no GPUs with NVLS");
  if (exam.system.isOff("NCCL_NVLS_ENABLE")) return;
  std::vector<Seen> seen;
  for (const gpu::Device& device : gpus->gpus)
    if (gpu::isWhole(device) && device.partitioned)
      seen.push_back({"GPU " + device.busid, "NVML, MIG mode", "on"});
  exam.add(Severity::kAdvice, "a GPU in MIG mode has no NVLink and no NVLS", std::move(seen),
           "NCCL reduces without the NVSwitches on this machine.",
           "sudo nvidia-smi -i <GPU> -mig 0    (when no job runs)");
}

constexpr std::array<Check, 3> kNvlinkChecks = {
    {{"fabric-manager", "nvlink", "GPUs that have not joined their NVLink fabric", checkFabric, Needs::kGpu},
     {"imex", "nvlink", "IMEX channels of NVLink between hosts", checkImex, Needs::kGpu},
     {"nvls", "nvlink", "what keeps NCCL from reducing in NVSwitches", checkNvls, Needs::kGpu}}};

}  // namespace

std::span<const Check> nvlinkChecks() { return kNvlinkChecks; }

}  // namespace railwise::doctor
