// railwise device: the software verbs device, for any program.
#include <array>
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

}  // namespace railwise::cli
