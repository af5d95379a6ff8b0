// A libamd_smi.so for tests, which answers from a machine file (machine_file.h, fake_amd.h). It is
// version 27.1 (ROCm 10.1). With FAKE_OLD it is version 24.7 (ROCm 6.3), and lacks functions.
// RAILWISE_FAKE_GPU_MODE: fail, hang, crash, exit, lie, many, endless, noinit, noversion; rocm62, rocm63,
// rocm64, rocm70 and future are other versions; guest is a process that may not open render nodes.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tests/gpu/fake_amd.h"

#define FAKE extern "C" __attribute__((visibility("default")))

using namespace railwise::test;

namespace {

constexpr unsigned kDriverNotLoaded = 34;  // AMDSMI_STATUS_DRIVER_NOT_LOADED
constexpr unsigned kNotInit = 32;          // AMDSMI_STATUS_NOT_INIT
// In a PCI address: function and partition, in which the GPUs of a socket differ.
constexpr uint64_t kPartitionBits = 0xf000'0007;

bool initialized = false;

// The structs as AMD's headers have them.
struct Version63 {
  uint32_t year, major, minor, release;
  const char* build;
};
struct Version70 {
  uint32_t major, minor, release;
  const char* build;
};

// kText: AMDSMI_MAX_STRING_LENGTH. kSerial: of asic_serial alone.
template <size_t kText, size_t kSerial>
struct Asic {
  char market_name[256];
  uint32_t vendor_id;
  char vendor_name[kText];
  uint32_t subvendor_id;
  uint64_t device_id;
  uint32_t rev_id;
  char asic_serial[kSerial];
  uint32_t oam_id;
  uint32_t num_of_compute_units;
  uint64_t target_graphics_version;
  uint32_t subsystem_id;  // ROCm 7.0; reserved before
  uint32_t reserved[21];
};

template <size_t kText, size_t kDate, size_t kVersion>
struct Vbios {
  char name[kText];
  char build_date[kDate];
  char part_number[kText];
  char version[kVersion];
  uint64_t reserved[68];  // ROCm 7.1: boot_firmware in front of them
};

template <size_t kText>
struct Driver {
  char driver_version[kText];
  char driver_date[kText];
  char driver_name[kText];
};

struct Errors {
  uint64_t correctable_count, uncorrectable_count, deferred_count, reserved[5];
};
struct Usage {
  uint32_t gfx_activity, umc_activity, mm_activity, reserved[13];
};

enum class Release { kRocm62, kRocm63, kRocm64, kRocm70, kRocm101, kFuture };

Release release() {
  if (fakeMode("rocm62")) return Release::kRocm62;
  if (fakeMode("rocm63")) return Release::kRocm63;
  if (fakeMode("rocm64")) return Release::kRocm64;
  if (fakeMode("rocm70")) return Release::kRocm70;
  if (fakeMode("future")) return Release::kFuture;
#ifdef FAKE_OLD
  return Release::kRocm63;
#else
  return Release::kRocm101;
#endif
}

// Handles are 1 and up; a processor's is 1 + the number of its GPU.
void* handle(uint64_t number) { return reinterpret_cast<void*>(number + 1); }
uint64_t gpuOf(void* processor) { return reinterpret_cast<uintptr_t>(processor) - 1; }

// The GPUs of each socket: those at one PCI address, but for function and partition.
std::vector<std::vector<uint64_t>> sockets() {
  std::vector<std::vector<uint64_t>> all;
  std::vector<uint64_t> places;
  for (uint64_t gpu = 0; gpu < amdMachine().parts.size(); ++gpu) {
    const bool known = amdMachine().parts[gpu].find("bdfid") != nullptr;
    const uint64_t place = known ? amdMachine().parts[gpu].number("bdfid") & ~kPartitionBits : ~gpu;
    const auto same = std::find(places.begin(), places.end(), place);
    if (same == places.end()) {
      places.push_back(place);
      all.push_back({gpu});
    } else {
      all[static_cast<size_t>(same - places.begin())].push_back(gpu);
    }
  }
  return all;
}

// The library's number: decimal up to ROCm 6.3, as in the machine file, then the name's digits in
// hexadecimal.
uint64_t graphicsVersion(uint64_t number) {
  if (release() <= Release::kRocm63) return number;
  if (number >= 9000) return 0x900 + number % 1000;
  return std::stoull(std::to_string(number), nullptr, 16);
}

template <typename T>
unsigned fillAsic(uint64_t gpu, void* to) {
  T* asic = static_cast<T*>(to);
  asic->vendor_id = 0x1002;
  asic->num_of_compute_units = 304;
  asic->oam_id = 0xffff'ffff;
  asic->target_graphics_version = ~uint64_t{0};
  uint64_t number = 0;
  if (amdNumber(gpu, "gfx", &number) == 0) asic->target_graphics_version = graphicsVersion(number);
  return amdText(gpu, "name", asic->market_name, sizeof asic->market_name);
}

template <typename T>
unsigned fillVbios(uint64_t gpu, void* to) {
  T* vbios = static_cast<T*>(to);
  if (fakeMode("guest")) return amdText(gpu, "vbios", vbios->version, sizeof vbios->version);
  std::snprintf(vbios->name, sizeof vbios->name, "NAVI");
  std::snprintf(vbios->build_date, sizeof vbios->build_date, "2023/10/30 13:03");
  std::snprintf(vbios->version, sizeof vbios->version, "022.040.003.041");
  return amdText(gpu, "vbios", vbios->part_number, sizeof vbios->part_number);
}

template <typename T>
unsigned fillDriver(void* to) {
  T* driver = static_cast<T*>(to);
  std::snprintf(driver->driver_date, sizeof driver->driver_date, "2015/01/01 00:00");
  std::snprintf(driver->driver_name, sizeof driver->driver_name, "amdgpu");
  return amdFill(amdMachine().find("driver"), driver->driver_version, sizeof driver->driver_version);
}

}  // namespace

