// AMD's GPUs from AMD SMI (libamd_smi), the successor of ROCm SMI. Constants and layouts as in AMD's amdsmi.h
// from ROCm 6.3 (version 24.7 of the library) to ROCm 10.1 (27.1). Only the calls that find the GPUs must be
// there: any other may be missing in another version, or fail for a GPU, and what it tells is then unknown.
//
// AMD changes structs between versions. So a struct is read as bytes, into a buffer that is larger than any
// version of it, and only two kinds of members are used: those at the beginning, which have one place in all
// versions, and those in AmdSmiLayout, whose place depends on the version.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "gpu/amd_rules.h"
#include "gpu/vendor.h"

namespace railwise::gpu {
namespace {

using AmdSmiSocket = void*;
using AmdSmiGpu = void*;  // amdsmi_processor_handle

constexpr uint64_t kAmdSmiInitGpus = 2;  // AMDSMI_INIT_AMD_GPUS: neither CPUs nor NICs
constexpr int kAmdSmiGpuType = 1;        // AMDSMI_PROCESSOR_TYPE_AMD_GPU
constexpr uint32_t kAmdSmiMaxProcesses = 65536;

// A struct of the library. The largest that is read, amdsmi_vbios_info_t, has 1568 bytes in 27.1.
struct AmdSmiStruct {
  alignas(8) char bytes[4096] = {};

  template <typename T>
  T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes + offset, sizeof value);
    return value;
  }
};

// What is first in these structs, in all versions:
//   amdsmi_asic_info_t     char market_name[256]
//   amdsmi_driver_info_t   char driver_version[text_bytes]
//   amdsmi_engine_usage_t  uint32_t gfx_activity, in percent
//   amdsmi_error_count_t   uint64_t correctable_count, uncorrectable_count (read by AmdReader)
constexpr std::size_t kMarketNameBytes = 256;

// Where the members are that have moved.
struct AmdSmiLayout {
  std::size_t text_bytes;        // AMDSMI_MAX_STRING_LENGTH: no text is longer
  std::size_t graphics_version;  // amdsmi_asic_info_t::target_graphics_version
  std::size_t part_number;       // amdsmi_vbios_info_t::part_number
  std::size_t version;           // amdsmi_vbios_info_t::version
};
constexpr AmdSmiLayout kRocm63 = {64, 384, 96, 160};
constexpr AmdSmiLayout kRocm64 = {256, 800, 288, 544};
constexpr AmdSmiLayout kRocm70 = {256, 800, 512, 768};

// amdsmi_version_t begins with the two leading numbers of the version: year and major up to ROCm 6.4 (24.7 is
// ROCm 6.3), major and minor since ROCm 7.0 (26.0).
struct AmdSmiVersion {
  uint32_t first = 0;
  uint32_t second = 0;

  // Railwise does not ask such a library: it does not tell the architecture, and ROCm SMI tells all.
  bool tooOld() const { return first < 24 || (first == 24 && second < 7); }
  // Null: a version that was not there when this was written.
  const AmdSmiLayout* layout() const {
    if (first == 24) return &kRocm63;
    if (first == 25) return &kRocm64;
    return first == 26 || first == 27 ? &kRocm70 : nullptr;
  }
  std::string text() const { return std::to_string(first) + "." + std::to_string(second); }
};

struct AmdSmiApi : AmdCalls<AmdSmiGpu> {
  explicit AmdSmiApi(const DynamicLibrary& opened)
      : AmdCalls{.library = opened,
                 .memory = opened["amdsmi_get_gpu_memory_total"],
                 .memory_used = opened["amdsmi_get_gpu_memory_usage"],
                 .pci = opened["amdsmi_get_gpu_bdf_id"],
                 .numa = opened["amdsmi_get_gpu_topo_numa_affinity"],
                 .partition = opened["amdsmi_get_gpu_compute_partition"],
                 .ecc_enabled = opened["amdsmi_get_gpu_ecc_enabled"],
                 .ecc = opened["amdsmi_get_gpu_ecc_count"],
                 .link_type = opened["amdsmi_topo_get_link_type"],
                 .link_bandwidth = opened["amdsmi_get_minmax_bandwidth_between_processors"],
                 .p2p = opened["amdsmi_is_P2P_accessible"],
                 .status_text = opened["amdsmi_status_code_to_string"]} {}

