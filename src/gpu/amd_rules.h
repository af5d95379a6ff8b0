// What ROCm SMI and AMD SMI have in common: the numbers that both libraries use, and what Railwise makes of
// their answers. AMD SMI has a ROCm SMI inside, so a number of one means the same in the other.
//
// A reader of a library is an AmdReader, which reads what both tell alike and gives each device to AmdGpus,
// then all paths between them. Not thread-safe.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/dynamic_library.h"
#include "base/outcome.h"
#include "gpu/topology.h"
#include "gpu/vendor.h"

namespace railwise::gpu {

// Type of a path between two GPUs: RSMI_IO_LINK_TYPE; AMDSMI_IOLINK_TYPE until ROCm 6.4, AMDSMI_LINK_TYPE
// since 7.0.
constexpr int kAmdPcie = 1;
constexpr int kAmdXgmi = 2;
constexpr int kAmdVram = 0;  // RSMI_MEM_TYPE_VRAM, AMDSMI_MEM_TYPE_VRAM

// Both libraries have a bit for each block of a GPU that counts errors (RSMI_GPU_BLOCK, AMDSMI_GPU_BLOCK).
// These are the bits of the blocks, of those in `enabled`, that every ROCm since 6.0 has: UMC to FUSE.
std::vector<uint64_t> amdErrorBlocks(uint64_t enabled);
// Adds the errors of one block.
void addAmdErrors(Health& health, uint64_t block, uint64_t corrected, uint64_t uncorrected);

// "0000:26:00.1" from both libraries' PCI address: domain from bit 32, partition from 28, bus from 8, device
// from 3, function from 0.
std::string amdBusId(uint64_t pci);
// "gfx942" from both libraries' number, which has two forms. Up to ROCm 6.3 it is decimal: 942; a minor
// version of 0 has one digit more, 9010 is 9, 0 and 10, gfx90a. Since ROCm 6.4 its hexadecimal digits are the
// name's: 0x942, 0x90a. Empty: the number is no GPU's.
std::string amdArchitecture(uint64_t number);

// What a library tells of the path between two GPUs.
struct AmdPath {
  int from = -1;
  int to = -1;
  std::optional<bool> accessible;
  int type = 0;  // kAmdPcie, kAmdXgmi; any other is no link
  uint64_t hops = 0;
  uint64_t min_mbps = 0;  // of xGMI with one hop
  uint64_t max_mbps = 0;  // 0: unknown
};

class AmdGpus {
 public:
  explicit AmdGpus(GpuTopology& topology) : topology_(topology) {}

  // `pci` is empty when unknown. Devices of one GPU have one address but for partition and function, or one
  // `id`, which is the library's identity of the GPU (empty: unknown). `partition` is "SPX" for a whole GPU,
  // "" when unknown.
  void addDevice(Device device, std::optional<uint64_t> pci, std::string id, const std::string& partition);
  // The share of each partition. After the last device.
  void shareGpus();
  void addPath(const AmdPath& path);

 private:
  struct Place {
    std::optional<uint64_t> pci;  // without the bits in which partitions differ
    std::string id;
  };
  bool onePackage(int a, int b) const;

  GpuTopology& topology_;
  std::vector<Place> places_;  // by index of the device
};

using AmdStatus = unsigned;  // an enum in C, up to 0xffffffff; 0 is success
template <typename... Arguments>
using AmdCall = AmdStatus(Arguments...);

// The calls that both libraries have. `Gpu`: an index in ROCm SMI, a handle in AMD SMI. Null: the library
// lacks the function.
template <typename Gpu>
struct AmdCalls {
  const DynamicLibrary& library;
  AmdCall<Gpu, int, uint64_t*>* memory;
  AmdCall<Gpu, int, uint64_t*>* memory_used;
  AmdCall<Gpu, uint64_t*>* pci;
  AmdCall<Gpu, int32_t*>* numa;
  AmdCall<Gpu, char*, uint32_t>* partition;
  AmdCall<Gpu, uint64_t*>* ecc_enabled;
  // Fills a struct that begins with the corrected and the uncorrected errors.
  AmdCall<Gpu, uint64_t, void*>* ecc;
  AmdCall<Gpu, Gpu, uint64_t*, int*>* link_type;
  AmdCall<Gpu, Gpu, uint64_t*, uint64_t*>* link_bandwidth;
  AmdCall<Gpu, Gpu, bool*>* p2p;
  AmdCall<AmdStatus, const char**>* status_text;
};

template <typename Gpu>
class AmdReader {
 protected:
  // `library`: its name, for people.
  AmdReader(const AmdCalls<Gpu>& calls, const std::string& library, GpuTopology& topology)
      : library_(library), topology_(topology), calls_(calls), gpus_(topology) {}

