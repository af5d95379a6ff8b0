#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "softdev/config/fault_names.h"
#include "softdev/config/fault_rule.h"
#include "softdev/config/fault_words.h"

namespace railwise::softdev {
namespace {

constexpr std::string_view kSeparators = " ,\t\r\n";

bool onlyForWork(FaultAction action) {
  return action == FaultAction::kStatus || action == FaultAction::kDrop || action == FaultAction::kRnr ||
         action == FaultAction::kStuck || action == FaultAction::kQpFatal || action == FaultAction::kPlace ||
         action == FaultAction::kKillPeer;
}

bool forReceive(const FaultRule& rule) {
  return rule.action != FaultAction::kDrop && rule.action != FaultAction::kRnr &&
         rule.action != FaultAction::kDelay && rule.action != FaultAction::kStuck &&
         rule.action != FaultAction::kPlace;
}

// A status that a receiver finds at its own end.
bool localStatus(uint32_t status) {
  return status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_QP_OP_ERR ||
         status == IBV_WC_LOC_ACCESS_ERR || status == IBV_WC_GENERAL_ERR || status == IBV_WC_FATAL_ERR;
}

// What no word alone can get wrong.
bool checkWhole(FaultRule* rule, std::string* error) {
  const std::string action = faultActionText(*rule);
  if (rule->action == FaultAction::kNone) {
    *error = "fault rule: no action; one of " + knownFaultActions();
    return false;
  }
  if (rule->operations != 0 && rule->verbs != 0)
    return refuseFault(error, "verb", "a rule is for opcodes or for verbs, not for both");
  if (rule->action == FaultAction::kErrno && rule->verbs == 0)
    return refuseFault(error, action, "needs verb=, the call that fails");
  if (rule->verbs != 0 && onlyForWork(rule->action))
    return refuseFault(error, action, "is for opcode=, not for verb=");
  if (rule->verbs != 0 && rule->peer[0] != 0)
    return refuseFault(error, "peer", "is for opcode=, not for verb=");
  if (rule->verbs == 0 && rule->operations == 0) rule->operations = kFaultAnySend;
  if ((rule->operations & kFaultReceive) != 0) {
    if ((rule->operations & kFaultAnySend) != 0)
      return refuseFault(error, "opcode", "recv stands alone: its rule is for the receiving end");
    if (!forReceive(*rule)) return refuseFault(error, action, "is not for opcode=recv");
    if (rule->action == FaultAction::kStatus && !localStatus(rule->code))
      return refuseFault(error, action,
                         "a receive fails with a local status: loc_len_err, loc_prot_err, loc_qp_op_err ...");
  }
  if (rule->seed != 0 && rule->probability == 0) return refuseFault(error, "seed", "needs probability=");
  return true;
}

void add(std::string& text, const std::string& word) { text += (text.empty() ? "" : " ") + word; }

void addSet(std::string& text, const char* key, std::span<const FaultName> names, uint32_t set, bool bits) {
  std::string list;
  for (const FaultName& name : names) {
    if ((set & (bits ? name.value : 1U << name.value)) != 0)
      list += (list.empty() ? "" : "+") + std::string(name.name);
  }
  add(text, std::string(key) + "=" + list);
}

void addNumber(std::string& text, const char* key, uint64_t value) {
  if (value != 0) add(text, std::string(key) + "=" + std::to_string(value));
}

std::string timeText(uint64_t ns) {
  constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  size_t unit = 0;
  for (; unit + 1 < std::size(kUnits) && ns % 1000 == 0; ++unit) ns /= 1000;
  return std::to_string(ns) + kUnits[unit];
}

std::string gidText(const FaultRule& rule) {
  char address[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, rule.gid, address, sizeof address);
  std::string text = "gid=" + std::to_string(rule.gid_index) + "=" + address;
  constexpr const char* kTypes[] = {"/ib", "/v1", "/v2"};
  return rule.gid_type < std::size(kTypes) ? text + kTypes[rule.gid_type] : text;
}

std::string timesText(const char* name, uint64_t times) {
  return times == 0 ? name : std::string(name) + "=" + std::to_string(times);
}

}  // namespace

bool parseFaultRule(std::string_view text, FaultRule* rule, std::string* error) {
  *rule = {};
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
    if (text.empty()) return checkWhole(rule, error);
    const size_t end = std::min(text.find_first_of(kSeparators), text.size());
    if (!parseFaultWord(text.substr(0, end), rule, error)) return false;
    text.remove_prefix(end);
  }
}

std::string faultActionText(const FaultRule& rule) {
  switch (rule.action) {
    case FaultAction::kNone:
      return "";
    case FaultAction::kStatus:
      return std::string("status=") + nameOfFault(faultStatuses(), rule.code);
    case FaultAction::kDrop:
      return timesText("drop", rule.amount);
    case FaultAction::kRnr:
      return timesText("rnr", rule.amount);
    case FaultAction::kDelay:
      return "delay=" + timeText(rule.amount);
    case FaultAction::kErrno:
      return std::string("errno=") + nameOfFault(faultErrnos(), rule.code);
    case FaultAction::kStuck:
      return "stuck";
    case FaultAction::kQpFatal:
      return "qp_fatal";
    case FaultAction::kDeviceFatal:
      return "device_fatal";
    case FaultAction::kEvent:
      return std::string("event=") + nameOfFault(faultEvents(), rule.code);
    case FaultAction::kPortDown:
      return "port=down";
    case FaultAction::kPortUp:
      return "port=up";
    case FaultAction::kGid:
      return gidText(rule);
    case FaultAction::kSpeed:
      return "speed=" + std::to_string(rule.code);
    case FaultAction::kKillSelf:
      return "kill=self";
    case FaultAction::kKillPeer:
      return "kill=peer";
    case FaultAction::kPlace:
      return "place=adversarial";
  }
  return "";
}

std::string faultRuleText(const FaultRule& rule) {
  std::string text;
  if (rule.host[0] != 0) add(text, std::string("host=") + rule.host);
  if (rule.device[0] != 0) add(text, std::string("device=") + rule.device);
  addNumber(text, "port", rule.port);
  if (rule.peer[0] != 0) add(text, std::string("peer=") + rule.peer);
  addNumber(text, "process", rule.process);
  addNumber(text, "qp", rule.qp);
  if (rule.operations == kFaultAnySend) {
    add(text, "opcode=any");
  } else if (rule.operations != 0) {
    addSet(text, "opcode", faultOperations(), rule.operations, true);
  }
  if (rule.verbs != 0) addSet(text, "verb", faultVerbs(), rule.verbs, false);
  addNumber(text, "after", rule.after_bytes);
  addNumber(text, "nth", rule.nth);
  addNumber(text, "every", rule.every);
  if (rule.probability > 0) {
    char number[40];
    const auto end = std::to_chars(number, number + sizeof number, rule.probability);
    add(text, "probability=" + std::string(number, end.ptr));
  }
  addNumber(text, "seed", rule.seed);
  addNumber(text, "count", rule.count);
  add(text, faultActionText(rule));
  return text;
}

}  // namespace railwise::softdev
