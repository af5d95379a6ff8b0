#include "topo/machine/known_machines.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/pci.h"
#include "base/text/text_layout.h"

namespace railwise::topo {
namespace {

using pci::kAmd;
using pci::kNvidia;
constexpr int kSwitchedBoard = 8;  // boards with fewer GPUs join them without NVSwitch

// Names as in pci.ids. Compute capabilities: developer.nvidia.com/cuda-gpus. NVLinks: the data sheets of
// V100, A100, H100 and Blackwell.
constexpr std::array<KnownGpu, 42> kGpus = {{{kNvidia, "0x15f9", "P100-SXM2", 60, 0},
                                             {kNvidia, "0x15f8", "P100-PCIE", 60, 0},
                                             {kNvidia, "0x1db1", "V100-SXM2-16GB", 70, 0},
                                             {kNvidia, "0x1db5", "V100-SXM2-32GB", 70, 0},
                                             {kNvidia, "0x1db8", "V100-SXM3-32GB", 70, 6},
                                             {kNvidia, "0x1db4", "V100-PCIE-16GB", 70, 0},
                                             {kNvidia, "0x1db6", "V100-PCIE-32GB", 70, 0},
                                             {kNvidia, "0x1eb8", "T4", 75, 0},
                                             {kNvidia, "0x20b0", "A100-SXM4-40GB", 80, 12},
                                             {kNvidia, "0x20b2", "A100-SXM4-80GB", 80, 12},
                                             {kNvidia, "0x20b3", "A100-SXM-64GB", 80, 0},
                                             {kNvidia, "0x20bd", "A800-SXM4-40GB", 80, 8},
                                             {kNvidia, "0x20f3", "A800-SXM4-80GB", 80, 8},
                                             {kNvidia, "0x20f1", "A100-PCIE-40GB", 80, 0},
                                             {kNvidia, "0x20b5", "A100 80GB PCIe", 80, 0},
                                             {kNvidia, "0x20b7", "A30", 80, 0},
                                             {kNvidia, "0x2204", "GeForce RTX 3090", 86, 0},
                                             {kNvidia, "0x2230", "RTX A6000", 86, 0},
                                             {kNvidia, "0x2235", "A40", 86, 0},
                                             {kNvidia, "0x2236", "A10", 86, 0},
                                             {kNvidia, "0x2237", "A10G", 86, 0},
                                             {kNvidia, "0x2684", "GeForce RTX 4090", 89, 0},
                                             {kNvidia, "0x26b5", "L40", 89, 0},
                                             {kNvidia, "0x26b9", "L40S", 89, 0},
                                             {kNvidia, "0x27b8", "L4", 89, 0},
                                             {kNvidia, "0x2321", "H100 NVL", 90, 0},
                                             {kNvidia, "0x2324", "H800 SXM", 90, 8},
                                             {kNvidia, "0x2329", "H20", 90, 18},
                                             {kNvidia, "0x2330", "H100 SXM5 80GB", 90, 18},
                                             {kNvidia, "0x2331", "H100 PCIe", 90, 0},
                                             {kNvidia, "0x2335", "H200 SXM 141GB", 90, 18},
                                             {kNvidia, "0x233b", "H200 NVL", 90, 0},
                                             {kNvidia, "0x2342", "GH200 120GB", 90, 0},
                                             {kNvidia, "0x2901", "B200", 100, 18},
                                             {kNvidia, "0x2941", "GB200", 100, 18},
                                             {kNvidia, "0x3182", "B300 SXM6", 103, 18},
                                             {kNvidia, "0x2e12", "GB10", 121, 0},
                                             {kAmd, "0x738c", "Instinct MI100", 0, 0},
                                             {kAmd, "0x740c", "Instinct MI250X", 0, 0},
                                             {kAmd, "0x74a1", "Instinct MI300X", 0, 0},
                                             {kAmd, "0x74b5", "Instinct MI300X VF", 0, 0},
                                             {kAmd, "0x74a5", "Instinct MI325X", 0, 0}}};

constexpr const char* kAwsPlugin =
    "its NICs are EFA, which has no reliable connections: use aws-ofi-nccl, which the Deep Learning AMIs "
    "have (NCCL_NET_PLUGIN=ofi)";
constexpr const char* kAzureFile =
    "it hides its PCIe tree: NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml (ndv4-topo.xml, ...) of Azure's HPC "
    "images, or RAILWISE_TOPOLOGY=auto";
constexpr const char* kGoogleRdma =
    "its RDMA NICs are virtual functions with an interface each in subnets of their own: give pods all eight "
    "(Google's gIB guide), and RAILWISE_TOPOLOGY=auto if its PCIe tree is hidden";
constexpr const char* kGoogleTcp = "it has no RDMA NICs: GPUDirect-TCPX(O) of Google is its fastest network";
constexpr const char* kOracle =
    "RoCE with DSCP: Oracle names NCCL_IB_TC (41 on H100, 105 on A100) and an NCCL_IB_HCA without the "
    "devices of the front network";
constexpr const char* kDgx =
    "mlx5 devices for storage and management are not on the compute rails: leave them out with "
    "NCCL_IB_HCA if explain shows a GPU with one";
constexpr const char* kSpark =
    "one QSFP port is two RDMA devices of half the bandwidth: use both (NCCL_IB_HCA of all four, MTU 9000)";

// The first row that fits counts.
constexpr std::array<KnownMachine, 33> kMachines = {
    {{"AWS p3dn.24xlarge", "Amazon EC2", "p3dn.24xlarge", "", 8, 1, kAwsPlugin},
     {"AWS p4d.24xlarge", "Amazon EC2", "p4d.24xlarge", "", 8, 4, kAwsPlugin},
     {"AWS p4de.24xlarge", "Amazon EC2", "p4de.24xlarge", "", 8, 4, kAwsPlugin},
     {"AWS p5.48xlarge", "Amazon EC2", "p5.48xlarge", "", 8, 32, kAwsPlugin},
     {"AWS p5e.48xlarge", "Amazon EC2", "p5e.48xlarge", "", 8, 32, kAwsPlugin},
     {"AWS p5en.48xlarge", "Amazon EC2", "p5en.48xlarge", "", 8, 16, kAwsPlugin},
     {"AWS p6-b200.48xlarge", "Amazon EC2", "p6-b200.48xlarge", "", 8, 8, kAwsPlugin},
     {"AWS p6-b300.48xlarge", "Amazon EC2", "p6-b300.48xlarge", "", 8, 0, kAwsPlugin},
     {"AWS p6e-gb200", "Amazon EC2", "p6e-gb200", "", 4, 0, kAwsPlugin},
     {"AWS", "Amazon EC2", "", "", 0, 0, kAwsPlugin},
     {"Azure ND40rs_v2", "Microsoft Corporation", "", "0x1db5", 8, 1, kAzureFile},
     {"Azure ND96asr_v4", "Microsoft Corporation", "", "0x20b0", 8, 8, kAzureFile},
     {"Azure ND96amsr_A100_v4", "Microsoft Corporation", "", "0x20b2", 8, 8, kAzureFile},
     {"Azure NC96ads_A100_v4", "Microsoft Corporation", "", "0x20b5", 4, 0, kAzureFile},
     {"Azure ND96isr_H100_v5", "Microsoft Corporation", "", "0x2330", 8, 8, kAzureFile},
     {"Azure ND96isr_H200_v5", "Microsoft Corporation", "", "0x2335", 8, 8, kAzureFile},
     {"Azure ND96isr_MI300X_v5", "Microsoft Corporation", "", "0x74b5", 8, 8, kAzureFile},
     {"Azure ND GB200 v6", "Microsoft Corporation", "", "0x2941", 4, 4, kAzureFile},
     {"Google a3-highgpu or a3-megagpu", "Google", "", "0x2330", 8, 0, kGoogleTcp},
     {"Google a3-ultragpu", "Google", "", "0x2335", 8, 8, kGoogleRdma},
     {"Google a4-highgpu", "Google", "", "0x2901", 8, 8, kGoogleRdma},
     {"Oracle BM.GPU4.8", "", "OracleCloud", "0x20b0", 8, 16, kOracle},
     {"Oracle BM.GPU.A100-v2.8", "", "OracleCloud", "0x20b2", 8, 16, kOracle},
     {"Oracle BM.GPU.H100.8", "", "OracleCloud", "0x2330", 8, 16, kOracle},
     {"Oracle BM.GPU.H200.8", "", "OracleCloud", "0x2335", 8, 8, kOracle},
     {"Oracle cloud", "", "OracleCloud", "", 0, 0, kOracle},
     {"DGX Spark", "NVIDIA", "", "0x2e12", 1, 0, kSpark},
     {"DGX-1", "NVIDIA", "DGX-1", "", 8, 4, kDgx},
     {"DGX-2", "NVIDIA", "DGX-2", "", 16, 8, kDgx},
     {"DGX A100", "NVIDIA", "DGXA100", "", 8, 8, kDgx},
     {"DGX H100", "NVIDIA", "DGXH100", "", 8, 8, kDgx},
     {"DGX H200", "NVIDIA", "DGXH200", "", 8, 8, kDgx},
     {"DGX B200", "NVIDIA", "DGXB200", "", 8, 8, kDgx}}};

// Published files that list their GPUs without ids: recognised by the address of a GPU and the CPU.
struct KnownFile {
  const char* machine;
  const char* busid;  // of its first GPU in the file
  int gpus;
  const char* familyid;  // of its first <cpu>
  const char* modelid;
  const char* gpu_device;
};
constexpr std::array<KnownFile, 2> kFiles = {
    {{"Azure ND96isr_H100_v5", "0001:00:00.0", 8, "6", "143", "0x2330"},
     {"Azure ND96asr_v4", "0003:00:00.0", 8, "23", "49", "0x20b0"}}};

// The GPU of the published file that `document` is. Null: none.
const KnownGpu* gpuOfKnownFile(const XmlDocument& document, const std::string& first_gpu, int gpus) {
  const XmlNode* cpu = document.find("cpu");
  for (const KnownFile& file : kFiles) {
    if (first_gpu == file.busid && gpus == file.gpus && cpu != nullptr &&
        cpu->get("familyid") == file.familyid && cpu->get("modelid") == file.modelid)
      return knownGpu(kNvidia, file.gpu_device);
  }
  return nullptr;
}

// Product names differ in spaces and hyphens: "DGXA100 920-23687-2530-000", "DGX A100".
std::string plainName(std::string_view text) {
  std::string plain;
  for (const char c : text)
    if (c != ' ') plain += c;
  return plain;
}

bool fits(const KnownMachine& machine, const MachineSigns& signs) {
  // Instances without EFA have nothing that concerns NCCL over RDMA.
  if (machine.advice == kAwsPlugin && *machine.product == '\0' && !signs.efa) return false;
  const auto begins = [](std::string_view text, std::string_view with) { return text.starts_with(with); };
  if (!begins(signs.sys_vendor, machine.sys_vendor)) return false;
  const std::string product = plainName(machine.product);
  if (!begins(plainName(signs.product_name), product) && !begins(plainName(signs.chassis_asset_tag), product))
    return false;
  return *machine.gpu_device == '\0' ||
         (signs.gpu_device == machine.gpu_device && signs.gpus <= machine.gpus);
}

}  // namespace

const KnownGpu* knownGpu(std::string_view vendor, std::string_view device) {
  const auto found = std::find_if(kGpus.begin(), kGpus.end(), [&](const KnownGpu& gpu) {
    return vendor == gpu.vendor && device == gpu.device;
  });
  return found == kGpus.end() ? nullptr : &*found;
}

// "A100" of "A100-SXM4-40GB", all of "GeForce RTX 3090": up to the end of the first word with a digit.
static std::string_view modelOf(std::string_view name) {
  return name.substr(0, name.find_first_of("- ", name.find_first_of("0123456789")));
}

// As whole words: GB200 is no B200, and T400 no T4.
static bool hasModel(std::string_view product, std::string_view model) {
  const auto isPart = [&](std::size_t at) {
    return at < product.size() && std::isalnum(static_cast<unsigned char>(product[at])) != 0;
  };
  std::size_t at = product.find(model);
  while (at != std::string_view::npos && ((at > 0 && isPart(at - 1)) || isPart(at + model.size())))
    at = product.find(model, at + 1);
  return at != std::string_view::npos;
}

int computeCapabilityOf(std::string_view product) {
  const auto found = std::find_if(kGpus.begin(), kGpus.end(), [&](const KnownGpu& gpu) {
    return gpu.sm != 0 && hasModel(product, modelOf(gpu.name));
  });
  return found == kGpus.end() ? 0 : found->sm;
}

const KnownMachine* knownMachine(const MachineSigns& signs) {
  const auto found = std::find_if(kMachines.begin(), kMachines.end(),
                                  [&](const KnownMachine& machine) { return fits(machine, signs); });
  return found == kMachines.end() ? nullptr : &*found;
}

KnownDetection knownDetection(const XmlDocument& document) {
  const KnownGpu* kind = nullptr;
  std::string first_gpu;
  int gpus = 0;
  bool with_ids = false;
  for (const XmlNode* node : document.order()) {
    if ((node->name == "gpu" && node->has("sm")) || node->name == "nvlink") return {};
    if (node->name != "pci" || !node->get("class").starts_with("0x03")) continue;
    if (gpus++ == 0) first_gpu = node->get("busid");
    if (!node->has("device")) continue;
    with_ids = true;
    const KnownGpu* gpu = knownGpu(node->get("vendor"), node->get("device"));
    if (gpu == nullptr || (kind != nullptr && gpu != kind)) return {};  // not known, or GPUs of several kinds
    kind = gpu;
  }
  return knownDetection(with_ids ? kind : gpuOfKnownFile(document, first_gpu, gpus), gpus);
}

KnownDetection knownDetection(const KnownGpu* kind, int gpus) {
  if (kind == nullptr) return {};
  return {.gpu_sm = kind->sm,
          .nvswitch_links = gpus >= kSwitchedBoard ? kind->nvswitch_links : 0,
          .gpu = kind->name};
}

std::string knownText(const KnownDetection& known) {
  return formatText(
      "they are known to be %s: compute capability %d.%d, %d NVLinks to NVSwitches (--gpu-sm, "
      "--nvswitch-links say otherwise)",
      known.gpu.c_str(), known.gpu_sm / 10, known.gpu_sm % 10, known.nvswitch_links);
}

}  // namespace railwise::topo
