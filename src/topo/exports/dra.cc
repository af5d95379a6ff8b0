// Kubernetes' ResourceSlices (resource.k8s.io/v1): the GPUs and NICs of a node as devices with attributes,
// for a DRA driver to publish, or to be compared with what a driver publishes.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/text/json.h"
#include "topo/explain/describe.h"
#include "topo/exports/exports.h"
#include "topo/exports/host_view.h"
#include "topo/exports/names.h"

namespace railwise::topo {
namespace {

// Limits of the API.
constexpr std::size_t kMostDevices = 128;     // of a slice
constexpr std::size_t kMostText = 64;         // bytes of a string attribute
constexpr std::size_t kMostDriverName = 63;   // characters
constexpr std::size_t kMostDeviceName = 63;   // a label of DNS
constexpr std::size_t kMostObjectName = 253;  // of a slice: a name of DNS
constexpr std::size_t kMostSliceNumber = 11;  // '-' and the digits of an int

// Attributes that Kubernetes defines, so that claims can match devices of several drivers.
constexpr const char* kPciAddress = "resource.kubernetes.io/pciBusID";
constexpr const char* kPcieRoot = "resource.kubernetes.io/pcieRoot";
constexpr const char* kNumaNode = "resource.kubernetes.io/numaNode";

struct DraDevice {
  enum Type { kString, kInt, kBool, kVersion };
  struct Attribute {
    std::string name;
    Type type = kString;
    std::string text;
    int64_t number = 0;
  };
  std::string name;
  std::vector<Attribute> attributes;
  std::string memory;  // a quantity: "80Gi"; "": not known
};

class DraWriter {
 public:
  DraWriter(const Machine& machine, const HostView& host, const ExportOptions& options)
      : graph_(*machine.graph), host_(host), options_(options), notes_(host.notes) {}

  ExportedText write(const std::string& driver) {
    for (const HostGpu& gpu : host_.gpus) addGpu(gpu);
    for (const HostNic& nic : host_.nics) addNic(nic);
    noteMissing();
    return {slices(driver), std::move(notes_)};
  }

 private:
  void text(const std::string& name, std::string value) {
    value = cleanUtf8(value);
    if (value.empty()) return;
    if (value.size() > kMostText) {
      notes_.push_back("the attribute " + name + " of " + devices_.back().name + " is cut to 64 characters");
      value = cutUtf8(std::move(value), kMostText);
    }
    devices_.back().attributes.push_back({name, DraDevice::kString, std::move(value), 0});
  }
  void number(const std::string& name, int64_t value) {
    devices_.back().attributes.push_back({name, DraDevice::kInt, "", value});
  }
  void truth(const std::string& name, bool value) {
    devices_.back().attributes.push_back({name, DraDevice::kBool, "", value ? 1 : 0});
  }

  // Adds a device under a name that no other device has.
  void add(const std::string& wanted) {
    std::string name = dnsLabel(wanted, kMostDeviceName);
    for (int copy = 2; !names_.insert(name).second; ++copy)
      name = dnsLabel(wanted, kMostDeviceName - 4) + "-" + std::to_string(copy);
    devices_.push_back({.name = std::move(name), .attributes = {}, .memory = ""});
  }

  void addPlace(const std::string& busid, int numa) {
    text(kPciAddress, busid);
    if (const auto at = options_.facts.pcie_roots.find(busid); at != options_.facts.pcie_roots.end()) {
      text(kPcieRoot, at->second);
    } else {
      root_missing_ = true;
    }
    if (numa >= 0) number(kNumaNode, numa);
  }

  void addGpu(const HostGpu& gpu) {
    add("gpu-" + std::to_string(gpu.dev));
    text("type", "gpu");
    number("index", gpu.dev);
    text("model", gpu.model);
    if (host_.amd) {
      text("architecture", gpu.kind);
    } else if (const int sm = graph_.of(NodeType::kGpu, gpu.gpu).sm; sm > 0) {
      devices_.back().attributes.push_back({"cudaComputeCapability", DraDevice::kVersion,
                                            std::to_string(sm / 10) + "." + std::to_string(sm % 10) + ".0",
                                            0});
    }
    addPlace(gpu.busid, gpu.numa);
    const auto row = static_cast<std::size_t>(&gpu - host_.gpus.data());
    number("nvlinks", *std::max_element(host_.links[row].begin(), host_.links[row].end()));
    truth("nvswitch", host_.switched);
    if (!gpu.nics.empty()) addGivenNics(gpu);
    if (gpu.memory_bytes > 0) devices_.back().memory = std::to_string(gpu.memory_bytes >> 20U) + "Mi";
  }

  void addGivenNics(const HostGpu& gpu) {
    std::string names;
    bool gpudirect = true;
    for (const GivenNic& given : gpu.nics) {
      names += (names.empty() ? "" : ",") + host_.nics[static_cast<std::size_t>(given.nic)].name;
      gpudirect = gpudirect && given.gpudirect;
    }
    const GivenNic& first = gpu.nics.front();
    text("nics", names);
    text("nicPathType", pathTypeName(first.type));
    number("nicPathMBps", std::llround(first.gb_per_s * 1000));
    truth("gpuDirect", gpudirect);
    addRail(host_.nics[static_cast<std::size_t>(first.nic)]);
  }

  void addRail(const HostNic& nic) {
    number("rail", nic.rail >= 0 ? nic.rail : nic.use_order);
    rails_counted_ = rails_counted_ || nic.rail < 0;
    if (nic.plane >= 0) number("plane", nic.plane);
  }

