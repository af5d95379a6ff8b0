// railwise devices: prints what a network plugin reports to NCCL about its devices.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "cli/device/machine.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/plugin/plugin_loader.h"

namespace railwise::cli {
namespace {

struct DevicesOptions {
  PluginOptions plugin;
  bool json = false;
  std::string machine;
  std::string host;
};

std::vector<Option> optionTable(DevicesOptions& fields) {
  std::vector<Option> options = {jsonOption(&fields.json)};
  addPluginOptions(options, fields.plugin);
  options.push_back(textOption('m', "machine", "NAME|FILE", &fields.machine,
                               "the devices of a software machine (railwise device list)"));
  options.push_back(intOption('T', "timeout", &fields.plugin.start_limit_s, 1, 3600,
                              "the longest that the plugin may take to start, in seconds (default: 30)"));
  options.push_back(
      textOption('H', "host", "NAME", &fields.host, "which host of --machine (default: its first)"));
  return options;
}

constexpr const char* kDevicesHelp =
    "usage: railwise devices [options]\n\n"
    "Lists the devices of a net plugin with the properties that NCCL gets from it. A GUID is written as in "
    "NCCL's topology; ibstat shows its bytes in reverse.\n\n";
constexpr const char* kDevicesExitHelp =
    "\nExit status: 0 all right, 1 no plugin or no device, 2 a mistake on the command line.\n";

std::string idText(int id) { return id == NCCL_NET_ID_UNDEF ? "-" : std::to_string(id); }

std::string memoryText(int ptr_support) {
  std::string text;
  const auto add = [&](int bit, const char* name) {
    if ((ptr_support & bit) != 0) text += (text.empty() ? "" : ",") + std::string(name);
  };
  add(NCCL_PTR_HOST, "host");
  add(NCCL_PTR_CUDA, "cuda");
  add(NCCL_PTR_DMABUF, "dmabuf");
  return text.empty() ? "-" : text;
}

// What is equal for all devices stands below the table, which so fits 80 columns.
void printTable(const std::vector<NetProperties>& devices) {
  std::vector<TextRow> rows = {{"dev", "name", "Gb/s", "port", "guid", "rail", "plane"}};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const NetProperties& device = devices[i];
    rows.push_back({std::to_string(i), device.name, textOf("%g", device.speed_mbps / 1000.0),
                    std::to_string(device.port),
                    textOf("0x%016llx", static_cast<unsigned long long>(device.guid)), idText(device.rail),
                    idText(device.plane)});
  }
  std::fputs(tableText(rows).c_str(), stdout);
}

// Prints what `textOf` says of each device, devices of one text together.
template <typename TextOf>
void printOfEach(const char* label, const std::vector<NetProperties>& devices, const TextOf& text_of) {
  std::vector<std::pair<std::string, std::string>> groups;  // text, names
  for (const NetProperties& device : devices) {
    const std::string text = text_of(device);
    if (text.empty()) continue;
    const auto same = std::ranges::find_if(groups, [&](const auto& group) { return group.first == text; });
    if (same == groups.end()) {
      groups.emplace_back(text, device.name);
    } else {
      same->second += " " + device.name;
    }
  }
  for (const auto& [text, names] : groups) {
    const std::string of = groups.size() == 1 ? "" : names + ": ";
    std::fputs(wrappedText(of + text, std::string(label) + ": ", "  ").c_str(), stdout);
  }
}

// Finds what the plugin logged at its start about a device and GPU memory. "": it logged nothing, as other
// plugins do. Railwise's text is "NAME: GPUDirect: HOW" (src/net/device/device.cc).
constexpr char kGpuDirectMark[] = ": GPUDirect: ";

std::string gpuDirectOf(const std::string& device) {
  const std::string beginning = device + kGpuDirectMark;
  for (const std::string& line : keptPluginLines()) {
    const std::size_t at = line.find(beginning);
    // The text follows the plugin's name, "NET/Railwise : ".
    if (at != std::string::npos && (at == 0 || line[at - 1] == ' '))
      return line.substr(at + beginning.size());
  }
  return {};
}

void printDetails(const std::vector<NetProperties>& devices) {
  for (const NetProperties& device : devices) {
    if (!device.pci_path.empty()) std::printf("%s: %s\n", device.name.c_str(), device.pci_path.c_str());
  }
  printOfEach("memory", devices, [](const NetProperties& device) { return memoryText(device.ptr_support); });
  printOfEach("limits", devices, [](const NetProperties& device) {
    return textOf("%d receives together, %d connections, latency %g us", device.max_recvs, device.max_comms,
                  static_cast<double>(device.latency_us));
  });
  printOfEach("GPUDirect", devices, [](const NetProperties& device) { return gpuDirectOf(device.name); });
}

void printJson(const LoadedPlugin& plugin, const std::vector<NetProperties>& devices) {
  JsonWriter json;
  json.beginObject();
  json.key("plugin").value(plugin.path);
  json.key("plugin_name").value(plugin.api->name());
  json.key("api").value("v" + std::to_string(plugin.api->version()));
  json.key("devices").beginArray();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const NetProperties& device = devices[i];
    json.beginObject();
    json.key("index").value(static_cast<int>(i));
    json.key("name").value(device.name);
    json.key("pci_path").known(device.pci_path);
    json.key("guid").value(textOf("0x%016llx", static_cast<unsigned long long>(device.guid)));
    json.key("speed_mbps").value(device.speed_mbps);
    json.key("port").value(device.port);
    json.key("latency_us").value(static_cast<double>(device.latency_us));
    json.key("host_memory").value((device.ptr_support & NCCL_PTR_HOST) != 0);
    json.key("cuda_memory").value((device.ptr_support & NCCL_PTR_CUDA) != 0);
    json.key("dmabuf_memory").value((device.ptr_support & NCCL_PTR_DMABUF) != 0);
    json.key("gpu_direct").known(gpuDirectOf(device.name));
    json.key("max_recvs").value(device.max_recvs);
    json.key("max_comms").value(device.max_comms);
    json.key("rail").known(device.rail);
    json.key("plane").known(device.plane);
    json.endObject();
  }
  json.endArray().endObject();
  std::fputs(json.text().c_str(), stdout);
}

