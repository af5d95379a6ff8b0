// railwise conform: whether a net plugin keeps what NCCL relies on, and what it does when something fails.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "conform/trial.h"

namespace railwise::cli {
namespace {

using conform::Check;
using conform::Kind;
using conform::Verdict;

constexpr const char* kHelp =
    "usage: railwise conform [options] [PLUGIN]\n\n"
    "Tries a net plugin as NCCL drives it, each check in a process of its own over software devices: what "
    "NCCL's callers rely on, in every version of the plugin API that the plugin exports; what happens when a "
    "device, a packet or a process fails (newest version): right data, or an error at both ends in time; and "
    "what its users are glad of. All of it takes one to five minutes. PLUGIN is a file, or a name as in "
    "NCCL_NET_PLUGIN (default: Railwise's own).\n\n"
    "One check, with one version; and where the plugin crashes in it:\n\n"
    "  railwise conform --only data.order --api v12 PLUGIN\n"
    "  gdb -ex 'set follow-fork-mode child' --args railwise conform --only data.order PLUGIN\n\n";
constexpr const char* kExitHelp =
    "\nExit status: 0 all checks held (of care: or not), 1 one is broken, 2 a mistake on the command line.\n";
constexpr const char* kDefaultDevice = "software:count=2";

struct ConformOptions {
  PluginOptions plugin;
  std::string only;
  int limit_s = 0;  // 0: each check's own
  bool list = false;
  bool json = false;
};

struct Row {
  const Check* check;
  // Versions of equal verdict.
  struct Answer {
    Verdict verdict;
    std::vector<int> versions;
  };
  std::vector<Answer> answers;