  AmdCall<AmdSmiStruct*>* lib_version = library["amdsmi_get_lib_version"];
  AmdCall<uint64_t>* init = library["amdsmi_init"];
  AmdCall<uint32_t*, AmdSmiSocket*>* sockets = library["amdsmi_get_socket_handles"];
  AmdCall<AmdSmiSocket, uint32_t*, AmdSmiGpu*>* processors = library["amdsmi_get_processor_handles"];
  AmdCall<AmdSmiGpu, int*>* type = library["amdsmi_get_processor_type"];
  AmdCall<AmdSmiGpu, AmdSmiStruct*>* asic = library["amdsmi_get_gpu_asic_info"];
  AmdCall<AmdSmiGpu, AmdSmiStruct*>* vbios = library["amdsmi_get_gpu_vbios_info"];
  AmdCall<AmdSmiGpu, AmdSmiStruct*>* driver = library["amdsmi_get_gpu_driver_info"];
  AmdCall<AmdSmiGpu, AmdSmiStruct*>* activity = library["amdsmi_get_gpu_activity"];
  AmdCall<AmdSmiGpu, unsigned*, char*>* uuid = library["amdsmi_get_gpu_device_uuid"];
  AmdCall<AmdSmiGpu, uint32_t*, void*>* processes = library["amdsmi_get_gpu_process_list"];
};

class AmdSmiReader : AmdReader<AmdSmiGpu> {
 public:
  // chosen: a setting names the library, so a person expects it to work. Otherwise a library without a
  // driver, or one that is too old, is a normal part of an installation.
  AmdSmiReader(const AmdSmiApi& api, const std::string& library, bool chosen, GpuTopology& topology)
      : AmdReader(api, library, topology), api_(api), chosen_(chosen) {}

  Outcome<void> read() {
    if (api_.lib_version == nullptr || api_.init == nullptr || api_.sockets == nullptr ||
        api_.processors == nullptr)
      return Error{library_ + " lacks a function that finds GPUs: it is not AMD SMI"};
    if (const AmdStatus status = api_.init(kAmdSmiInitGpus); status != 0) {
      if (!chosen_ && access("/sys/module/amdgpu", F_OK) != 0) return {};
      return notStarted(status);
    }
    // After init: in ROCm 6.3 the call needs it.
    if (AmdSmiStruct version; api_.lib_version(&version) == 0)
      version_ = {version.at<uint32_t>(0), version.at<uint32_t>(4)};
    if (version_.tooOld()) return tooOld();
    if (Outcome<void> found = findGpus(); !found.ok()) return found;
    if (version_.layout() == nullptr && !handles_.empty())
      topology_.remarks.push_back(
          library_ + " has version " + version_.text() +
          ", which Railwise does not know: architecture and firmware of AMD's GPUs are left out");
    for (std::size_t i = 0; i < handles_.size(); ++i) addDevice(i);
    addPaths(handles_);
    return {};
  }

 private:
  Outcome<void> tooOld() const {
    if (!chosen_) return {};
    return Error{library_ + " has version " + version_.text() +
                 ": Railwise asks AMD SMI since version 24.7 (ROCm 6.3), and ROCm SMI where it is older"};
  }

  Outcome<void> findGpus() {
    uint32_t sockets = 0;
    AmdStatus status = api_.sockets(&sockets, nullptr);
    std::vector<AmdSmiSocket> all(cut(sockets, kMaxDevices, "sockets"));
    sockets = static_cast<uint32_t>(all.size());
    if (status == 0 && sockets > 0) status = api_.sockets(&sockets, all.data());
    if (status != 0) return notCounted(status);
    all.resize(std::min<std::size_t>(all.size(), sockets));
    for (uint32_t i = 0; i < all.size(); ++i) findGpusOfSocket(all[i], i);
    return {};
  }

