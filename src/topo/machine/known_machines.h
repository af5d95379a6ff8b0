// What is known of kinds of GPUs and of machines that many people have: what a file or a /sys tree leaves
// out, and what a machine of its kind should have. The vendors' and clouds' own documentation is the source.
// Plain values; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "topo/document/xml.h"

namespace railwise::topo {

// A GPU by its PCI ids, which are written as in /sys ("0x10de").
struct KnownGpu {
  const char* vendor;
  const char* device;
  const char* name;
  int sm;              // compute capability times ten; 0: AMD
  int nvswitch_links;  // NVLinks of a GPU to NVSwitches on a board of eight or more; 0: the board has none
};
// Null: not in the table.
const KnownGpu* knownGpu(std::string_view vendor, std::string_view device);

// The compute capability (times ten) of a product such as "NVIDIA A100-SXM4-80GB"; 0: not known.
int computeCapabilityOf(std::string_view product);

// What tells a machine's kind: /sys/class/dmi/id, GPUs and NICs.
struct MachineSigns {
  std::string sys_vendor;
  std::string product_name;
  std::string chassis_asset_tag;
  std::string gpu_device;  // PCI id of its GPUs, if all are of one kind
  int gpus = 0;
  int rdma_ports = 0;  // of the kind that most are
  bool efa = false;
};

struct KnownMachine {
  const char* name;  // "Azure ND96isr_H100_v5"
  // Signs; "" and 0: any.
  const char* sys_vendor;
  const char* product;  // how product_name or chassis_asset_tag begins
  const char* gpu_device;
  int gpus;
  // What it should have.
  int rdma_ports;  // 0: not known
  const char* advice;
};
// Null: no kind that is known.
const KnownMachine* knownMachine(const MachineSigns& signs);

// What the table says of the GPUs of a file that does not describe them (no <gpu> with sm, no <nvlink>). 0:
// not known. A pci element has the ids if NCCL wrote it.
struct KnownDetection {
  int gpu_sm = 0;
  int nvswitch_links = 0;
  std::string gpu;  // the name of the GPU, for a remark
};
KnownDetection knownDetection(const XmlDocument& document);
// The same of the GPUs of a /sys tree. `kind`: of all of them; null: not known.
KnownDetection knownDetection(const KnownGpu* kind, int gpus);
// A part of a remark: which GPUs they are known to be, and what is assumed of them.
std::string knownText(const KnownDetection& known);

}  // namespace railwise::topo
