// What ROCm SMI and AMD SMI have in common: the numbers that both libraries use, and what Railwise makes of
// their answers. AMD SMI has a ROCm SMI inside, so a number of one means the same in the other.
//
// A reader gives each device to AmdGpus, then all paths between them. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/topology.h"

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

}  // namespace railwise::gpu
