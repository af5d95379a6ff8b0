#include "softdev/config/fault_rule.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "softdev/config/fault_names.h"
#include "softdev/config/values.h"

namespace railwise::softdev {
namespace {

bool parseWhole(std::string_view text, uint64_t low, uint64_t high, uint64_t* number, int base = 10) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return false;
  *number = value;
  return value >= low && value <= high;
}

bool parse32(std::string_view text, uint32_t low, uint32_t high, uint32_t* number) {
  const bool hex = text.starts_with("0x");
  uint64_t value = 0;
  if (!parseWhole(text.substr(hex ? 2 : 0), low, high, &value, hex ? 16 : 10)) return false;
  *number = static_cast<uint32_t>(value);
  return true;
}

struct Unit {
  const char* name;
  uint64_t factor;
};
constexpr Unit kTimes[] = {{"", 1}, {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};
constexpr Unit kSizes[] = {{"", 1}, {"k", 1U << 10}, {"m", 1U << 20}, {"g", 1U << 30}};

template <size_t size>
bool parseUnits(std::string_view text, const Unit (&units)[size], uint64_t high, uint64_t* number) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  for (const Unit& unit : units) {
    if (text.substr(digits) != unit.name) continue;
    if (!parseWhole(text.substr(0, digits), 1, high / unit.factor, number)) return false;
    *number *= unit.factor;
    return true;
  }
  return false;
}

// A name, or the beginning of a name and '*'.
template <size_t size>
bool parsePattern(std::string_view text, char (&field)[size]) {
  std::string name;
  const bool open_end = text.ends_with('*');
  const std::string_view fixed = text.substr(0, text.size() - (open_end ? 1 : 0));
  if (text.size() >= size || (!fixed.empty() && !parseName(fixed, size - 2, &name)) || text.empty())
    return false;
  std::memset(field, 0, size);
  std::memcpy(field, text.data(), text.size());
  return true;
}

// Names joined by '+', as the bits that `bit` gives.
template <typename Bit>
bool parseSet(std::string_view text, std::span<const FaultName> names, uint32_t any, const Bit& bit,
              uint32_t* set) {
  *set = 0;
  while (true) {
    const size_t end = std::min(text.find('+'), text.size());
    uint32_t value = 0;
    if (text.substr(0, end) == "any") {
      *set |= any;
    } else if (findFaultName(names, text.substr(0, end), &value)) {
      *set |= bit(value);
    } else {
      return false;
    }
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

bool parseProbability(std::string_view text, double* probability) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *probability);
  return error == std::errc() && end == text.data() + text.size() && *probability > 0 && *probability <= 1;
}

bool parseGidChange(std::string_view text, FaultRule* rule) {
  const size_t equals = text.find('=');
  uint32_t index = 0;
  std::vector<Gid> gids;
  if (equals == std::string_view::npos || !parse32(text.substr(0, equals), 0, kMaxGids - 1, &index) ||
      !parseGid(text.substr(equals + 1), &gids))
    return false;
  rule->gid_index = static_cast<uint8_t>(index);
  std::memcpy(rule->gid, gids[0].raw, sizeof rule->gid);
  rule->gid_type = text.find('/') == std::string_view::npos ? kKeepGidType : gids[0].type;
  return true;
}

// A status as verbs spells it, with or without IBV_WC_.
bool parseStatus(std::string_view text, FaultRule* rule) {
  if (text.starts_with("IBV_WC_")) text.remove_prefix(7);
  return findFaultName(faultStatuses(), text, &rule->code);
}

bool parseEvent(std::string_view text, FaultRule* rule) {
  if (text.starts_with("IBV_EVENT_")) text.remove_prefix(10);
  return findFaultName(faultEvents(), text, &rule->code);
}

struct Selector {
  const char* key;
  std::string (*accepted)();
  bool (*parse)(std::string_view value, FaultRule* rule);
};

const std::array kSelectors = {
    Selector{"host", [] { return std::string("a host's name, which may end with *"); },
             [](std::string_view v, FaultRule* r) { return parsePattern(v, r->host); }},
    Selector{"device", [] { return std::string("a device's name, which may end with *"); },
             [](std::string_view v, FaultRule* r) { return parsePattern(v, r->device); }},
    Selector{"port", [] { return std::string("a port number from 1 to 4"); },
             [](std::string_view v, FaultRule* r) { return parse32(v, 1, kMaxDevicePorts, &r->port); }},
    Selector{"peer", [] { return std::string("the name of the peer's host, which may end with *"); },
             [](std::string_view v, FaultRule* r) { return parsePattern(v, r->peer); }},
    Selector{"peer_device", [] { return std::string("the name of the peer's device, which may end with *"); },
             [](std::string_view v, FaultRule* r) { return parsePattern(v, r->peer_device); }},
    Selector{"process", [] { return std::string("a process id"); },
             [](std::string_view v, FaultRule* r) { return parse32(v, 1, 1U << 22, &r->process); }},
    Selector{"qp", [] { return std::string("a queue pair's number, decimal or 0x..."); },
             [](std::string_view v, FaultRule* r) { return parse32(v, kFirstQpIndex, 0xffffff, &r->qp); }},
    Selector{"opcode", [] { return "any or names joined by +: " + listOf(faultOperations()); },
             [](std::string_view v, FaultRule* r) {
               return parseSet(
                   v, faultOperations(), kFaultAnySend, [](uint32_t bit) { return bit; }, &r->operations);
             }},
    Selector{"verb", [] { return "any or names joined by +: " + listOf(faultVerbs()); },
             [](std::string_view v, FaultRule* r) {
               constexpr uint32_t kAll = ~0U >> (32 - static_cast<uint32_t>(Verb::kCount));
               return parseSet(
                   v, faultVerbs(), kAll, [](uint32_t verb) { return 1U << verb; }, &r->verbs);
             }},
    Selector{
        "after", [] { return std::string("bytes, as 4096, 64k, 1m or 2g"); },
        [](std::string_view v, FaultRule* r) { return parseUnits(v, kSizes, UINT64_MAX, &r->after_bytes); }},
    Selector{"nth", [] { return std::string("a number from 1"); },
             [](std::string_view v, FaultRule* r) { return parseWhole(v, 1, UINT64_MAX, &r->nth); }},
    Selector{"every", [] { return std::string("a number from 1"); },
             [](std::string_view v, FaultRule* r) { return parseWhole(v, 1, UINT64_MAX, &r->every); }},
    Selector{"count", [] { return std::string("a number from 1"); },
             [](std::string_view v, FaultRule* r) { return parseWhole(v, 1, UINT64_MAX, &r->count); }},
    Selector{"probability", [] { return std::string("a number above 0, at most 1"); },
             [](std::string_view v, FaultRule* r) { return parseProbability(v, &r->probability); }},
    Selector{"seed", [] { return std::string("a number from 1"); },
             [](std::string_view v, FaultRule* r) { return parseWhole(v, 1, UINT64_MAX, &r->seed); }},
};

struct Action {
  const char* key;
  std::string (*accepted)();
  bool (*parse)(std::string_view value, bool has_value, FaultRule* rule);
};

bool parseTimes(std::string_view value, bool has_value, FaultRule* rule) {
  return !has_value || parseWhole(value, 1, 1'000'000, &rule->amount);
}

// Each action sets `action` and the fields that the action needs.
const std::array kActions = {
    Action{"status", [] { return "one of " + listOf(faultStatuses()); },
           [](std::string_view v, bool, FaultRule* r) {
             r->action = FaultAction::kStatus;
             return parseStatus(v, r);
           }},
    Action{"drop", [] { return std::string("nothing or how many times"); },
           [](std::string_view v, bool has, FaultRule* r) {
             r->action = FaultAction::kDrop;
             return parseTimes(v, has, r);
           }},
    Action{"rnr", [] { return std::string("nothing or how many times"); },
           [](std::string_view v, bool has, FaultRule* r) {
             r->action = FaultAction::kRnr;
             return parseTimes(v, has, r);
           }},
    Action{"delay", [] { return std::string("a time up to 1000s, as 500ns, 20us, 3ms or 1s"); },
           [](std::string_view v, bool, FaultRule* r) {
             r->action = FaultAction::kDelay;
             return parseUnits(v, kTimes, 1'000'000'000'000, &r->amount);
           }},
    Action{"errno", [] { return "one of " + listOf(faultErrnos()); },
           [](std::string_view v, bool, FaultRule* r) {
             r->action = FaultAction::kErrno;
             return findFaultName(faultErrnos(), v, &r->code);
           }},
    Action{"stuck", [] { return std::string("no value"); },
           [](std::string_view, bool has, FaultRule* r) {
             r->action = FaultAction::kStuck;
             return !has;
           }},
    Action{"qp_fatal", [] { return std::string("no value"); },
           [](std::string_view, bool has, FaultRule* r) {
             r->action = FaultAction::kQpFatal;
             return !has;
           }},
    Action{"device_fatal", [] { return std::string("no value"); },
           [](std::string_view, bool has, FaultRule* r) {
             r->action = FaultAction::kDeviceFatal;
             return !has;
           }},
    Action{"event", [] { return "one of " + listOf(faultEvents()); },
           [](std::string_view v, bool, FaultRule* r) {
             r->action = FaultAction::kEvent;
             return parseEvent(v, r);
           }},
    Action{"gid",
           [] { return std::string("INDEX=ADDRESS[/TYPE], as 3=10.1.2.3/v2, with an index from 0 to 15"); },
           [](std::string_view v, bool, FaultRule* r) {
             r->action = FaultAction::kGid;
             return parseGidChange(v, r);
           }},
    Action{"speed", [] { return std::string("Mb/s that verbs has a code for: " RAILWISE_SOFTDEV_SPEEDS); },
           [](std::string_view v, bool, FaultRule* r) {
             uint8_t width = 0;
             uint16_t speed = 0;
             r->action = FaultAction::kSpeed;
             return parse32(v, 1, UINT32_MAX, &r->code) && speedCodes(r->code, 0, &width, &speed);
           }},
    Action{"kill", [] { return std::string("nothing, self or peer"); },
           [](std::string_view v, bool has, FaultRule* r) {
             r->action = v == "peer" ? FaultAction::kKillPeer : FaultAction::kKillSelf;
             return !has || v == "self" || v == "peer";
           }},
    Action{"place", [] { return std::string("adversarial"); },
           [](std::string_view v, bool, FaultRule* r) {
             r->action = FaultAction::kPlace;
             return v == "adversarial";
           }},
};

// port=N chooses a port; port=down and port=up are actions.
bool isPortState(std::string_view key, std::string_view value) {
  return key == "port" && (value == "down" || value == "up");
}

template <typename Rows>
auto findKey(const Rows& rows, std::string_view key) {
  return std::find_if(rows.begin(), rows.end(), [key](const auto& row) { return key == row.key; });
}

std::string knownFaultActions() {
  std::string names;
  for (const Action& action : kActions) names += std::string(action.key) + ", ";
  return names + "port=down, port=up";
}

std::string knownWords() {
  std::string words;
  for (const Selector& selector : kSelectors) words += std::string(selector.key) + "=, ";
  return words + "and one action of " + knownFaultActions();
}

Error faultError(std::string_view word, const std::string& why) {
  return {"fault rule: \"" + std::string(word) + "\": " + why};
}

// Adds the content of `word` to the rule.
Outcome<void> parseFaultWord(std::string_view word, FaultRule* rule) {
  const size_t equals = word.find('=');
  const bool has_value = equals != std::string_view::npos;
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = has_value ? word.substr(equals + 1) : std::string_view();
  const auto* const action = findKey(kActions, key);
  if (action != kActions.end() || isPortState(key, value)) {
    if (rule->action != FaultAction::kNone) return faultError(word, "a rule has one action only");
    if (action == kActions.end()) {
      rule->action = value == "up" ? FaultAction::kPortUp : FaultAction::kPortDown;
      return {};
    }
    if (action->parse(value, has_value, rule)) return {};
    return faultError(word, "expected " + action->accepted());
  }
  const auto* const selector = findKey(kSelectors, key);
  if (selector == kSelectors.end()) return faultError(word, "unknown; known are " + knownWords());
  if (selector->parse(value, rule)) return {};
  return faultError(word, "expected " + selector->accepted());
}

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

// A status that a receiver detects itself.
bool localStatus(uint32_t status) {
  return status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_QP_OP_ERR ||
         status == IBV_WC_LOC_ACCESS_ERR || status == IBV_WC_GENERAL_ERR || status == IBV_WC_FATAL_ERR;
}

// Checks that need the whole rule.
Outcome<void> checkWhole(FaultRule* rule) {
  const std::string action = faultActionText(*rule);
  if (rule->action == FaultAction::kNone)
    return Error{"fault rule: no action; one of " + knownFaultActions()};
  if (rule->operations != 0 && rule->verbs != 0)
    return faultError("verb", "a rule is for opcodes or for verbs, not for both");
  if (rule->action == FaultAction::kErrno && rule->verbs == 0)
    return faultError(action, "needs verb=, the call that fails");
  if (rule->verbs != 0 && onlyForWork(rule->action))
    return faultError(action, "is for opcode=, not for verb=");
  if (rule->verbs != 0 && rule->peer[0] != 0) return faultError("peer", "is for opcode=, not for verb=");
  if (rule->verbs != 0 && rule->peer_device[0] != 0)
    return faultError("peer_device", "is for opcode=, not for verb=");
  if (rule->verbs == 0 && rule->operations == 0) rule->operations = kFaultAnySend;
  if ((rule->operations & kFaultReceive) != 0) {
    if ((rule->operations & kFaultAnySend) != 0)
      return faultError("opcode", "recv stands alone: its rule is for the receiving end");
    if (!forReceive(*rule)) return faultError(action, "is not for opcode=recv");
    if (rule->action == FaultAction::kStatus && !localStatus(rule->code))
      return faultError(action,
                        "a receive fails with a local status: loc_len_err, loc_prot_err, loc_qp_op_err ...");
  }
  if (rule->seed != 0 && rule->probability == 0) return faultError("seed", "needs probability=");
  return {};
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

Outcome<FaultRule> parseFaultRule(std::string_view text) {
  FaultRule rule = {};
  const auto refuse = [&rule](const Outcome<void>& checked) {
    return Error{checked.error(),
                 rule.action == FaultAction::kNone ? Code::kInvalidUsage : Code::kInvalidArgument};
  };
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
    if (text.empty()) break;
    const size_t end = std::min(text.find_first_of(kSeparators), text.size());
    if (auto read = parseFaultWord(text.substr(0, end), &rule); !read.ok()) return refuse(read);
    text.remove_prefix(end);
  }
  if (auto whole = checkWhole(&rule); !whole.ok()) return refuse(whole);
  return rule;
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
  if (rule.peer_device[0] != 0) add(text, std::string("peer_device=") + rule.peer_device);
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