  bool is(Verdict::Kind kind) const {
    return std::any_of(answers.begin(), answers.end(),
                       [&](const Answer& answer) { return answer.verdict.kind == kind; });
  }
  bool broken() const { return is(Verdict::kBroken); }
  void add(int version, Verdict verdict) {
    const auto same = std::find_if(answers.begin(), answers.end(), [&](const Answer& answer) {
      return answer.verdict.kind == verdict.kind &&
             (verdict.kind == Verdict::kHeld || answer.verdict.text == verdict.text);
    });
    if (same == answers.end()) answers.push_back({std::move(verdict), {version}});
    else same->versions.push_back(version);
  }
};

const char* wordOf(const Row& row, const Row::Answer& answer) {
  if (answer.verdict.kind == Verdict::kHeld) return "held";
  if (answer.verdict.kind == Verdict::kDoesNotApply || answer.verdict.kind == Verdict::kNotTried) return "-";
  return row.check->kind == Kind::kCare ? "no" : "BROKEN";
}

// "v12", "v6-v12", "v6 v9"; `versions` from the newest on.
std::string versionsText(const std::vector<int>& versions) {
  if (versions.empty()) return "none";
  const int span = versions.front() - versions.back() + 1;
  if (versions.size() > 2 && span == static_cast<int>(versions.size()))
    return textOf("v%d-v%d", versions.back(), versions.front());
  std::string text;
  for (auto version = versions.rbegin(); version != versions.rend(); ++version)
    text += textOf("%sv%d", text.empty() ? "" : " ", *version);
  return text;
}

constexpr std::pair<Kind, const char*> kKinds[] = {
    {Kind::kContract, "NCCL relies on it"}, {Kind::kFaults, "when something fails"}, {Kind::kCare, "care"}};

const char* titleOf(Kind kind) {
  return std::find_if(std::begin(kKinds), std::end(kKinds),
                      [&](const auto& each) { return each.first == kind; })
      ->second;
}

// The lines of a check, which are printed as soon as it has been tried: a plugin that hangs takes long. All
// columns but the last are as wide as the widest text that they can have.
std::string linesOf(const Row& row, std::size_t name_width, std::size_t versions_width) {
  std::string text;
  for (const Row::Answer& answer : row.answers) {
    text += textOf("  %-*s  %-6s  %-*s  %s", static_cast<int>(name_width), row.check->name,
                   wordOf(row, answer), static_cast<int>(versions_width),
                   versionsText(answer.versions).c_str(), answer.verdict.text.c_str());
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string sumsOf(const std::vector<Row>& rows) {
  std::string text;
  for (const auto& [kind, title] : kKinds) {
    int held = 0, counted = 0, untried = 0;
    for (const Row& row : rows) {
      if (row.check->kind != kind) continue;
      if (row.is(Verdict::kHeld) || row.broken()) ++counted;
      else if (row.is(Verdict::kNotTried)) ++untried;
      held += row.is(Verdict::kHeld) && !row.broken() ? 1 : 0;
    }
    if (counted + untried > 0)
      text += textOf("%s: %d of %d%s\n", title, held, counted,
                     untried > 0 ? textOf(", %d not tried", untried).c_str() : "");
  }
  return text;
}

constexpr const char* kVerdicts[] = {"held", "broken", "does not apply", "not tried"};  // of a Verdict::Kind

std::string jsonOf(const PluginOptions& plugin, const std::vector<Row>& rows) {
  JsonWriter json;
  json.beginObject();
  json.key("schema").value("railwise-conform").key("schema_version").value(1);
  json.key("plugin").value(plugin.plugin.empty() ? "railwise" : plugin.plugin);
  json.key("checks").beginArray();
  for (const Row& row : rows) {
    for (const Row::Answer& answer : row.answers) {
      json.beginInlineObject().key("check").value(row.check->name);
      json.key("kind").value(row.check->kind == Kind::kContract ? "contract"
                             : row.check->kind == Kind::kFaults ? "faults"
                                                                : "care");
      json.key("verdict").value(kVerdicts[answer.verdict.kind]);
      json.key("versions").row(answer.versions).key("text").known(answer.verdict.text).endInlineObject();
    }
  }
  json.endArray().endObject();
  return json.text();
}

std::vector<const Check*> chosen(const std::string& only) {
  std::vector<const Check*> checks;
  for (const auto list : {conform::lifeChecks(), conform::dataChecks(), conform::endChecks(),
                          conform::faultChecks(), conform::oneSidedChecks()})
    for (const Check& check : list)
      if (std::string_view(check.name).starts_with(only)) checks.push_back(&check);
  std::stable_sort(checks.begin(), checks.end(),
                   [](const Check* a, const Check* b) { return a->kind < b->kind; });
  return checks;
}

bool isOneSided(const Check& check) { return std::string_view(check.name).starts_with("one-sided."); }

int printList(const std::vector<const Check*>& checks) {
  std::string text;
  for (const auto& [kind, title] : kKinds) {
    text += textOf("%s%s\n", text.empty() ? "" : "\n", title);
    for (const Check* const check : checks)
      if (check->kind == kind)
        text += wrappedText(check->rule, textOf("  %-22s", check->name), std::string(24, ' '));
  }
  return writeOutput("conform", "", text);
}

// Why the rest of a version's checks is not tried: none can hold when the plugin does not start. A hang
// counts from the second on, as the machine may have been busy at the first.
class Starts {
 public:
  void note(const Check& check, int version, const Verdict& verdict) {
    if (verdict.started || *check.fault != '\0') return;  // the fault may have come during init
    std::string& first = first_[version];
    const bool again = !first.empty();
    if (!again) first = check.name;
    if (verdict.hung_in.empty()) why_[version] = "not tried: the plugin does not start (" + first + ")";
    else if (again || ++hung_ > 2) why_[version] = "not tried: the plugin hangs in " + verdict.hung_in;
  }
  const std::string& why(int version) { return why_[version]; }

 private:
  std::map<int, std::string> first_;  // the first check that did not start
  std::map<int, std::string> why_;
  int hung_ = 0;  // versions
};

Row tryAll(const Check& check, const ConformOptions& options, const conform::Exports& exports) {
  const PluginOptions& plugin = options.plugin;
  const int limit_s = options.limit_s != 0 ? options.limit_s : check.limit_s;
  static int trials = 0;
  static Starts starts;
  Row row = {&check, {}};
  std::vector<int> versions = isOneSided(check) ? exports.rma : exports.net;
  if (plugin.api != 0) std::erase_if(versions, [&](int version) { return version != plugin.api; });
  std::erase_if(versions, [&](int version) { return version < check.oldest; });
  if (check.kind != Kind::kContract && versions.size() > 1) versions.resize(1);
  for (const int version : versions) {
    showProgress(textOf("%s v%d", check.name, version));
    PluginOptions one = plugin;
    one.api = version;
    if (const std::string& why = starts.why(version); !why.empty()) {
      row.add(version, {Verdict::kNotTried, why});
      continue;
    }
    Verdict verdict = conform::tryCheck(check, one, ++trials, limit_s);
    starts.note(check, version, verdict);
    row.add(version, std::move(verdict));
  }
  return row;
}

bool hasRdmaDevice() {
  std::error_code error;
  return std::filesystem::directory_iterator("/sys/class/infiniband", error) !=
         std::filesystem::directory_iterator();
}

// Prints each row as soon as it is known.
std::vector<Row> tryInOrder(const std::vector<const Check*>& checks, const ConformOptions& options,
                            const conform::Exports& exports, const std::string& head) {
  std::vector<Row> rows;
  int status = kExitOk;  // of writing
  std::size_t name_width = 0;
  for (const Check* const check : checks) name_width = std::max(name_width, std::strlen(check->name));
  const std::size_t versions_width =
      std::max(versionsText(exports.net).size(), versionsText(exports.rma).size());
  for (const Check* const check : checks) {
    Row row = tryAll(*check, options, exports);
    if (row.answers.empty()) continue;
    clearProgress();
    if (!options.json && status == kExitOk) {
      std::string text = rows.empty() ? head : "";
      if (rows.empty() || rows.back().check->kind != check->kind)
        text += textOf("\n%s\n", titleOf(check->kind));
      status = writeOutput("conform", "", text + linesOf(row, name_width, versions_width));
    }
    rows.push_back(std::move(row));
  }
  clearProgress();
  return rows;
}

}  // namespace

int conformCommand(Args args) {
  ConformOptions options;
  std::vector<Option> table = {
      textOption(0, "only", "NAME", &options.only, "only the checks whose names begin so (data, fault.port)"),
      flagOption('l', "list", &options.list, "print the checks and what each says"),
      intOption('T', "timeout", &options.limit_s, 1, 3600,
                "the longest that a check may take, in seconds (default: 30 to 100, by the check)"),
      jsonOption(&options.json)};
  addPluginAndRmaOptions(table, options.plugin);
  int status = kExitOk;
  const auto given = parseOrLeave("conform", table, args, kHelp, 1, &status, kExitHelp);
  if (!given) return status;
  if (!given->positional.empty()) options.plugin.plugin = given->first();
  const auto checks = chosen(options.only);
  if (checks.empty())
    return leave(kExitUsage, "conform: no check begins with '%s' (railwise conform --list)",
                 options.only.c_str());
  if (options.list) return printList(checks);
  if (options.plugin.device == "auto") {
    const char* const device = std::getenv("RAILWISE_DEVICE");
    options.plugin.device = device != nullptr ? device : kDefaultDevice;
  }
  const auto drop_in =
      needsDropIn(options.plugin, namesOwnPlugin(options.plugin.plugin) ? "Railwise" : options.plugin.plugin);
  if (drop_in.ok() && *drop_in) return runBehindDropIn("conform", options.plugin, args);
  applyDevice(options.plugin, false);
  const auto exports = conform::exportsOf(options.plugin);
  if (!exports.ok()) return leave(kExitFailed, "conform: %s", exports.error().c_str());

  const std::string head = textOf("%s: net API %s; RMA API %s; %s\n",
                                  options.plugin.plugin.empty() ? "railwise" : options.plugin.plugin.c_str(),
                                  versionsText(exports->net).c_str(), versionsText(exports->rma).c_str(),
                                  options.plugin.device.c_str());
  if (!options.plugin.device.starts_with("software") && !hasRdmaDevice()) {
    const auto starts = startsByItself(options.plugin);
    if (starts.ok() && !*starts)
      return leave(kExitFailed, "conform: nothing is tried: no RDMA device in /sys/class/infiniband");
  }
  const std::vector<Row> rows = tryInOrder(checks, options, *exports, head);
  if (rows.empty())
    return leave(kExitFailed, "conform: nothing to try: the plugin exports net API %s, RMA API %s",
                 versionsText(exports->net).c_str(), versionsText(exports->rma).c_str());
  const bool broken = std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.check->kind != Kind::kCare && row.broken();
  });
  status = writeOutput("conform", "", options.json ? jsonOf(options.plugin, rows) : "\n" + sumsOf(rows));
  return status == kExitOk && broken ? kExitFailed : status;
}

}  // namespace railwise::cli