  void addNic(const HostNic& nic) {
    add("nic-" + nic.name);
    text("type", "nic");
    text("rdmaDevice", nic.name);
    number("port", nic.ports.front().port);
    number("speedMbps", nic.mbps);
    addPlace(nic.busid, nic.numa);
    truth("gpuDirect", nic.gpudirect);
    truth("usedByGpu", nic.use_order >= 0);
    if (nic.use_order >= 0) addRail(nic);
    addNearestGpu(static_cast<int>(&nic - host_.nics.data()));
  }

  // The first GPU that NCCL gives the NIC.
  void addNearestGpu(int nic) {
    const GivenNic* nearest = nullptr;
    int gpu_of_nearest = -1;
    for (const HostGpu& gpu : host_.gpus)
      for (const GivenNic& given : gpu.nics)
        if (given.nic == nic && (nearest == nullptr || given.type < nearest->type))
          nearest = &given, gpu_of_nearest = gpu.dev;
    if (nearest == nullptr) return;
    number("gpu", gpu_of_nearest);
    text("gpuPathType", pathTypeName(nearest->type));
  }

  std::string slices(const std::string& driver) {
    const std::size_t count = std::max<std::size_t>(1, (devices_.size() + kMostDevices - 1) / kMostDevices);
    JsonWriter json;
    if (count > 1) {
      notes_.push_back("a slice has 128 devices at most: " + std::to_string(count) + " slices in a List");
      json.beginObject().key("apiVersion").value("v1").key("kind").value("List").key("items").beginArray();
    }
    for (std::size_t slice = 0; slice < count; ++slice) writeSlice(json, driver, slice, count);
    if (count > 1) json.endArray().endObject();
    return json.text();
  }

  void writeSlice(JsonWriter& json, const std::string& driver, std::size_t slice, std::size_t count) const {
    json.beginObject().key("apiVersion").value("resource.k8s.io/v1").key("kind").value("ResourceSlice");
    json.key("metadata").beginObject().key("name");
    json.value(shortName(options_.node + "-" + driver, kMostObjectName - kMostSliceNumber) + "-" +
               std::to_string(slice));
    json.endObject();
    json.key("spec").beginObject().key("driver").value(driver).key("nodeName").value(options_.node);
    json.key("pool").beginObject().key("name").value(options_.node).key("generation").value(1);
    json.key("resourceSliceCount").value(static_cast<int>(count)).endObject();
    json.key("devices").beginArray();
    const std::size_t end = std::min(devices_.size(), (slice + 1) * kMostDevices);
    for (std::size_t i = slice * kMostDevices; i < end; ++i) writeDevice(json, devices_[i]);
    json.endArray().endObject().endObject();
  }

  static void writeDevice(JsonWriter& json, const DraDevice& device) {
    json.beginObject().key("name").value(device.name).key("attributes").beginObject();
    for (const DraDevice::Attribute& attribute : device.attributes) {
      json.key(attribute.name).beginInlineObject();
      switch (attribute.type) {
        case DraDevice::kString:
          json.key("string").value(attribute.text);
          break;
        case DraDevice::kVersion:
          json.key("version").value(attribute.text);
          break;
        case DraDevice::kInt:
          json.key("int").value(static_cast<uint64_t>(std::max<int64_t>(0, attribute.number)));
          break;
        case DraDevice::kBool:
          json.key("bool").value(attribute.number != 0);
          break;
      }
      json.endInlineObject();
    }
    json.endObject();
    if (!device.memory.empty()) {
      json.key("capacity").beginObject().key("memory").beginInlineObject();
      json.key("value").value(device.memory).endInlineObject().endObject();
    }
    json.endObject();
  }

  void noteMissing() {
    if (root_missing_)
      notes_.emplace_back(
          "resource.kubernetes.io/pcieRoot is left out where only /sys tells it (--root, or run it on the "
          "node)");
    if (rails_counted_)
      notes_.emplace_back("rail counts the NICs in the order in which GPUs use them: no NIC says its rail");
    if (options_.driver.empty())
      notes_.emplace_back(std::string("the driver is called ") + kDefaultDriver +
                          "; --driver=DOMAIN gives it a domain of yours");
  }

  const Graph& graph_;
  const HostView& host_;
  const ExportOptions& options_;
  std::vector<std::string> notes_;
  std::vector<DraDevice> devices_;
  std::set<std::string> names_;
  bool root_missing_ = false;
  bool rails_counted_ = false;
};

}  // namespace

Exported exportDra(const Machine& machine, const ExportOptions& given) {
  ExportOptions options = given;
  // The kubelet gives a node its host's name in lower case.
  options.node = lowerCase(options.node);
  if (!isDnsName(options.node))
    return Error{"'" + commentText(options.node) +
                     "' is no name of a node of Kubernetes (at most 253 lower-case letters, digits, '-' "
                     "and '.', and 63 between two dots); --node=NAME says it",
                 Code::kInvalidArgument};
  const std::string driver = options.driver.empty() ? kDefaultDriver : options.driver;
  if (!isDnsName(driver) || driver.size() > kMostDriverName)
    return Error{"--driver: '" + commentText(driver) + "' is no domain of at most 63 lower-case characters",
                 Code::kInvalidArgument};
  const auto host = hostView(machine);
  if (!host.ok()) return host.failure();
  return DraWriter(machine, *host, options).write(driver);
}

}  // namespace railwise::topo
