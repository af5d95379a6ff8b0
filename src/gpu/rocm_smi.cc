// AMD's GPUs from ROCm SMI (librocm_smi64). Constants and layouts as in AMD's rocm_smi.h. Only the calls that
// count the GPUs must be there: any other may be missing in an older library, or fail for a GPU, and what it
// tells is then unknown.
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text/text_layout.h"
#include "gpu/amd_rules.h"
#include "gpu/vendor.h"

namespace railwise::gpu {
namespace {

constexpr AmdStatus kRsmiInitError = 8;  // RSMI_STATUS_INIT_ERROR
constexpr int kRsmiDriver = 0;           // RSMI_SW_COMP_DRIVER
constexpr uint32_t kRsmiMaxProcesses = 65536;

struct RsmiProcess {
  uint32_t process_id, pasid;
  uint64_t vram, sdma_us;
  uint32_t cu_occupancy;
};
static_assert(sizeof(RsmiProcess) == 32);

struct RsmiApi : AmdCalls<uint32_t> {
  explicit RsmiApi(const DynamicLibrary& opened)
      : AmdCalls{.library = opened,
                 .memory = opened["rsmi_dev_memory_total_get"],
                 .memory_used = opened["rsmi_dev_memory_usage_get"],
                 .pci = opened["rsmi_dev_pci_id_get"],
                 .numa = opened["rsmi_topo_numa_affinity_get"],
                 .partition = opened["rsmi_dev_compute_partition_get"],
                 .ecc_enabled = opened["rsmi_dev_ecc_enabled_get"],
                 .ecc = opened["rsmi_dev_ecc_count_get"],
                 .link_type = opened["rsmi_topo_get_link_type"],
                 .link_bandwidth = opened["rsmi_minmax_bandwidth_get"],
                 .p2p = opened["rsmi_is_P2P_accessible"],
                 .status_text = opened["rsmi_status_string"]} {}

  AmdCall<uint64_t>* init = library["rsmi_init"];
  AmdCall<uint32_t*>* count = library["rsmi_num_monitor_devices"];
  AmdCall<int, char*, uint32_t>* version = library["rsmi_version_str_get"];
  AmdCall<uint32_t, char*, size_t>* name = library["rsmi_dev_name_get"];
  AmdCall<uint32_t, char*, uint32_t>* vbios = library["rsmi_dev_vbios_version_get"];
  AmdCall<uint32_t, uint64_t*>* unique_id = library["rsmi_dev_unique_id_get"];
  AmdCall<uint32_t, uint64_t*>* graphics_version = library["rsmi_dev_target_graphics_version_get"];
  AmdCall<uint32_t, uint32_t*>* busy = library["rsmi_dev_busy_percent_get"];
  AmdCall<RsmiProcess*, uint32_t*>* processes = library["rsmi_compute_process_info_get"];
  AmdCall<uint32_t, uint32_t*, uint32_t*>* process_gpus = library["rsmi_compute_process_gpus_get"];
};

class RsmiReader : AmdReader<uint32_t> {
 public:
  // normal_without_driver: distributions install the library beside programs that could use it, also where
  // there is no AMD GPU and so no driver.
  RsmiReader(const RsmiApi& api, const std::string& library, bool normal_without_driver,
             GpuTopology& topology)
      : AmdReader(api, library, topology), api_(api), normal_without_driver_(normal_without_driver) {}

  Outcome<void> read() {
    if (api_.init == nullptr || api_.count == nullptr)
      return Error{library_ + " lacks rsmi_init or rsmi_num_monitor_devices: it is not ROCm SMI"};
    if (const AmdStatus status = api_.init(0); status != 0) {
      if (status == kRsmiInitError && normal_without_driver_ && access("/sys/module/amdgpu", F_OK) != 0)
        return {};
      return notStarted(status);
    }
    uint32_t count = 0;
    if (const AmdStatus status = api_.count(&count); status != 0) return notCounted(status);
    std::vector<uint32_t> gpus(cut(count, kMaxDevices, "GPUs"));
    std::iota(gpus.begin(), gpus.end(), 0U);
    std::string driver;
    if (char text[256] = ""; answers(api_.version, kRsmiDriver, text, uint32_t{sizeof text}))
      driver = bufferText(text, sizeof text, "the driver's version", topology_);
    for (const uint32_t gpu : gpus) addDevice(gpu, driver);
    readProcesses();
    addPaths(gpus);
    return {};
  }

 private:
  void addDevice(uint32_t i, const std::string& driver) {
    Device device;
    device.driver = driver;
    const std::string gpu = "AMD GPU " + std::to_string(i);
    if (char text[256] = ""; answers(api_.name, i, text, sizeof text))
      device.model = bufferText(text, sizeof text, "the name of " + gpu, topology_);
    if (char text[64] = ""; answers(api_.vbios, i, text, uint32_t{sizeof text}))
      device.firmware = bufferText(text, sizeof text, "the VBIOS version of " + gpu, topology_);
    if (uint64_t id = 0; answers(api_.unique_id, i, &id) && id != 0)
      device.uuid = formatText("0x%016llx", static_cast<unsigned long long>(id));
    if (uint64_t version = 0; answers(api_.graphics_version, i, &version))
      device.architecture = amdArchitecture(version);
    if (uint32_t busy = 0; answers(api_.busy, i, &busy) && busy <= 100)
      device.utilisation_percent = static_cast<int>(busy);
    const std::string id = device.uuid;
    AmdReader::addDevice(i, std::move(device), id);
  }

  void readProcesses() {
    uint32_t count = 0;
    if (api_.process_gpus == nullptr ||
        !answers(api_.processes, static_cast<RsmiProcess*>(nullptr), &count) || count > kRsmiMaxProcesses)
      return;
    std::vector<RsmiProcess> processes(count);
    if (count > 0 && !answers(api_.processes, processes.data(), &count)) return;
    processes.resize(std::min<std::size_t>(processes.size(), count));
    for (Device& device : topology_.gpus) device.processes = 0;
    for (const RsmiProcess& process : processes) {
      uint32_t indexes[kMaxDevices] = {};
      uint32_t gpus = kMaxDevices;
      if (!answers(api_.process_gpus, process.process_id, indexes, &gpus)) continue;
      for (uint32_t k = 0; k < std::min<uint32_t>(gpus, kMaxDevices); ++k)
        if (indexes[k] < topology_.gpus.size()) ++*topology_.gpus[indexes[k]].processes;
    }
  }

  const RsmiApi& api_;
  const bool normal_without_driver_;
};

}  // namespace

std::unique_ptr<GpuVendor> makeRocmSmi(const Config& config) {
  return makeVendor({.vendor = Vendor::kAmd,
                     .library = "librocm_smi64.so",
                     .program = "rocm-smi",
                     .names = {"librocm_smi64.so.1", "librocm_smi64.so.7", "librocm_smi64.so",
                               "/opt/rocm/lib/librocm_smi64.so"},
                     .path = config.rocm_smi_library,
                     .read = [](const DynamicLibrary& opened, const std::string& library, bool chosen,
                                GpuTopology& topology) {
                       const RsmiApi api(opened);
                       return RsmiReader(api, library, !chosen, topology).read();
                     }});
}

}  // namespace railwise::gpu
