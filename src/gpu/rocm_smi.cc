// AMD's GPUs from ROCm SMI (librocm_smi64). Constants and layouts as in AMD's rocm_smi.h. Only the calls that
// count the GPUs must be there: any other may be missing in an older library, or fail for a GPU, and what it
// tells is then unknown.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/text/text_layout.h"
#include "gpu/amd_rules.h"
#include "gpu/vendor.h"

namespace railwise::gpu {
namespace {

using RsmiStatus = unsigned;  // an enum in C, up to 0xffffffff

constexpr RsmiStatus kRsmiSuccess = 0;
constexpr RsmiStatus kRsmiInitError = 8;  // RSMI_STATUS_INIT_ERROR
constexpr int kRsmiDriver = 0;            // RSMI_SW_COMP_DRIVER
constexpr uint32_t kRsmiMaxProcesses = 65536;

struct RsmiErrors {
  uint64_t corrected, uncorrected;
};
static_assert(sizeof(RsmiErrors) == 16);

struct RsmiProcess {
  uint32_t process_id, pasid;
  uint64_t vram, sdma_us;
  uint32_t cu_occupancy;
};
static_assert(sizeof(RsmiProcess) == 32);

template <typename... Arguments>
using RsmiCall = RsmiStatus(Arguments...);

// Null: the library lacks the function.
struct RsmiApi {
  const DynamicLibrary& library;
  RsmiCall<uint64_t>* init = library["rsmi_init"];
  RsmiCall<uint32_t*>* count = library["rsmi_num_monitor_devices"];
  RsmiCall<int, char*, uint32_t>* version = library["rsmi_version_str_get"];
  RsmiCall<uint32_t, char*, size_t>* name = library["rsmi_dev_name_get"];
  RsmiCall<uint32_t, char*, uint32_t>* vbios = library["rsmi_dev_vbios_version_get"];
  RsmiCall<uint32_t, int, uint64_t*>* memory = library["rsmi_dev_memory_total_get"];
  RsmiCall<uint32_t, int, uint64_t*>* memory_used = library["rsmi_dev_memory_usage_get"];
  RsmiCall<uint32_t, uint64_t*>* pci = library["rsmi_dev_pci_id_get"];
  RsmiCall<uint32_t, uint64_t*>* unique_id = library["rsmi_dev_unique_id_get"];
  RsmiCall<uint32_t, int32_t*>* numa = library["rsmi_topo_numa_affinity_get"];
  RsmiCall<uint32_t, uint64_t*>* graphics_version = library["rsmi_dev_target_graphics_version_get"];
  RsmiCall<uint32_t, uint32_t*>* busy = library["rsmi_dev_busy_percent_get"];
  RsmiCall<uint32_t, char*, uint32_t>* partition = library["rsmi_dev_compute_partition_get"];
  RsmiCall<uint32_t, uint64_t*>* ecc_enabled = library["rsmi_dev_ecc_enabled_get"];
  RsmiCall<uint32_t, uint64_t, RsmiErrors*>* ecc = library["rsmi_dev_ecc_count_get"];
  RsmiCall<RsmiProcess*, uint32_t*>* processes = library["rsmi_compute_process_info_get"];
  RsmiCall<uint32_t, uint32_t*, uint32_t*>* process_gpus = library["rsmi_compute_process_gpus_get"];
  RsmiCall<uint32_t, uint32_t, uint64_t*, int*>* link_type = library["rsmi_topo_get_link_type"];
  RsmiCall<uint32_t, uint32_t, uint64_t*, uint64_t*>* link_bandwidth = library["rsmi_minmax_bandwidth_get"];
  RsmiCall<uint32_t, uint32_t, bool*>* p2p = library["rsmi_is_P2P_accessible"];
  RsmiCall<RsmiStatus, const char**>* status_text = library["rsmi_status_string"];
};

class RsmiReader {
 public:
  // normal_without_driver: distributions install the library beside programs that could use it, also where
  // there is no AMD GPU and so no driver.
  RsmiReader(const RsmiApi& api, const std::string& library, bool normal_without_driver,
             GpuTopology& topology)
      : api_(api),
        library_(library),
        normal_without_driver_(normal_without_driver),
        topology_(topology),
        gpus_(topology) {}

  Outcome<void> read() {
    if (api_.init == nullptr || api_.count == nullptr)
      return Error{library_ + " lacks rsmi_init or rsmi_num_monitor_devices: it is not ROCm SMI"};
    if (const RsmiStatus status = api_.init(0); status != kRsmiSuccess) {
      if (status == kRsmiInitError && normal_without_driver_ && access("/sys/module/amdgpu", F_OK) != 0)
        return {};
      return Error{library_ + " is installed but does not start: " + statusText(status) +
                   ". Is the amdgpu driver loaded?"};
    }
    uint32_t count = 0;
    if (const RsmiStatus status = api_.count(&count); status != kRsmiSuccess)
      return Error{library_ + " does not tell how many GPUs there are: " + statusText(status)};
    if (count > kMaxDevices) {
      topology_.remarks.push_back(library_ + " speaks of " + std::to_string(count) + " GPUs: the first " +
                                  std::to_string(kMaxDevices) + " are asked");
      count = kMaxDevices;
    }
    std::string driver;
    if (char text[256] = ""; answers(api_.version, kRsmiDriver, text, uint32_t{sizeof text}))
      driver = bufferText(text, sizeof text, "the driver's version", topology_);
    for (uint32_t i = 0; i < count; ++i) addDevice(i, driver);
    gpus_.shareGpus();
    readProcesses();
    for (uint32_t from = 0; from < count; ++from)
      for (uint32_t to = 0; to < count; ++to)
        if (from != to) addPath(from, to);
    return {};
  }

