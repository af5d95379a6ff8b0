// railwise device port: the ports of a fabric, and what can happen to them.
#include <cstdio>

#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "cli/device/machine.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "softdev/control/control.h"

namespace railwise::cli {
namespace {

using softdev::PortInfo;

constexpr const char* kDevicePortHelp =
    "usage: railwise device port [options]\n"
    "       railwise device port [HOST/]DEVICE[:PORT] CHANGE...\n\n"
    "Lists the ports that processes on a fabric have open, or changes one (all of the device without :PORT), "
    "while they use it. HOST and DEVICE may end with *, as in fault rules: 'A/*:1'. A change is one of\n"
    "  down, up                  the link; connections over it retry, and go on when it is up in time\n"
    "  speed=MBPS                what the port says, and keeps to with pacing\n"
    "  gid=INDEX=ADDRESS[/TYPE]  an entry of the GID table; :: empties it\n"
    "  fatal                     the whole device fails, until it is opened again\n"
    "  event=NAME                an asynchronous event alone: lid_change, sm_change ...\n"
    "Exit status: 0 all right, 1 no process is there, 2 a mistake on the command line.\n\n";

std::string gidList(const PortInfo& port) {
  std::string text;
  for (std::size_t i = 0; i < port.gids.size(); ++i) {
    if (!port.gids[i].empty()) text += (text.empty() ? "" : " ") + std::to_string(i) + "=" + port.gids[i];
  }
  return text;
}

std::string textTable(const std::vector<PortInfo>& ports) {
  std::vector<std::vector<std::string>> rows = {
      {"host", "device", "port", "link", "state", "Gb/s", "lid", "open", "gids"}};
  for (const PortInfo& port : ports) {
    rows.push_back({port.host, port.device, std::to_string(port.number), port.infiniband ? "ib" : "roce",
                    port.active ? "active" : "down", textOf("%g", port.speed_mbps / 1000.0),
                    port.lid != 0 ? std::to_string(port.lid) : "-", std::to_string(port.contexts),
                    gidList(port)});
  }
  return tableText(rows);
}

std::string jsonText(const std::vector<PortInfo>& ports) {
  JsonWriter json;
  json.objects(ports, [&](const PortInfo& port) {
    json.key("host").value(port.host);
    json.key("device").value(port.device);
    json.key("port").value(uint64_t{port.number});
    json.key("link").value(port.infiniband ? "ib" : "roce");
    json.key("active").value(port.active);
    json.key("speed_mbps").value(uint64_t{port.speed_mbps});
    json.key("lid").value(uint64_t{port.lid});
    json.key("contexts").value(uint64_t{port.contexts});
    json.key("gids").beginRow();
    for (const std::string& gid : port.gids) gid.empty() ? json.null() : json.value(gid);
    json.endRow();
  });
  return json.text();
}

// For example "2 ports changed: A/mlx5_0:1, A/mlx5_1:1".
std::string changedText(const std::vector<PortInfo>& ports) {
  std::string text =
      std::to_string(ports.size()) + (ports.size() == 1 ? " port changed: " : " ports changed: ");
  for (const PortInfo& port : ports) {
    if (&port != &ports.front()) text += ", ";
    text += port.host + "/" + port.device + ":" + std::to_string(port.number);
  }
  return text + "\n";
}

}  // namespace

int devicePortCommand(Args args) {
  DeviceFabricOptions options;
  std::vector<Option> table;
  addDeviceFabricOptions(table, options);
  int status = kExitOk;
  const auto arguments = parseOrLeave("device port", table, args, kDevicePortHelp, 64, &status);
  if (!arguments) return status;
  const auto& words = arguments->positional;
  if (words.size() == 1)
    return leave(
        kExitUsage,
        "device port: what shall happen to %s? up, down, speed=MBPS, gid=INDEX=ADDRESS, fatal or event=NAME",
        words[0].c_str());
  const DeviceFabric fabric("device port", options);
  if (!fabric) return kExitFailed;
  if (words.empty()) {
    const auto ports = softdev::listPorts(*fabric);
    std::fputs((options.json ? jsonText(ports) : textTable(ports)).c_str(), stdout);
    return kExitOk;
  }
  const auto ports = softdev::findPorts(*fabric, words[0]);
  Outcome<void> done = ports.ok() ? Outcome<void>() : ports.failure();
  for (std::size_t i = 1; i < words.size() && done.ok(); ++i) {
    for (const PortInfo& port : *ports) {
      if (done = softdev::changePort(*fabric, port, words[i]); !done.ok()) break;
    }
  }
  if (!done.ok()) return leave(kExitUsage, "device port: %s", done.error().c_str());
  std::fputs(changedText(*ports).c_str(), stdout);
  return kExitOk;
}

}  // namespace railwise::cli
