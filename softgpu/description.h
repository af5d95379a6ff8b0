// The GPUs of the machine in force, as plain values. libcudart and libnvidia-ml both read them from here.
// The environment: README.md.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace softgpu {

// One NVLink of a GPU. Links to one peer are separate entries.
struct NvLink {
  std::string
      peer_bus_id;  // of a GPU or an NVSwitch; "fffffff:ffff:ff" for an NVSwitch that the host does not see
  bool to_switch = false;
};

struct GpuDescription {
  std::string bus_id;         // "0000:1b:00.0"
  int sm = 90;                // compute capability: 10 * major + minor
  int numa = -1;              // NUMA node; -1: not told
  unsigned part_id = 0x2330;  // PCI device id
  size_t memory_bytes = 0;
  std::string name;
  std::vector<NvLink> nvlinks;

  // The numbers in `bus_id`.
  unsigned pciDomain() const;
  unsigned pciBus() const;
  unsigned pciSlot() const;
};

// All GPUs of the host that this process plays, sorted by bus id. Read once per process.
const std::vector<GpuDescription>& describedGpus();

// The positions in describedGpus() that CUDA_VISIBLE_DEVICES leaves to this process, in its order.
std::vector<size_t> visibleGpus(const char* cuda_visible_devices, size_t count);

// "0000:1b:00.0" for any spelling of a PCI address ("00000000:1B:00.0"); "" if `text` is none.
std::string normalBusId(const std::string& text);

}  // namespace softgpu