FAKE unsigned amdsmi_init(uint64_t flags) {
  if (fakeMode("noinit")) return kDriverNotLoaded;
  initialized = flags == 2;
  return initialized ? 0 : kAmdInvalid;
}
FAKE unsigned amdsmi_status_code_to_string(unsigned status, const char** text) {
  *text = status == kDriverNotLoaded ? "AMDSMI_STATUS_DRIVER_NOT_LOADED: Driver not loaded" : "an error";
  return 0;
}
FAKE unsigned amdsmi_get_lib_version(void* to) {
  if (!initialized) return kNotInit;
  if (fakeMode("noversion")) return kAmdUnsupported;
  switch (release()) {
    case Release::kRocm62:
      *static_cast<Version63*>(to) = {24, 6, 2, 0, "24.6.2.0"};
      break;
    case Release::kRocm63:
      *static_cast<Version63*>(to) = {24, 7, 1, 0, "24.7.1.0"};
      break;
    case Release::kRocm64:
      *static_cast<Version63*>(to) = {25, 25, 3, 0, "25.3.0"};
      break;
    case Release::kRocm70:
      *static_cast<Version70*>(to) = {26, 0, 0, "26.0.0"};
      break;
    case Release::kRocm101:
      *static_cast<Version70*>(to) = {27, 1, 0, "27.1.0"};
      break;
    case Release::kFuture:
      *static_cast<Version70*>(to) = {28, 0, 0, "28.0.0"};
      break;
  }
  return 0;
}
FAKE unsigned amdsmi_get_socket_handles(uint32_t* count, void** handles) {
  if (!initialized) return kNotInit;
  const uint32_t all = static_cast<uint32_t>(sockets().size());
  if (handles == nullptr) *count = fakeMode("many") ? 4'000'000'000u : all;
  else *count = std::min(*count, all);
  for (uint32_t i = 0; handles != nullptr && i < *count; ++i) handles[i] = handle(i);
  return 0;
}
FAKE unsigned amdsmi_get_processor_handles(void* socket, uint32_t* count, void** handles) {
  const std::vector<uint64_t> gpus = sockets().at(gpuOf(socket));
  const uint32_t all = static_cast<uint32_t>(gpus.size());
  if (handles == nullptr) *count = fakeMode("many") ? 3'000'000'000u : all;
  else *count = std::min(*count, all);
  for (uint32_t i = 0; handles != nullptr && i < *count; ++i) handles[i] = handle(gpus[i]);
  return 0;
}
// A GPU of the machine file with the row "nic" is a NIC.
FAKE unsigned amdsmi_get_processor_type(void* gpu, int* type) {
  *type = amdMachine().parts.at(gpuOf(gpu)).find("nic") != nullptr ? 7 : 1;
  return 0;
}
FAKE unsigned amdsmi_get_gpu_asic_info(void* gpu, void* to) {
  if (fakeMode("hang")) sleep(3);
  if (fakeMode("crash")) __builtin_trap();
  if (fakeMode("exit")) _exit(7);
  if (release() <= Release::kRocm63) return fillAsic<Asic<64, 32>>(gpuOf(gpu), to);
  return fillAsic<Asic<256, 256>>(gpuOf(gpu), to);
}
FAKE unsigned amdsmi_get_gpu_driver_info(void* gpu, void* to) {
  if (fakeMode("fail")) return kAmdUnknownError;
  if (gpuOf(gpu) >= amdMachine().parts.size()) return kAmdInvalid;
  if (release() <= Release::kRocm63) return fillDriver<Driver<64>>(to);
  return fillDriver<Driver<256>>(to);
}
FAKE unsigned amdsmi_get_gpu_memory_total(void* gpu, int, uint64_t* bytes) {
  if (fakeMode("lie")) {
    *bytes = uint64_t{1} << 60;
    return 0;
  }
  return amdNumber(gpuOf(gpu), "memory", bytes, 20);
}
FAKE unsigned amdsmi_get_gpu_memory_usage(void* gpu, int, uint64_t* bytes) {
  return amdNumber(gpuOf(gpu), "used", bytes, 20);
}
FAKE unsigned amdsmi_get_gpu_bdf_id(void* gpu, uint64_t* id) { return amdNumber(gpuOf(gpu), "bdfid", id); }
FAKE unsigned amdsmi_get_gpu_device_uuid(void* gpu, unsigned* bytes, char* to) {
  uint64_t unique = 0;
  if (const unsigned error = amdNumber(gpuOf(gpu), "unique", &unique)) return error;
  if (*bytes < 38) return kAmdInvalid;
  const std::string text = std::to_string(unique % 1'000'000);
  const std::string uuid = "00ff74a1-0000-1000-8000-" + std::string(12 - text.size(), '0') + text;
  return amdFill(&uuid, to, *bytes);
}
FAKE unsigned amdsmi_get_gpu_topo_numa_affinity(void* gpu, int32_t* node) {
  return amdNumber(gpuOf(gpu), "node", node);
}
FAKE unsigned amdsmi_get_gpu_activity(void* gpu, Usage* usage) {
  if (fakeMode("lie")) {
    usage->gfx_activity = 0xffff;  // the library's word for unknown
    return 0;
  }
  return amdNumber(gpuOf(gpu), "load", &usage->gfx_activity);
}
FAKE unsigned amdsmi_topo_get_link_type(void* from, void* to, uint64_t* hops, int* type) {
  if (fakeMode("fail")) return kAmdUnknownError;
  const AmdPair pair = amdPair(gpuOf(from), gpuOf(to));
  *hops = pair.hops;
  *type = pair.type;
  return 0;
}
// "ecc N" is in the memory controller, "xgmi_errors N" in xGMI.
FAKE unsigned amdsmi_get_gpu_ecc_count(void* gpu, uint64_t block, Errors* errors) {
  return block == 1      ? amdNumber(gpuOf(gpu), "ecc", &errors->uncorrectable_count)
         : block == 0x80 ? amdNumber(gpuOf(gpu), "xgmi_errors", &errors->uncorrectable_count)
                         : kAmdUnsupported;
}

