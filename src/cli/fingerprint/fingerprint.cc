#include "cli/fingerprint/fingerprint.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <tuple>

#include "base/dynamic_library.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "sysfs/pci_devices.h"

namespace railwise::cli {
namespace {

constexpr std::array kModules = {"nvidia", "amdgpu", "mlx5_core"};

// Where distributions put libibverbs.so.1.
constexpr std::array kLibraryFolders = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                        "/usr/lib64", "/lib64", "/usr/lib"};

// Counts in the order of the names, so that the order of the devices does not matter.
void count(std::vector<Counted>& list, const std::string& name) {
  const auto at =
      std::lower_bound(list.begin(), list.end(), name,
                       [](const Counted& each, const std::string& key) { return each.name < key; });
  if (at != list.end() && at->name == name) ++at->count;
  else list.insert(at, {name, 1});
}

// A text of a vendor's library or of a driver, without spaces at its end and control characters.
std::string trimmed(std::string text) {
  text = printableAscii(text);
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string lineOf(const sysfs::FileTree& tree, const std::string& path) {
  return trimmed(sysfs::firstLine(tree, path));
}

// A partition of a GPU is a device too, and counts by itself: the nodes of a job should be partitioned alike.
void addGpus(const gpu::GpuTopology& gpus, Fingerprint& node) {
  std::set<std::string> vendors, drivers;
  for (const gpu::Device& gpu : gpus.gpus) {
    vendors.insert(topology::gpuVendorName(gpu.vendor));
    if (!gpu.driver.empty()) drivers.insert(trimmed(gpu.driver));
    count(node.gpus, trimmed(gpu.model + (gpu.partition.empty() ? "" : " " + gpu.partition)));
    if (gpu.parent < 0) count(node.gpu_firmware, trimmed(gpu.firmware));
  }
  node.gpu_vendor = joined(vendors, " and ");
  node.gpu_driver = joined(drivers, " and ");
}

// The GPUs of the PCI bus: no library has told of any, as without a driver.
void addPciGpus(const sysfs::FileTree& tree, Fingerprint& node) {
  std::set<std::string> vendors;
  for (const sysfs::PciDevice& device : sysfs::gpuDevices(tree)) {
    const std::string vendor =
        topology::gpuVendorName(device.isAmdGpu() ? gpu::Vendor::kAmd : gpu::Vendor::kNvidia);
    vendors.insert(vendor);
    count(node.gpus, vendor + " " + trimmed(device.device));
  }
  node.gpu_vendor = joined(vendors, " and ");
}

void addNics(const sysfs::FileTree& tree, Fingerprint& node) {
  for (const std::string& name : tree.list("/sys/class/infiniband")) {
    const std::string folder = "/sys/class/infiniband/" + name;
    NicGroup nic = {lineOf(tree, folder + "/hca_type"), lineOf(tree, folder + "/board_id"),
                    lineOf(tree, folder + "/fw_ver"), 1};
    // Not every driver tells a type.
    if (const std::string vendor = lineOf(tree, folder + "/device/vendor");
        nic.type.empty() && !vendor.empty())
      nic.type = vendor + ":" + lineOf(tree, folder + "/device/device");
    const auto key = [](const NicGroup& group) { return std::tie(group.type, group.board, group.firmware); };
    const auto at = std::lower_bound(node.nics.begin(), node.nics.end(), nic,
                                     [&](const auto& a, const auto& b) { return key(a) < key(b); });
    if (at != node.nics.end() && key(*at) == key(nic)) ++at->count;
    else node.nics.insert(at, std::move(nic));
  }
}

// The text in quotes behind `"key":`, from `at` on, which moves behind it. "": there is none.
std::string quotedAfter(const std::string& text, const std::string& key, std::size_t& at) {
  at = text.find("\"" + key + "\"", at);
  if (at == std::string::npos) return "";
  at += key.size() + 2;
  const std::size_t begin = text.find('"', at);
  const std::size_t end = begin == std::string::npos ? begin : text.find('"', begin + 1);
  return end == std::string::npos ? "" : text.substr(begin + 1, end - begin - 1);
}

// version.json: {"cuda": {"name": "CUDA SDK", "version": "12.4.1"}, ...}. The tree gives only the first 4096
// bytes of the file, so a JSON reader would see no end; "cuda" comes first. CUDA 10 has version.txt: "CUDA
// Version 10.2.89".
std::string cudaVersion(const sysfs::FileTree& tree) {
  const std::string json = tree.read("/usr/local/cuda/version.json").value_or("");
  std::size_t at = json.find("\"cuda\"");
  if (at != std::string::npos) return trimmed(quotedAfter(json, "version", at));
  const std::string text = lineOf(tree, "/usr/local/cuda/version.txt");
  constexpr std::string_view kBefore = "CUDA Version ";
  return text.starts_with(kBefore) ? text.substr(kBefore.size()) : "";
}

std::string rdmaCoreOf(const sysfs::FileTree& tree) {
  for (const std::string folder : kLibraryFolders) {
    const std::string file = sysfs::realPathOf(tree, folder + "/libibverbs.so.1");
    if (!file.empty()) return rdmaCoreVersion(file);
  }
  return "";
}

std::string known(const std::string& text) { return text.empty() ? "-" : text; }

std::string times(int count, const std::string& name) { return std::to_string(count) + " x " + name; }

void append(std::string& list, const std::string& text) { list += (list.empty() ? "" : ", ") + text; }

std::string gpusText(const Fingerprint& node) {
  std::string text;
  for (const Counted& model : node.gpus) append(text, times(model.count, known(model.name)));
  return text.empty() ? "none" : text;
}

// The numbers of GPUs stand in "GPUs"; here only where the GPUs of the node differ.
std::string gpuFirmwareText(const Fingerprint& node) {
  if (node.gpu_firmware.size() == 1) return known(node.gpu_firmware[0].name);
  std::string text;
  for (const Counted& firmware : node.gpu_firmware) append(text, times(firmware.count, known(firmware.name)));
  return known(text);
}

std::string nicName(const NicGroup& nic) {
  return known(nic.type) + (nic.board.empty() ? "" : " (" + nic.board + ")");
}

std::string nicsText(const Fingerprint& node) {
  std::vector<Counted> types;
  for (const NicGroup& nic : node.nics) {
    const std::string name = nicName(nic);
    const auto found =
        std::find_if(types.begin(), types.end(), [&](const Counted& type) { return type.name == name; });
    if (found != types.end()) found->count += nic.count;
    else types.push_back({name, nic.count});
  }
  std::string text;
  for (const Counted& type : types) append(text, times(type.count, type.name));
  return text.empty() ? "none" : text;
}

// As gpuFirmwareText(): numbers only where NICs of one type differ.
std::string nicFirmwareText(const Fingerprint& node) {
  std::string text;
  for (const NicGroup& nic : node.nics) {
    const auto groups = std::count_if(node.nics.begin(), node.nics.end(),
                                      [&](const NicGroup& other) { return nicName(other) == nicName(nic); });
    append(text,
           nicName(nic) + " " + (groups > 1 ? times(nic.count, known(nic.firmware)) : known(nic.firmware)));
  }
  return known(text);
}

void addText(JsonWriter& json, const char* key, const std::string& text) { json.key(key).known(text); }

void addCounted(JsonWriter& json, const char* key, const char* name, const std::vector<Counted>& list) {
  json.key(key).beginRow();
  for (const Counted& each : list) {
    json.beginInlineObject();
    addText(json, name, each.name);
    json.key("count").value(each.count).endInlineObject();
  }
  json.endRow();
}

}  // namespace

std::vector<Field> fieldsOf(const Fingerprint& node) {
  std::vector<Field> fields = {{"Railwise", known(node.railwise)},
                               {"kernel", known(node.kernel)},
                               {"GPUs", gpusText(node)},
                               {"GPU driver", known(node.gpu_driver)},
                               {"GPU firmware", gpuFirmwareText(node)},
                               {"CUDA", known(node.cuda)},
                               {"ROCm", known(node.rocm)}};
  for (const auto& [module, version] : node.modules) fields.push_back({"module " + module, known(version)});
  fields.push_back({"NICs", nicsText(node)});
  fields.push_back({"NIC firmware", nicFirmwareText(node)});
  fields.push_back({"rdma-core", known(node.rdma_core)});
  return fields;
}

std::string hashOf(const Fingerprint& node) {
  constexpr uint32_t kOffset = 2166136261U;  // of FNV-1a, 32 bits
  constexpr uint32_t kPrime = 16777619U;
  uint32_t hash = kOffset;
  const auto add = [&hash](const std::string& text) {
    for (const char byte : text + '\n') hash = (hash ^ static_cast<uint8_t>(byte)) * kPrime;
  };
  for (const Field& field : fieldsOf(node)) {
    add(field.name);
    add(field.value);
  }
  char text[16];
  std::snprintf(text, sizeof text, "%08x", hash);
  return text;
}

std::string textOf(const Fingerprint& node, std::size_t columns) {
  std::string fields;
  for (const Field& field : fieldsOf(node))
    fields += (fields.empty() ? "" : "; ") + field.name + ": " + field.value;
  return wrappedText(fields, known(node.host) + " " + hashOf(node) + "  ", "    ", columns);
}

std::string jsonOf(const Fingerprint& node) {
  JsonWriter json;
  json.beginInlineObject().key("schema").value("railwise-fingerprint").key("schema_version").value(1);
  addText(json, "host", node.host);
  json.key("hash").value(hashOf(node));
  addText(json, "railwise", node.railwise);
  addText(json, "kernel", node.kernel);
  json.key("gpu").beginInlineObject();
  addText(json, "vendor", node.gpu_vendor);
  addCounted(json, "models", "model", node.gpus);
  addText(json, "driver", node.gpu_driver);
  addCounted(json, "firmware", "version", node.gpu_firmware);
  json.endInlineObject();
  addText(json, "cuda", node.cuda);
  addText(json, "rocm", node.rocm);
  json.key("modules").beginInlineObject();
  for (const auto& [module, version] : node.modules) addText(json, module.c_str(), version);
  json.endInlineObject().key("nics").beginRow();
  for (const NicGroup& nic : node.nics) {
    json.beginInlineObject();
    addText(json, "type", nic.type);
    addText(json, "board", nic.board);
    addText(json, "firmware", nic.firmware);
    json.key("count").value(nic.count).endInlineObject();
  }
  json.endRow();
  addText(json, "rdma_core", node.rdma_core);
  return json.endInlineObject().text();
}

Fingerprint fingerprintOf(const sysfs::FileTree& tree, const gpu::GpuTopology& gpus) {
  Fingerprint node;
  node.host = lineOf(tree, "/proc/sys/kernel/hostname");
  node.railwise = RAILWISE_VERSION;
  node.kernel = lineOf(tree, "/proc/sys/kernel/osrelease");
  for (const std::string module : kModules)
    node.modules[module] = lineOf(tree, "/sys/module/" + module + "/version");
  if (gpus.gpus.empty()) addPciGpus(tree, node);
  else addGpus(gpus, node);
  // A container may have GPUs and no library of their vendor. The driver's module is there all the same.
  for (const char* module : {"nvidia", "amdgpu"})
    if (node.gpu_driver.empty()) node.gpu_driver = node.modules[module];
  node.cuda = cudaVersion(tree);
  node.rocm = lineOf(tree, "/opt/rocm/.info/version");
  addNics(tree, node);
  node.rdma_core = rdmaCoreOf(tree);
  return node;
}

std::string loadedRdmaLibrary(const std::string& library) {
  const char* const name = library.empty() ? "libibverbs.so.1" : library.c_str();
  const Outcome<DynamicLibrary> opened = DynamicLibrary::open({name}, DynamicLibrary::Unload::kNever);
  Dl_info info = {};
  if (!opened.ok() || dladdr(opened->symbol("ibv_get_device_list"), &info) == 0) return "";
  const std::unique_ptr<char, void (*)(void*)> file(realpath(info.dli_fname, nullptr), std::free);
  return file == nullptr ? "" : file.get();
}

std::string rdmaCoreVersion(std::string_view file) {
  constexpr std::string_view kSoname = ".so.1.";
  const std::size_t soname = file.rfind(kSoname);
  if (soname == std::string_view::npos) return "";
  const std::string_view interface = file.substr(soname + kSoname.size());  // "14.44.0"
  const std::size_t dot = interface.find('.');
  const std::string_view version = dot == std::string_view::npos ? "" : interface.substr(dot + 1);
  // Before rdma-core the library was libibverbs.so.1.0.0.
  return version.find('.') == std::string_view::npos ? "" : std::string(version);
}

}  // namespace railwise::cli