 private:
  std::string statusText(RsmiStatus status) const {
    const char* text = nullptr;
    if (!answers(api_.status_text, status, &text) || text == nullptr) text = "error";
    return std::string(text, strnlen(text, 200)) + " (" + std::to_string(status) + ")";
  }

  void addDevice(uint32_t i, const std::string& driver) {
    Device device;
    device.index = static_cast<int>(i);
    device.vendor = Vendor::kAmd;
    device.vendor_index = static_cast<int>(i);
    device.driver = driver;
    const std::string gpu = "AMD GPU " + std::to_string(i);
    if (char text[256] = ""; answers(api_.name, i, text, sizeof text))
      device.model = bufferText(text, sizeof text, "the name of " + gpu, topology_);
    if (char text[64] = ""; answers(api_.vbios, i, text, uint32_t{sizeof text}))
      device.firmware = bufferText(text, sizeof text, "the VBIOS version of " + gpu, topology_);
    answers(api_.memory, i, kAmdVram, &device.memory_bytes);
    if (uint64_t used = 0; answers(api_.memory_used, i, kAmdVram, &used)) device.memory_used_bytes = used;
    uint64_t unique_id = 0;
    if (answers(api_.unique_id, i, &unique_id) && unique_id != 0) {
      device.uuid = formatText("0x%016llx", static_cast<unsigned long long>(unique_id));
    }
    if (int32_t numa = -1; answers(api_.numa, i, &numa)) device.numa = numa;
    if (uint64_t version = 0; answers(api_.graphics_version, i, &version))
      device.architecture = amdArchitecture(version);
    if (uint32_t busy = 0; answers(api_.busy, i, &busy) && busy <= 100)
      device.utilisation_percent = static_cast<int>(busy);
    readHealth(device.health, i);
    std::string partition;
    if (char text[32] = ""; answers(api_.partition, i, text, uint32_t{sizeof text}))
      partition = bufferText(text, sizeof text, "the partition of " + gpu, topology_);
    std::optional<uint64_t> pci;
    if (uint64_t address = ~uint64_t{0}; answers(api_.pci, i, &address) && address != ~uint64_t{0})
      pci = address;
    std::string id = device.uuid;
    gpus_.addDevice(std::move(device), pci, std::move(id), partition);
  }

  void readHealth(Health& health, uint32_t i) const {
    uint64_t enabled = ~uint64_t{0};
    answers(api_.ecc_enabled, i, &enabled);
    for (const uint64_t block : amdErrorBlocks(enabled))
      if (RsmiErrors errors = {}; answers(api_.ecc, i, block, &errors))
        addAmdErrors(health, block, errors.corrected, errors.uncorrected);
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

  void addPath(uint32_t from, uint32_t to) {
    AmdPath path;
    path.from = static_cast<int>(from);
    path.to = static_cast<int>(to);
    if (bool accessible = false; answers(api_.p2p, from, to, &accessible)) path.accessible = accessible;
    if (!answers(api_.link_type, from, to, &path.hops, &path.type)) path.type = 0;
    if (path.type == kAmdXgmi && path.hops <= 1 &&
        !answers(api_.link_bandwidth, from, to, &path.min_mbps, &path.max_mbps))
      path.max_mbps = 0;
    gpus_.addPath(path);
  }

  const RsmiApi& api_;
  const std::string& library_;
  const bool normal_without_driver_;
  GpuTopology& topology_;
  AmdGpus gpus_;
};

class RocmSmi : public LibraryVendor {
 public:
  explicit RocmSmi(std::string path)
      : LibraryVendor({Vendor::kAmd,
                       "librocm_smi64.so",
                       "rocm-smi",
                       {"librocm_smi64.so.1", "librocm_smi64.so.7", "librocm_smi64.so",
                        "/opt/rocm/lib/librocm_smi64.so"}},
                      std::move(path)) {}

 private:
  Outcome<void> readLibrary(const DynamicLibrary& opened, GpuTopology& topology) const override {
    const RsmiApi api{opened};
    const std::string library = name();
    return RsmiReader(api, library, !named(), topology).read();
  }
};

}  // namespace

std::unique_ptr<GpuVendor> makeRocmSmi(const Config& config) {
  return std::make_unique<RocmSmi>(config.rocm_smi_library);
}

}  // namespace railwise::gpu