int list(const DevicesOptions& options, Args args) {
  useOwnFabric("devices" + std::to_string(getpid()));
  const auto fallback = needsSoftwareDevice(options.plugin);
  if (!fallback.ok()) return leave(kExitFailed, "%s", fallback.error().c_str());
  if (*fallback) say("%s", kSoftwareFallbackText);
  applyDevice(options.plugin, *fallback);
  auto plugin = loadPlugin(options.plugin);
  if (!plugin.ok())
    return leave(plugin.failure().code == Code::kInvalidUsage ? kExitUsage : kExitFailed, "%s",
                 plugin.error().c_str());
  NetApi& api = *plugin->api;
  const auto drop_in = *fallback ? Outcome<bool>(false) : needsDropIn(options.plugin, api.name());
  if (drop_in.ok() && *drop_in) return runBehindDropIn("devices", options.plugin, args);
  if (const auto tried = drop_in.ok() ? startsByItself(options.plugin) : drop_in; !tried.ok())
    return leave(kExitFailed, "%s", tried.error().c_str());
  keepPluginLines(kGpuDirectMark);
  const auto count = startPlugin(api, 1);
  if (!count.ok()) return leave(kExitFailed, "%s", count.error().c_str());
  std::vector<NetProperties> devices(static_cast<std::size_t>(*count));
  for (int i = 0; i < *count; ++i) {
    const ncclResult_t result = api.getProperties(i, &devices[static_cast<std::size_t>(i)]);
    if (result == ncclSuccess) continue;
    return leave(kExitFailed, "NCCL's init would fail: getProperties(%d) of the plugin failed: %s", i,
                 resultText(result).c_str());
  }
  if (options.json) {
    printJson(*plugin, devices);
  } else {
    printTable(devices);
    printDetails(devices);
  }
  return api.finalize() == ncclSuccess ? kExitOk : kExitFailed;
}

}  // namespace

int devicesCommand(Args args) {
  DevicesOptions options;
  int status = kExitOk;
  if (!parseOrLeave("devices", optionTable(options), args, kDevicesHelp, 0, &status, kDevicesExitHelp))
    return status;
  if (!options.host.empty() && options.machine.empty())
    return leave(kExitUsage, "devices: --host is a host of --machine");
  if (!options.machine.empty() && options.plugin.device != "auto")
    return leave(kExitUsage, "devices: --machine and --device name two devices: give one of them");
  if (!playMachine("devices", options.machine, options.host)) return kExitUsage;
  setPluginLog(options.plugin.verbose ? PluginLog::kInfo : PluginLog::kWarn);
  return list(options, args);
}

}  // namespace railwise::cli