#ifndef FAKE_OLD
FAKE unsigned amdsmi_get_gpu_vbios_info(void* gpu, void* to) {
  if (release() <= Release::kRocm63) return fillVbios<Vbios<64, 32, 32>>(gpuOf(gpu), to);
  if (release() == Release::kRocm64) return fillVbios<Vbios<256, 32, 256>>(gpuOf(gpu), to);
  return fillVbios<Vbios<256, 256, 256>>(gpuOf(gpu), to);
}
FAKE unsigned amdsmi_get_gpu_compute_partition(void* gpu, char* to, uint32_t bytes) {
  return amdText(gpuOf(gpu), "partition", to, bytes);
}
FAKE unsigned amdsmi_get_minmax_bandwidth_between_processors(void* from, void* to, uint64_t* min,
                                                             uint64_t* max) {
  const AmdPair pair = amdPair(gpuOf(from), gpuOf(to));
  if (fakeMode("fail") || pair.type != 2 || pair.hops != 1) return kAmdUnsupported;
  *min = pair.min;
  *max = fakeMode("lie") ? 1'000'000'000'000 : pair.max;
  return 0;
}
FAKE unsigned amdsmi_is_P2P_accessible(void* from, void* to, bool* accessible) {
  if (fakeMode("fail")) return kAmdUnknownError;
  *accessible = amdPair(gpuOf(from), gpuOf(to)).type == 2;
  return 0;
}
FAKE unsigned amdsmi_get_gpu_process_list(void* gpu, uint32_t* count, void* list) {
  if (fakeMode("fail")) return kAmdUnknownError;
  if (*count != 0 || list != nullptr) return kAmdUnsupported;
  if (fakeMode("lie")) *count = 4'000'000'000u;
  for (const std::vector<uint32_t>& gpus : amdProcesses())
    *count += static_cast<uint32_t>(std::count(gpus.begin(), gpus.end(), gpuOf(gpu)));
  return 0;
}
#endif
