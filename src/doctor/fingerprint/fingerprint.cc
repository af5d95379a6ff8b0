#include "doctor/fingerprint/fingerprint.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/text/json_fields.h"
#include "base/text/printable.h"
#include "base/text/words.h"
#include "doctor/facts/libraries.h"
#include "doctor/facts/system.h"
#include "sysfs/pci_devices.h"

namespace railwise::doctor::fingerprint {
namespace {

constexpr std::array kModules = {"nvidia", "amdgpu", "mlx5_core"};

// A text of a vendor's library or of a driver.
std::string cleaned(const std::string& text) { return std::string(trimmed(printableAscii(text))); }

std::string lineOf(const System& system, const std::string& path) { return cleaned(system.line(path)); }

// Counts in the order of the names, so that the order of the devices does not matter.
template <typename Group>
void count(std::vector<Group>& list, Group one) {
  for (Group& known : list) {
    one.count = known.count;
    if (one == known) return void(++known.count);
  }
  one.count = 1;
  list.push_back(std::move(one));
  std::ranges::sort(list);
}

// A partition of a GPU is a device too, and counts by itself: the nodes of a job should be partitioned alike.
void addGpus(const gpu::GpuTopology& gpus, Fingerprint& node) {
  std::set<std::string> vendors, drivers;
  for (const gpu::Device& gpu : gpus.gpus) {
    vendors.insert(topology::gpuVendorName(gpu.vendor));
    if (!gpu.driver.empty()) drivers.insert(cleaned(gpu.driver));
    count<Counted>(node.gpus, {cleaned(gpu.model + (gpu.partition.empty() ? "" : " " + gpu.partition))});
    if (gpu.parent < 0) count<Counted>(node.gpu_firmware, {cleaned(gpu.firmware)});
  }
  node.gpu_vendor = joined(vendors, " and ");
  node.gpu_driver = joined(drivers, " and ");
}

// The GPUs of the PCI bus: no library has told of any, as without a driver.
void addPciGpus(const System& system, Fingerprint& node) {
  std::set<std::string> vendors;
  for (const sysfs::PciDevice& device : sysfs::gpuDevices(system.tree())) {
    const std::string vendor =
        topology::gpuVendorName(device.isAmdGpu() ? gpu::Vendor::kAmd : gpu::Vendor::kNvidia);
    vendors.insert(vendor);
    count<Counted>(node.gpus, {vendor + " " + cleaned(device.device)});
  }
  node.gpu_vendor = joined(vendors, " and ");
}

void addNics(const System& system, Fingerprint& node) {
  for (const std::string& name : system.tree().list("/sys/class/infiniband")) {
    const std::string folder = "/sys/class/infiniband/" + name;
    NicGroup nic = {lineOf(system, folder + "/hca_type"), lineOf(system, folder + "/board_id"),
                    lineOf(system, folder + "/fw_ver")};
    // Not every driver tells a type.
    if (const std::string vendor = lineOf(system, folder + "/device/vendor");
        nic.type.empty() && !vendor.empty())
      nic.type = vendor + ":" + lineOf(system, folder + "/device/device");
    count(node.nics, std::move(nic));
  }
}

// version.json: {"cuda": {"name": "CUDA SDK", "version": "12.4.1"}, ...}. CUDA 10 has version.txt: "CUDA
// Version 10.2.89".
std::string cudaVersion(const System& system) {
  const auto json = nlohmann::json::parse(system.text("/usr/local/cuda/version.json"), nullptr, false);
  std::string version, error;
  FieldReader(json, "", error).object("cuda", version, [](auto& fields, std::string& text) {
    fields.text("version", text);
  });
  if (!version.empty()) return cleaned(version);
  const std::string text = lineOf(system, "/usr/local/cuda/version.txt");
  constexpr std::string_view kBefore = "CUDA Version ";
  return text.starts_with(kBefore) ? text.substr(kBefore.size()) : "";
}

}  // namespace

Fingerprint fingerprintOf(const sysfs::FileTree& tree, const gpu::GpuTopology& gpus) {
  const System system(tree);
  Fingerprint node;
  node.host = lineOf(system, "/proc/sys/kernel/hostname");
  node.railwise = RAILWISE_VERSION;
  node.kernel = lineOf(system, "/proc/sys/kernel/osrelease");
  for (const std::string module : kModules)
    node.modules[module] = lineOf(system, "/sys/module/" + module + "/version");
  if (gpus.gpus.empty()) addPciGpus(system, node);
  else addGpus(gpus, node);
  // A container may have GPUs and no library of their vendor. The driver's module is there all the same.
  for (const char* module : {"nvidia", "amdgpu"})
    if (node.gpu_driver.empty()) node.gpu_driver = node.modules[module];
  node.cuda = cudaVersion(system);
  node.rocm = lineOf(system, "/opt/rocm/.info/version");
  addNics(system, node);
  node.rdma_core = rdmaCoreVersion(verbsLibrary(system));
  return node;
}

}  // namespace railwise::doctor::fingerprint
