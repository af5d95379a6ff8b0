// railwise device: the software verbs device, for any program; which machines there are, and how a machine's
// text was understood.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "cli/device/machine.h"
#include "cli/device/tree.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/options/options.h"
#include "softdev/config/machines.h"
#include "softdev/config/values.h"

namespace railwise::cli {
namespace {

constexpr std::array kDeviceSubcommands = {
    Subcommand{"run", deviceRunCommand, "run a program on software devices instead of real ones"},
    Subcommand{"list", deviceListCommand, "the machines that Railwise brings"},
    Subcommand{"show", deviceShowCommand, "what a machine consists of: hosts, devices, GPUs"},
    Subcommand{"sysfs", deviceSysfsCommand, "write the /sys of a host into a folder"},
    Subcommand{"fault", deviceFaultCommand, "make running devices fail: rules, and the log of what they did"},
    Subcommand{"port", devicePortCommand,
               "the ports that are open: list them, take one down, change its GIDs"},
    Subcommand{"stats", deviceStatsCommand, "exact counts of what running processes do"},
};

constexpr const char* kListHelp =
    "usage: railwise device list\n\n"
    "Lists the machines that Railwise brings, for --machine NAME and RAILWISE_DEVICE=software:@NAME.\n\n";
constexpr const char* kSysfsHelp =
    "usage: railwise device sysfs [options] DIR\n\n"
    "Writes the /sys of a host of a software machine into DIR, for `railwise topo --root DIR` and for "
    "programs that take another root.\n"
    "Exit status: 0 all right, 1 nothing or not all was written, 2 a mistake on the command line.\n\n";

enum class ShowFormat { kTable, kJson };
constexpr std::array<Choice<ShowFormat>, 2> kShowFormats = {
    {{"table", ShowFormat::kTable}, {"json", ShowFormat::kJson}}};

constexpr const char* kDeviceShowHelp =
    "usage: railwise device show [options]\n\n"
    "Shows the hosts of a software machine with their devices, all that follows from the configuration "
    "filled in. The host that a process would play is marked with *. --format json has every field.\n"
    "Exit status: 0 all right, 1 it cannot be written, 2 a mistake on the command line or in the "
    "configuration.\n\n";

const char* linkName(const softdev::PortConfig& port) {
  if (port.iwarp) return "iwarp";
  return port.link_layer == IBV_LINK_LAYER_INFINIBAND ? "ib" : "roce";
}

int mtuBytes(const softdev::PortConfig& port) { return 128 << port.mtu; }

std::string guidText(uint64_t guid) { return textOf("0x%016llx", static_cast<unsigned long long>(guid)); }

std::string modes(const softdev::DeviceConfig& device) {
  std::string text;
  const auto add = [&](bool on, const std::string& name) {
    if (on) text += (text.empty() ? "" : ",") + name;
  };
  add(device.engine, "engine");
  add(device.paced, "pacing");
  add(device.adversarial, "adversarial");
  add(device.mover != softdev::MoverChoice::kAuto, std::string("mover=") + softdev::moverName(device.mover));
  add(device.gpudirect != softdev::GpuDirectChoice::kOff,
      std::string("gpudirect=") + softdev::gpuDirectName(device.gpudirect));
  return text.empty() ? "-" : text;
}

std::string numberOr(int number) { return number < 0 ? "-" : std::to_string(number); }
std::string textOr(const std::string& text) { return text.empty() ? "-" : text; }

void addRows(std::vector<TextRow>& rows, const softdev::HostConfig& host, bool chosen) {
  for (const softdev::DeviceConfig& device : host.devices) {
    const std::string pcie = device.pcie_mbps == 0 ? "-" : textOf("%g", device.pcie_mbps / 1000.0);
    for (uint32_t number = 1; number <= device.portCount(); ++number) {
      const softdev::PortConfig& port = *device.port(number);
      rows.push_back({(chosen ? "*" : "") + host.name, device.name, std::to_string(number), linkName(port),
                      textOf("%g", port.speed_mbps / 1000.0), port.active ? "active" : "down",
                      numberOr(port.rail), guidText(port.guid),
                      device.busid().empty() ? textOr(device.pci) : device.busid(), numberOr(device.numa),
                      pcie, textOr(device.pcie_link), modes(device)});
    }
  }
}

// For example "; 12 NVLinks: 4 to 0000:1b:00.0, 8 to 0000:05:00.0"; "" for a GPU without NVLinks.
std::string nvlinksText(const softdev::GpuConfig& gpu) {
  std::string text;
  for (const softdev::NvlinkConfig& link : gpu.nvlinks) {
    const bool hidden = link.target == softdev::kHiddenNvswitch;
    text += textOf("%s%u to %s", text.empty() ? "" : ", ", link.count,
                   hidden ? "NVSwitches that the host does not see" : link.target.c_str());
  }
  return text.empty() ? text : textOf("; %u NVLinks: ", gpu.nvlinkCount()) + text;
}

std::string machineTable(const softdev::MachineConfig& machine) {
  std::vector<TextRow> rows = {{"host", "device", "port", "link", "Gb/s", "state", "rail", "guid", "pci",
                                "numa", "PCIe Gb/s", "PCIe link", "modes"}};
  for (size_t i = 0; i < machine.hosts.size(); ++i) addRows(rows, machine.hosts[i], i == machine.chosen);
  std::string text = tableText(rows);
  text += "fabric " + machine.fabric + ", seed " + std::to_string(machine.seed);
  for (const softdev::HostConfig& host : machine.hosts) {
    if (!host.described) continue;
    text += textOf("\nhost %s: %zu devices, %zu GPUs, %zu NVSwitches, %u NUMA nodes, CPU %s",
                   host.name.c_str(), host.devices.size(), host.gpus.size(), host.nvswitches.size(),
                   host.numa_nodes, host.cpu.empty() ? "as this computer's" : host.cpu.c_str());
    for (const softdev::GpuConfig& gpu : host.gpus)
      text += textOf("\nGPU %s of %s: sm %u%s", gpu.busid().c_str(), host.name.c_str(), gpu.sm,
                     nvlinksText(gpu).c_str());
  }
  for (const std::string& fault : machine.faults) text += "\nfault " + fault;
  return text + "\n";
}

void writePci(JsonWriter& json, const softdev::PciConfig& function) {
  json.key("pci").known(function.pci);
  json.key("numa").known(function.numa);
  json.key("pcie_gen").value(uint64_t{function.pcie_gen});
  json.key("pcie_lanes").value(uint64_t{function.pcie_lanes});
  json.key("pcie_mbps").value(uint64_t{function.pcie_mbps});
}

void writePort(JsonWriter& json, const softdev::PortConfig& port, uint32_t number) {
  json.beginObject();
  json.key("port").value(uint64_t{number});
  json.key("link").value(linkName(port));
  json.key("speed_mbps").value(uint64_t{port.speed_mbps});
  json.key("active").value(port.active);
  json.key("mtu").value(mtuBytes(port));
  json.key("latency_ns").value(uint64_t{port.latency_ns});
  json.key("rail").known(port.rail);
  json.key("plane").known(port.plane);
  json.key("guid").value(guidText(port.guid));
  json.key("netdev").known(port.netdev);
  json.key("gids").beginArray();
  constexpr const char* kTypes[] = {"ib", "v1", "v2"};
  for (const softdev::Gid& gid : port.gids) {
    json.beginInlineObject();
    json.key("gid").value(softdev::sysGidText(gid.raw));
    json.key("type").value(kTypes[std::min<uint32_t>(gid.type, 2)]);
    json.endInlineObject();
  }
  json.endArray().endObject();
}

void writeDevice(JsonWriter& json, const softdev::DeviceConfig& device) {
  json.beginObject();
  json.key("name").value(device.name);
  json.key("guid").value(guidText(device.guid));
  json.key("system_guid").value(guidText(device.system_guid));
  writePci(json, device);
  json.key("pcie_link").known(device.pcie_link);
  json.key("board").value(device.board);
  json.key("hca_type").value(device.hca_type);
  json.key("max_qp").value(uint64_t{device.max_qp});
  json.key("max_sge").value(uint64_t{device.max_sge});
  json.key("max_cqe").value(uint64_t{device.max_cqe});
  json.key("max_inline").value(uint64_t{device.max_inline_bytes});
  json.key("max_msg").value(uint64_t{device.max_message_bytes});
  json.key("ece").value(device.ece);
  json.key("dmabuf").value(device.dmabuf);
  json.key("atomics").value(device.atomics);
  json.key("engine").value(device.engine);
  json.key("pacing").value(device.paced);
  json.key("adversarial").value(device.adversarial);
  json.key("mover").value(softdev::moverName(device.mover));
  json.key("gpudirect").value(softdev::gpuDirectName(device.gpudirect));
  json.key("ports").beginArray();
  for (uint32_t number = 1; number <= device.portCount(); ++number)
    writePort(json, *device.port(number), number);
  json.endArray().endObject();
}

void writeGpu(JsonWriter& json, const softdev::GpuConfig& gpu) {
  json.beginObject();
  writePci(json, gpu);
  json.key("sm").value(uint64_t{gpu.sm});
  json.key("nvlinks").inlineObjects(gpu.nvlinks, [&](const softdev::NvlinkConfig& link) {
    json.key("target").value(link.target);
    json.key("count").value(uint64_t{link.count});
  });
  json.endObject();
}

std::string jsonText(const DeviceMachine& machine) {
  JsonWriter json;
  json.beginObject();
  json.key("configuration").value(machine.text);
  json.key("fabric").value(machine.config.fabric);
  json.key("seed").value(machine.config.seed);
  json.key("faults").array(machine.config.faults);
  json.key("played").value(machine.config.host().name);
  json.key("hosts").objects(machine.config.hosts, [&](const softdev::HostConfig& host) {
    json.key("name").value(host.name);
    json.key("cpu").known(host.cpu);
    json.key("numa_nodes").value(uint64_t{host.numa_nodes});
    json.key("cores").value(uint64_t{host.cores});
    json.key("devices").beginArray();
    for (const softdev::DeviceConfig& device : host.devices) writeDevice(json, device);
    json.endArray();
    json.key("gpus").beginArray();
    for (const softdev::GpuConfig& gpu : host.gpus) writeGpu(json, gpu);
    json.endArray();
    json.key("nvswitches").objects(host.nvswitches, [&](const softdev::PciConfig& nvswitch) {
      writePci(json, nvswitch);
    });
  });
  json.endObject();
  return json.text();
}

}  // namespace

int deviceListCommand(Args args) {
  Output output;
  std::vector<Option> table;
  addOutputOptions(table, output);
  int status = kExitOk;
  if (!parseOrLeave("device list", table, args, kListHelp, 0, &status)) return status;
  std::string text;
  JsonWriter json;
  json.beginArray();
  for (const softdev::ShippedMachine& machine : softdev::shippedMachines()) {
    text += wrappedText(machine.title(), textOf("%-12s ", machine.name));
    json.beginInlineObject().key("name").value(machine.name).key("title").value(machine.title());
    json.endInlineObject();
  }
  json.endArray();
  return writeOutput("device list", output, output.json() ? json.text() : text);
}

int deviceSysfsCommand(Args args) {
  DeviceMachineOptions options;
  std::vector<Option> table;
  addDeviceMachineOptions(table, options);
  int status = kExitOk;
  const auto arguments = parseOrLeave("device sysfs", table, args, kSysfsHelp, 1, &status);
  if (!arguments) return status;
  if (arguments->positional.empty())
    return leave(kExitUsage, "device sysfs: into which folder? (railwise device sysfs --help)");
  const auto machine = openDeviceMachine("device sysfs", options);
  if (!machine) return kExitUsage;
  const auto tree = deviceTree(machine->config.host());
  if (const auto written = writeTree(tree, arguments->positional[0]); !written.ok())
    return leave(kExitFailed, "device sysfs: %s", written.error().c_str());
  say("device sysfs: host %s, %zu entries in %s", machine->config.host().name.c_str(), tree.items().size(),
      arguments->positional[0].c_str());
  return kExitOk;
}

int deviceCommand(Args args) {
  return runSubcommand("device", kDeviceSubcommands, "railwise device SUBCOMMAND --help lists its options.",
                       args);
}

int deviceShowCommand(Args args) {
  DeviceMachineOptions options;
  ShowFormat format = ShowFormat::kTable;
  std::string output;
  std::vector<Option> table = {
      choiceOption<ShowFormat>('f', "format", kShowFormats, &format, "table (default) or json"),
      textOption('o', "output", "FILE", &output, "write to FILE instead of stdout")};
  addDeviceMachineOptions(table, options);
  int status = kExitOk;
  if (!parseOrLeave("device show", table, args, kDeviceShowHelp, 0, &status)) return status;
  const auto machine = openDeviceMachine("device show", options);
  if (!machine) return kExitUsage;
  return writeOutput("device show", output,
                     format == ShowFormat::kJson ? jsonText(*machine) : machineTable(machine->config));
}

}  // namespace railwise::cli