  Error notStarted(AmdStatus status) const {
    return {library_ + " is installed but does not start: " + statusText(status) +
            ". Is the amdgpu driver loaded?"};
  }
  Error notCounted(AmdStatus status) const {
    return {library_ + " does not tell how many GPUs there are: " + statusText(status)};
  }

  // The number that the library says, cut to `limit` with a remark.
  uint32_t cut(uint32_t count, std::size_t limit, const char* what) {
    if (count <= limit) return count;
    topology_.remarks.push_back(library_ + " speaks of " + std::to_string(count) + " " + what +
                                ": the first " + std::to_string(limit) + " are asked");
    return static_cast<uint32_t>(limit);
  }

  // Adds the device with the next index; `device` has what only this library tells.
  void addDevice(Gpu gpu, Device device, std::string id) {
    device.index = device.vendor_index = static_cast<int>(topology_.gpus.size());
    device.vendor = Vendor::kAmd;
    answers(calls_.memory, gpu, kAmdVram, &device.memory_bytes);
    if (uint64_t used = 0; answers(calls_.memory_used, gpu, kAmdVram, &used)) device.memory_used_bytes = used;
    if (int32_t numa = -1; answers(calls_.numa, gpu, &numa)) device.numa = numa;
    readHealth(device.health, gpu);
    std::string partition;
    if (char name[32] = ""; answers(calls_.partition, gpu, name, uint32_t{sizeof name}))
      partition = bufferText(name, sizeof name, "the partition of AMD GPU " + std::to_string(device.index),
                             topology_);
    std::optional<uint64_t> pci;
    if (uint64_t address = ~uint64_t{0}; answers(calls_.pci, gpu, &address) && address != ~uint64_t{0})
      pci = address;
    gpus_.addDevice(std::move(device), pci, std::move(id), partition);
  }

  // After the last device. `gpus`: by index.
  void addPaths(const std::vector<Gpu>& gpus) {
    gpus_.shareGpus();
    for (std::size_t from = 0; from < gpus.size(); ++from) {
      for (std::size_t to = 0; to < gpus.size(); ++to) {
        if (from == to) continue;
        AmdPath path{.from = static_cast<int>(from), .to = static_cast<int>(to)};
        if (bool accessible = false; answers(calls_.p2p, gpus[from], gpus[to], &accessible))
          path.accessible = accessible;
        if (!answers(calls_.link_type, gpus[from], gpus[to], &path.hops, &path.type)) path.type = 0;
        if (path.type == kAmdXgmi && path.hops <= 1 &&
            !answers(calls_.link_bandwidth, gpus[from], gpus[to], &path.min_mbps, &path.max_mbps))
          path.max_mbps = 0;
        gpus_.addPath(path);
      }
    }
  }

  const std::string& library_;
  GpuTopology& topology_;

 private:
  std::string statusText(AmdStatus status) const {
    const char* text = nullptr;
    if (!answers(calls_.status_text, status, &text) || text == nullptr) text = "error";
    return std::string(text, strnlen(text, 200)) + " (" + std::to_string(status) + ")";
  }

  void readHealth(Health& health, Gpu gpu) const {
    uint64_t enabled = ~uint64_t{0};
    answers(calls_.ecc_enabled, gpu, &enabled);
    for (const uint64_t block : amdErrorBlocks(enabled)) {
      uint64_t errors[512] = {};  // larger than any version of the struct
      if (answers(calls_.ecc, gpu, block, static_cast<void*>(errors)))
        addAmdErrors(health, block, errors[0], errors[1]);
    }
  }

  const AmdCalls<Gpu>& calls_;
  AmdGpus gpus_;
};

}  // namespace railwise::gpu
