// A librocm_smi64.so for tests, which answers from a machine file (machine_file.h). With FAKE_OLD it is the
// library of an older ROCm, which lacks functions. RAILWISE_FAKE_GPU_MODE: fail, hang, crash, many, endless,
// noinit.
//
// Rows of the machine: "mesh MIN MAX" joins each GPU to each by xGMI, MB/s; "pair FROM TO TYPE HOPS MIN MAX"
// counts before it; "process GPU GPU ..." is a process that uses them.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/gpu/machine_file.h"

#define FAKE extern "C" __attribute__((visibility("default")))

using railwise::test::fakeMode;
using railwise::test::MachinePart;

namespace {

constexpr unsigned kUnsupported = 2;
constexpr unsigned kInvalid = 1;

const MachinePart& machine() {
  static const MachinePart read = railwise::test::readMachineFile(std::getenv("RAILWISE_FAKE_GPUS"));
  return read;
}

unsigned refuses(uint32_t gpu, const char* key) {
  if (gpu >= machine().parts.size()) return kInvalid;
  if (fakeMode("fail")) return 0xffffffff;
  return machine().parts[gpu].find(key) != nullptr ? 0 : kUnsupported;
}

unsigned text(uint32_t gpu, const char* key, char* to, size_t bytes) {
  if (const unsigned error = refuses(gpu, key)) return error;
  if (fakeMode("endless")) {
    std::memset(to, 'A', bytes);
    return 0;
  }
  const std::string& value = *machine().parts[gpu].find(key);
  if (value.size() >= bytes) return 11;
  std::memcpy(to, value.c_str(), value.size() + 1);
  return 0;
}

template <typename T>
unsigned number(uint32_t gpu, const char* key, T* to, unsigned shift = 0) {
  if (const unsigned error = refuses(gpu, key)) return error;
  *to = static_cast<T>(machine().parts[gpu].number(key) << shift);
  return 0;
}

struct FakePair {
  int type = 0;
  uint64_t hops = 0, min = 0, max = 0;
};

FakePair pairOf(uint32_t from, uint32_t to) {
  FakePair pair;
  for (const auto& [key, value] : machine().rows) {
    std::istringstream words(value);
    if (key == "mesh") {
      words >> pair.min >> pair.max;
      pair.type = 2;
      pair.hops = 1;
    } else if (key == "pair") {
      uint32_t a = 0;
      uint32_t b = 0;
      FakePair one;
      words >> a >> b >> one.type >> one.hops >> one.min >> one.max;
      if ((a == from && b == to) || (a == to && b == from)) return one;
    }
  }
  return pair;
}

[[maybe_unused]] std::vector<std::string> processes() {
  std::vector<std::string> all;
  for (const auto& [key, value] : machine().rows)
    if (key == "process") all.push_back(value);
  return all;
}

}  // namespace

FAKE unsigned rsmi_init(uint64_t) { return fakeMode("noinit") ? 8 : 0; }
FAKE unsigned rsmi_status_string(unsigned status, const char** text) {
  *text = status == 8 ? "RSMI_STATUS_INIT_ERROR" : "an error";
  return 0;
}
FAKE unsigned rsmi_num_monitor_devices(uint32_t* count) {
  *count = fakeMode("many") ? 4'000'000'000u : static_cast<uint32_t>(machine().parts.size());
  return 0;
}
FAKE unsigned rsmi_version_str_get(int, char* to, uint32_t bytes) {
  const std::string* driver = machine().find("driver");
  if (driver == nullptr || driver->size() >= bytes) return kUnsupported;
  std::memcpy(to, driver->c_str(), driver->size() + 1);
  return 0;
}
FAKE unsigned rsmi_dev_name_get(uint32_t gpu, char* to, size_t bytes) {
  if (fakeMode("hang")) sleep(3);
  if (fakeMode("crash")) __builtin_trap();
  return text(gpu, "name", to, bytes);
}
FAKE unsigned rsmi_dev_vbios_version_get(uint32_t gpu, char* to, uint32_t bytes) {
  return text(gpu, "vbios", to, bytes);
}
FAKE unsigned rsmi_dev_memory_total_get(uint32_t gpu, int, uint64_t* bytes) {
  return number(gpu, "memory", bytes, 20);
}
FAKE unsigned rsmi_dev_memory_usage_get(uint32_t gpu, int, uint64_t* bytes) {
  return number(gpu, "used", bytes, 20);
}
FAKE unsigned rsmi_dev_pci_id_get(uint32_t gpu, uint64_t* id) { return number(gpu, "bdfid", id); }
FAKE unsigned rsmi_dev_unique_id_get(uint32_t gpu, uint64_t* id) { return number(gpu, "unique", id); }
FAKE unsigned rsmi_topo_numa_affinity_get(uint32_t gpu, int32_t* node) { return number(gpu, "node", node); }
FAKE unsigned rsmi_dev_busy_percent_get(uint32_t gpu, uint32_t* percent) {
  return number(gpu, "load", percent);
}
FAKE unsigned rsmi_topo_get_link_type(uint32_t from, uint32_t to, uint64_t* hops, int* type) {
  if (fakeMode("fail")) return 0xffffffff;
  const FakePair pair = pairOf(from, to);
  *hops = pair.hops;
  *type = pair.type;
  return 0;
}
// "ecc N" is in the memory controller, "xgmi_errors N" in xGMI.
FAKE unsigned rsmi_dev_ecc_count_get(uint32_t gpu, uint64_t block, uint64_t* errors) {
  errors[0] = 0;
  return block == 1      ? number(gpu, "ecc", &errors[1])
         : block == 0x80 ? number(gpu, "xgmi_errors", &errors[1])
                         : kUnsupported;
}

#ifndef FAKE_OLD
FAKE unsigned rsmi_dev_target_graphics_version_get(uint32_t gpu, uint64_t* version) {
  return number(gpu, "gfx", version);
}
FAKE unsigned rsmi_dev_compute_partition_get(uint32_t gpu, char* to, uint32_t bytes) {
  return text(gpu, "partition", to, bytes);
}
FAKE unsigned rsmi_minmax_bandwidth_get(uint32_t from, uint32_t to, uint64_t* min, uint64_t* max) {
  const FakePair pair = pairOf(from, to);
  if (fakeMode("fail") || pair.type != 2 || pair.hops != 1) return kUnsupported;
  *min = pair.min;
  *max = pair.max;
  return 0;
}
FAKE unsigned rsmi_is_P2P_accessible(uint32_t from, uint32_t to, bool* accessible) {
  if (fakeMode("fail")) return 0xffffffff;
  *accessible = pairOf(from, to).type == 2;
  return 0;
}
FAKE unsigned rsmi_compute_process_info_get(void* to, uint32_t* count) {
  const uint32_t all = static_cast<uint32_t>(processes().size());
  for (uint32_t i = 0; to != nullptr && i < std::min(*count, all); ++i) {
    const uint32_t id = 1000 + i;
    std::memset(static_cast<char*>(to) + 32 * i, 0, 32);
    std::memcpy(static_cast<char*>(to) + 32 * i, &id, sizeof id);
  }
  *count = all;
  return 0;
}
FAKE unsigned rsmi_compute_process_gpus_get(uint32_t id, uint32_t* gpus, uint32_t* count) {
  std::istringstream words(processes().at(id - 1000));
  uint32_t found = 0;
  for (uint32_t gpu = 0; found < *count && words >> gpu;) gpus[found++] = gpu;
  *count = found;
  return 0;
}
#endif