  void findGpusOfSocket(AmdSmiSocket socket, uint32_t index) {
    uint32_t count = 0;
    if (!answers(api_.processors, socket, &count, static_cast<AmdSmiGpu*>(nullptr))) return;
    std::vector<AmdSmiGpu> all(cut(count, kMaxDevices - handles_.size(), "GPUs"));
    count = static_cast<uint32_t>(all.size());
    if (count == 0 || !answers(api_.processors, socket, &count, all.data())) return;
    all.resize(std::min<std::size_t>(all.size(), count));
    for (const AmdSmiGpu gpu : all) {
      int type = kAmdSmiGpuType;
      answers(api_.type, gpu, &type);
      if (type != kAmdSmiGpuType) continue;
      handles_.push_back(gpu);
      sockets_.push_back(index);
    }
  }

  std::string text(const AmdSmiStruct& answer, std::size_t offset, std::size_t bytes,
                   const std::string& what) {
    return bufferText(answer.bytes + offset, bytes, what, topology_);
  }

  void addDevice(std::size_t i) {
    const AmdSmiGpu handle = handles_[i];
    Device device;
    readTexts(device, handle, "AMD GPU " + std::to_string(i));
    if (AmdSmiStruct usage; answers(api_.activity, handle, &usage) && usage.at<uint32_t>(0) <= 100)
      device.utilisation_percent = static_cast<int>(usage.at<uint32_t>(0));
    // Without room for them: the library tells their number.
    if (uint32_t count = 0;
        answers(api_.processes, handle, &count, static_cast<void*>(nullptr)) && count <= kAmdSmiMaxProcesses)
      device.processes = static_cast<int>(count);
    AmdReader::addDevice(handle, std::move(device), std::to_string(sockets_[i]));
  }

  void readTexts(Device& device, AmdSmiGpu handle, const std::string& gpu) {
    const AmdSmiLayout* layout = version_.layout();
    if (AmdSmiStruct asic; answers(api_.asic, handle, &asic)) {
      device.model = text(asic, 0, kMarketNameBytes, "the name of " + gpu);
      if (layout != nullptr)
        device.architecture = amdArchitecture(asic.at<uint64_t>(layout->graphics_version));
    }
    if (AmdSmiStruct vbios; layout != nullptr && answers(api_.vbios, handle, &vbios)) {
      const std::string what = "the VBIOS version of " + gpu;
      device.firmware = text(vbios, layout->part_number, layout->text_bytes, what);
      // A process that may not open the GPU's render node is told the part number in `version`.
      if (device.firmware.empty()) device.firmware = text(vbios, layout->version, layout->text_bytes, what);
    }
    if (AmdSmiStruct driver; answers(api_.driver, handle, &driver))
      device.driver = text(driver, 0, layout != nullptr ? layout->text_bytes : kMarketNameBytes,
                           "the driver's version of " + gpu);
    char uuid[64] = "";
    if (unsigned bytes = sizeof uuid; answers(api_.uuid, handle, &bytes, uuid))
      device.uuid = bufferText(uuid, sizeof uuid, "the UUID of " + gpu, topology_);
  }

  const AmdSmiApi& api_;
  const bool chosen_;
  AmdSmiVersion version_;
  std::vector<AmdSmiGpu> handles_;  // by index of the device
  std::vector<uint32_t> sockets_;   // one GPU, with all its partitions
};

}  // namespace

std::unique_ptr<GpuVendor> makeAmdSmi(const Config& config) {
  return makeVendor({.vendor = Vendor::kAmd,
                     .library = "libamd_smi.so",
                     .program = "amd-smi",
                     .names = {"libamd_smi.so.27", "libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24",
                               "libamd_smi.so", "/opt/rocm/lib/libamd_smi.so"},
                     .path = config.amd_smi_library,
                     .read = [](const DynamicLibrary& opened, const std::string& library, bool chosen,
                                GpuTopology& topology) {
                       const AmdSmiApi api(opened);
                       return AmdSmiReader(api, library, chosen, topology).read();
                     }});
}

}  // namespace railwise::gpu
