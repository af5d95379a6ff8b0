// railwise device port and stats: the ports of a fabric with what can happen to them, and the counters of
// every process on it.
#include <array>
#include <cstdio>
#include <fstream>

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

using softdev::CountsBy;
using softdev::CountsRow;

constexpr const char* kDeviceStatsHelp =
    "usage: railwise device stats [options]\n\n"
    "Exact counts of what the processes on a fabric have done with their software devices since they opened "
    "them. Completions and polls belong to completion queues: by port and by qp they are left out.\n"
    "Exit status: 0 all right, 1 no process is there, 2 a mistake on the command line.\n\n";

constexpr std::array<Choice<CountsBy>, 4> kBy = {{{"process", CountsBy::kProcess},
                                                  {"device", CountsBy::kDevice},
                                                  {"port", CountsBy::kPort},
                                                  {"qp", CountsBy::kQp}}};

std::string commandOf(uint32_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

bool hasPolls(CountsBy by) { return by == CountsBy::kProcess || by == CountsBy::kDevice; }

bool isPoll(const softdev::NamedCount& count) {
  return count.field == &softdev::Counters::poll_calls || count.field == &softdev::Counters::empty_polls ||
         count.field == &softdev::Counters::completions;
}

// The columns that identify a row, as names and values.
std::vector<std::pair<const char*, std::string>> labels(const CountsRow& row, CountsBy by) {
  const std::string process = std::to_string(row.process);
  const std::string port = std::to_string(row.port);
  switch (by) {
    case CountsBy::kProcess:
      return {{"process", process}, {"command", commandOf(row.process)}, {"host", row.host}};
    case CountsBy::kDevice:
      return {{"host", row.host}, {"device", row.device}};
    case CountsBy::kPort:
      return {{"host", row.host}, {"device", row.device}, {"port", port}};
    case CountsBy::kQp:
      break;
  }
  return {{"host", row.host},
          {"device", row.device},
          {"port", port},
          {"process", process},
          {"qp", textOf("0x%06x", row.qp)},
          {"peer", row.peer_qp != 0 ? textOf("0x%06x", row.peer_qp) : "-"},
          {"state", row.state}};
}

std::string textTable(const std::vector<CountsRow>& rows, CountsBy by) {
  std::vector<std::vector<std::string>> table;
  std::size_t right_from = 0;
  for (const CountsRow& row : rows) {
    const auto names = labels(row, by);
    right_from = names.size();
    if (table.empty()) {
      auto& head = table.emplace_back();
      for (const auto& [name, value] : names) head.emplace_back(name);
      if (by != CountsBy::kQp) head.emplace_back("qps");
      for (const auto& count : softdev::kNamedCounts) {
        if (!isPoll(count) || hasPolls(by)) head.emplace_back(count.name);
      }
    }
    auto& line = table.emplace_back();
    for (const auto& [name, value] : names) line.push_back(value);
    if (by != CountsBy::kQp) line.push_back(std::to_string(row.queue_pairs));
    for (const auto& count : softdev::kNamedCounts) {
      if (!isPoll(count) || hasPolls(by)) line.push_back(std::to_string(row.counts.*count.field));
    }
  }
  return tableText(table, right_from);
}

std::string jsonText(const std::vector<CountsRow>& rows, CountsBy by) {
  JsonWriter json;
  json.objects(rows, [&](const CountsRow& row) {
    json.key("host").value(row.host);
    if (by != CountsBy::kProcess) json.key("device").value(row.device);
    if (row.port != 0) json.key("port").value(uint64_t{row.port});
    if (row.process != 0) {
      json.key("process").value(uint64_t{row.process});
      json.key("command").value(commandOf(row.process));
    }
    if (by == CountsBy::kQp) {
      json.key("qp").value(uint64_t{row.qp});
      json.key("peer_qp").value(uint64_t{row.peer_qp});
      json.key("state").value(row.state);
    } else {
      json.key("queue_pairs").value(row.queue_pairs);
    }
    for (const auto& count : softdev::kNamedCounts) {
      if (!isPoll(count) || hasPolls(by)) json.key(count.name).value(row.counts.*count.field);
    }
  });
  return json.text();
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

int deviceStatsCommand(Args args) {
  DeviceFabricOptions options;
  CountsBy by = CountsBy::kProcess;
  std::vector<Option> table;
  addDeviceFabricOptions(table, options);
  table.push_back(
      choiceOption<CountsBy>('b', "by", kBy, &by, "a line for each process (default), device, port or qp"));
  int status = kExitOk;
  if (!parseOrLeave("device stats", table, args, kDeviceStatsHelp, 0, &status)) return status;
  const DeviceFabric fabric("device stats", options);
  if (!fabric) return kExitFailed;
  const auto rows = softdev::listCounts(*fabric, by);
  const bool json = options.json;
  if (rows.empty() && !json) say("device stats: nothing is open on the fabric that has counts by that");
  std::fputs((json ? jsonText(rows, by) : textTable(rows, by)).c_str(), stdout);
  return kExitOk;
}

}  // namespace railwise::cli
