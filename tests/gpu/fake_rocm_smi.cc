// A librocm_smi64.so for tests, which answers from a machine file (machine_file.h, fake_amd.h). With FAKE_OLD
// it is the library of an older ROCm, which lacks functions. RAILWISE_FAKE_GPU_MODE: fail, hang, crash, many,
// endless, noinit.
#include <unistd.h>

#include <algorithm>

#include "tests/gpu/fake_amd.h"

#define FAKE extern "C" __attribute__((visibility("default")))

using namespace railwise::test;

FAKE unsigned rsmi_init(uint64_t) { return fakeMode("noinit") ? 8 : 0; }
FAKE unsigned rsmi_status_string(unsigned status, const char** text) {
  *text = status == 8 ? "RSMI_STATUS_INIT_ERROR" : "an error";
  return 0;
}
FAKE unsigned rsmi_num_monitor_devices(uint32_t* count) {
  *count = fakeMode("many") ? 4'000'000'000u : static_cast<uint32_t>(amdMachine().parts.size());
  return 0;
}
FAKE unsigned rsmi_version_str_get(int, char* to, uint32_t bytes) {
  return amdFill(amdMachine().find("driver"), to, bytes);
}
FAKE unsigned rsmi_dev_name_get(uint32_t gpu, char* to, size_t bytes) {
  if (fakeMode("hang")) sleep(3);
  if (fakeMode("crash")) __builtin_trap();
  return amdText(gpu, "name", to, bytes);
}
FAKE unsigned rsmi_dev_vbios_version_get(uint32_t gpu, char* to, uint32_t bytes) {
  return amdText(gpu, "vbios", to, bytes);
}
FAKE unsigned rsmi_dev_memory_total_get(uint32_t gpu, int, uint64_t* bytes) {
  return amdNumber(gpu, "memory", bytes, 20);
}
FAKE unsigned rsmi_dev_memory_usage_get(uint32_t gpu, int, uint64_t* bytes) {
  return amdNumber(gpu, "used", bytes, 20);
}
FAKE unsigned rsmi_dev_pci_id_get(uint32_t gpu, uint64_t* id) { return amdNumber(gpu, "bdfid", id); }
FAKE unsigned rsmi_dev_unique_id_get(uint32_t gpu, uint64_t* id) { return amdNumber(gpu, "unique", id); }
FAKE unsigned rsmi_topo_numa_affinity_get(uint32_t gpu, int32_t* node) {
  return amdNumber(gpu, "node", node);
}
FAKE unsigned rsmi_dev_busy_percent_get(uint32_t gpu, uint32_t* percent) {
  return amdNumber(gpu, "load", percent);
}
FAKE unsigned rsmi_topo_get_link_type(uint32_t from, uint32_t to, uint64_t* hops, int* type) {
  if (fakeMode("fail")) return kAmdUnknownError;
  const AmdPair pair = amdPair(from, to);
  *hops = pair.hops;
  *type = pair.type;
  return 0;
}
// "ecc N" is in the memory controller, "xgmi_errors N" in xGMI.
FAKE unsigned rsmi_dev_ecc_count_get(uint32_t gpu, uint64_t block, uint64_t* errors) {
  errors[0] = 0;
  return block == 1      ? amdNumber(gpu, "ecc", &errors[1])
         : block == 0x80 ? amdNumber(gpu, "xgmi_errors", &errors[1])
                         : kAmdUnsupported;
}

#ifndef FAKE_OLD
FAKE unsigned rsmi_dev_target_graphics_version_get(uint32_t gpu, uint64_t* version) {
  return amdNumber(gpu, "gfx", version);
}
FAKE unsigned rsmi_dev_compute_partition_get(uint32_t gpu, char* to, uint32_t bytes) {
  return amdText(gpu, "partition", to, bytes);
}
FAKE unsigned rsmi_minmax_bandwidth_get(uint32_t from, uint32_t to, uint64_t* min, uint64_t* max) {
  const AmdPair pair = amdPair(from, to);
  if (fakeMode("fail") || pair.type != 2 || pair.hops != 1) return kAmdUnsupported;
  *min = pair.min;
  *max = pair.max;
  return 0;
}
FAKE unsigned rsmi_is_P2P_accessible(uint32_t from, uint32_t to, bool* accessible) {
  if (fakeMode("fail")) return kAmdUnknownError;
  *accessible = amdPair(from, to).type == 2;
  return 0;
}
FAKE unsigned rsmi_compute_process_info_get(void* to, uint32_t* count) {
  const uint32_t all = static_cast<uint32_t>(amdProcesses().size());
  for (uint32_t i = 0; to != nullptr && i < std::min(*count, all); ++i) {
    const uint32_t id = 1000 + i;
    std::memset(static_cast<char*>(to) + 32 * i, 0, 32);
    std::memcpy(static_cast<char*>(to) + 32 * i, &id, sizeof id);
  }
  *count = all;
  return 0;
}
FAKE unsigned rsmi_compute_process_gpus_get(uint32_t id, uint32_t* gpus, uint32_t* count) {
  uint32_t found = 0;
  const std::vector<uint32_t> used = amdProcesses().at(id - 1000);
  for (const uint32_t gpu : used)
    if (found < *count) gpus[found++] = gpu;
  *count = found;
  return 0;
}
#endif
