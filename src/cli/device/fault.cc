// railwise device fault: rules of the fault injector, and the log of what they did.
#include <poll.h>

#include <cstdio>
#include <ctime>

#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "cli/device/machine.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "softdev/config/fault_names.h"
#include "softdev/control/control.h"
#include "softdev/faults/faults.h"

namespace railwise::cli {
namespace {

using softdev::FaultLogEntry;
using softdev::FaultStatus;

constexpr const char* kDeviceFaultHelp =
    "usage: railwise device fault add RULE\n"
    "       railwise device fault list | remove ID | clear | log [--follow]\n\n"
    "Makes software devices fail on demand. A RULE is words:\n"
    "  which   host=NAME device=NAME port=N peer=HOST peer_device=NAME process=PID qp=NUMBER,\n"
    "          names may end with *\n"
    "  what    opcode=OP[+OP]  write, write_imm, read, send, send_imm, atomic, any (default), or recv\n"
    "          verb=VERB[+VERB]  reg_mr, create_qp, modify_qp, post_send, poll_cq ...\n"
    "  when    nth=N every=N count=N after=BYTES probability=P seed=S   default: every time\n"
    "  action  one of status=NAME drop[=N] rnr[=N] delay=TIME errno=NAME stuck qp_fatal device_fatal\n"
    "          event=NAME port=down port=up gid=INDEX=ADDRESS speed=MBPS kill[=peer] place=adversarial\n"
    "Example: railwise device fault add device=mlx5_0 opcode=write nth=100 status=rem_access_err\n\n"
    "The same rules stand in a configuration behind the word `fault`. docs/software-device.md explains "
    "all.\n\n"
    "Exit status: 0 all right, 1 no process is there or no such rule, 2 a mistake on the command line.\n\n";

struct Request {
  DeviceFabricOptions options;
  bool follow = false;
  int after = 0;
  std::vector<std::string> words;  // the words after the subcommand
  softdev::FaultRule rule{};       // the rule of `add`
  bool json() const { return options.json; }
};

const char* stateName(const FaultStatus& rule) {
  return rule.state == softdev::FaultState::kArmed ? "armed" : "spent";
}

// Parses the words of `add` as a rule. False: the reason was reported to the user.
bool parseRule(Request& request) {
  std::string text;
  for (const std::string& word : request.words) text += word + " ";
  const auto rule = softdev::parseFaultRule(text);
  if (!rule.ok()) {
    say("device fault: %s", rule.error().c_str());
    return false;
  }
  request.rule = *rule;
  return true;
}

int add(softdev::Fabric& fabric, const Request& request) {
  const softdev::FaultRule& rule = request.rule;
  auto id = softdev::addFault(fabric, rule);
  if (!id.ok())
    return leave(kExitFailed, "device fault: no room for another rule (at most %u): remove one",
                 softdev::kMaxFaultRules);
  if (request.json()) {
    JsonWriter json;
    json.beginObject()
        .key("id")
        .value(uint64_t{*id})
        .key("rule")
        .value(softdev::faultRuleText(rule))
        .endObject();
    std::printf("%s\n", json.text().c_str());
  } else {
    std::printf("%u  %s\n", *id, softdev::faultRuleText(rule).c_str());
  }
  return kExitOk;
}

int list(softdev::Fabric& fabric, const Request& request) {
  const auto rules = softdev::listFaults(fabric);
  if (request.json()) {
    JsonWriter json;
    json.objects(rules, [&](const FaultStatus& rule) {
      json.key("id").value(uint64_t{rule.id});
      json.key("state").value(stateName(rule));
      json.key("configured").value(rule.configured);
      json.key("matches").value(rule.matches);
      json.key("hits").value(rule.hits);
      json.key("rule").value(softdev::faultRuleText(rule.rule));
    });
    std::printf("%s\n", json.text().c_str());
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {{"id", "state", "matches", "hits", "rule"}};
  for (const FaultStatus& rule : rules)
    rows.push_back({std::to_string(rule.id), stateName(rule), std::to_string(rule.matches),
                    std::to_string(rule.hits), softdev::faultRuleText(rule.rule)});
  std::fputs(tableText(rows).c_str(), stdout);
  return kExitOk;
}

int remove(softdev::Fabric& fabric, const Request& request) {
  for (const std::string& word : request.words) {
    const auto id = parseInt(word, 1, INT32_MAX);
    if (!id)
      return leave(kExitUsage,
                   "device fault remove: '%s' is not the number of a rule (railwise device fault list)",
                   word.c_str());
    if (!softdev::removeFault(fabric, static_cast<uint32_t>(*id)))
      return leave(kExitFailed, "device fault remove: there is no rule %d (railwise device fault list)", *id);
  }
  return kExitOk;
}

int clear(softdev::Fabric& fabric, const Request&) {
  std::printf("%u rules removed\n", softdev::clearFaults(fabric));
  return kExitOk;
}

std::string operationOf(const FaultLogEntry& entry) {
  if (entry.operation != 0) return softdev::nameOfFault(softdev::faultOperations(), entry.operation);
  return entry.rule == 0 ? "command" : softdev::verbName(static_cast<softdev::Verb>(entry.verb));
}

std::string timeText(uint64_t ns) {
  const auto seconds = static_cast<time_t>(ns / 1'000'000'000);
  tm local{};
  char text[32];
  localtime_r(&seconds, &local);
  std::strftime(text, sizeof text, "%H:%M:%S", &local);
  return textOf("%s.%06u", text, static_cast<unsigned>(ns % 1'000'000'000 / 1000));
}

std::string logText(const FaultLogEntry& entry) {
  return textOf("%llu  %s  rule %u match %llu  %s/%s:%u  process %u  qp 0x%06x  wr_id %llu  %s  %s\n",
                static_cast<unsigned long long>(entry.sequence), timeText(entry.time_ns).c_str(), entry.rule,
                static_cast<unsigned long long>(entry.match), entry.host, entry.device, entry.port,
                entry.process, entry.qp, static_cast<unsigned long long>(entry.wr_id),
                operationOf(entry).c_str(), entry.action);
}

// Writes one object per line, because a log that is followed has no end.
std::string logJson(const FaultLogEntry& entry) {
  JsonWriter json;
  json.beginInlineObject();
  json.key("sequence").value(entry.sequence);
  json.key("time_ns").value(entry.time_ns);
  json.key("rule").value(uint64_t{entry.rule});
  json.key("match").value(entry.match);
  json.key("host").value(entry.host);
  json.key("device").value(entry.device);
  json.key("port").value(uint64_t{entry.port});
  json.key("process").value(uint64_t{entry.process});
  json.key("qp").value(uint64_t{entry.qp});
  json.key("wr_id").value(entry.wr_id);
  json.key("operation").value(operationOf(entry));
  json.key("action").value(entry.action);
  json.endInlineObject();
  return json.text();
}

int log(softdev::Fabric& fabric, const Request& request) {
  constexpr int kLookAgainMs = 50;
  uint64_t seen = static_cast<uint64_t>(request.after);
  for (bool more = true; more;) {
    // Asked before the log is read, so that no entry is missed.
    more = request.follow && softdev::otherProcesses(fabric) > 0;
    for (const FaultLogEntry& entry : softdev::readFaultLog(fabric, seen)) {
      std::fputs((request.json() ? logJson(entry) : logText(entry)).c_str(), stdout);
      seen = entry.sequence;
    }
    std::fflush(stdout);
    if (more) (void)poll(nullptr, 0, kLookAgainMs);
  }
  return kExitOk;
}

struct FaultSubcommand {
  const char* name;
  std::size_t min_words;
  std::size_t max_words;
  int (*run)(softdev::Fabric& fabric, const Request& request);
};

constexpr FaultSubcommand kSubcommands[] = {{"add", 1, 64, add},
                                            {"list", 0, 0, list},
                                            {"remove", 1, 64, remove},
                                            {"clear", 0, 0, clear},
                                            {"log", 0, 0, log}};

}  // namespace

int deviceFaultCommand(Args args) {
  Request request;
  std::vector<Option> table;
  addDeviceFabricOptions(table, request.options);
  table.push_back(
      flagOption(0, "follow", &request.follow, "log: go on until the last process has left the fabric"));
  table.push_back(
      intOption(0, "after", &request.after, 0, INT32_MAX, "log: only entries behind this number"));
  int status = kExitOk;
  const auto arguments = parseOrLeave("device fault", table, args, kDeviceFaultHelp, 65, &status);
  if (!arguments) return status;
  request.words = arguments->positional;
  if (request.words.empty())
    return leave(kExitUsage,
                 "device fault: which? add, list, remove, clear or log (railwise device fault --help)");
  const std::string name = request.words[0];
  request.words.erase(request.words.begin());
  for (const FaultSubcommand& sub : kSubcommands) {
    if (name != sub.name) continue;
    if (request.words.size() < sub.min_words || request.words.size() > sub.max_words)
      return leave(kExitUsage, "device fault %s: %s (railwise device fault --help)", sub.name,
                   sub.min_words > 0 ? "it needs an argument" : "it takes no arguments");
    if (sub.run == add && !parseRule(request)) return kExitUsage;
    const DeviceFabric fabric("device fault", request.options);
    return fabric ? sub.run(*fabric, request) : kExitFailed;
  }
  const std::vector<std::string> names = {"add", "list", "remove", "clear", "log"};
  const std::string near = suggestion(name, names);
  say("device fault: unknown '%s'%s", name.c_str(),
      near.empty() ? ": add, list, remove, clear or log" : near.c_str());
  return kExitUsage;
}

}  // namespace railwise::cli
