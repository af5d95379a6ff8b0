// railwise conform: whether a net plugin keeps what NCCL relies on, and what it does when something fails.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
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

  bool broken() const {
    return std::any_of(answers.begin(), answers.end(),
                       [](const Answer& answer) { return answer.verdict.kind == Verdict::kBroken; });
  }
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
  if (answer.verdict.kind == Verdict::kDoesNotApply) return "-";
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

std::string tableOf(const std::vector<Row>& rows) {
  std::string text;
  for (const auto& [kind, title] : kKinds) {
    std::vector<TextRow> lines;
    int held = 0, counted = 0;
    for (const Row& row : rows) {
      if (row.check->kind != kind) continue;
      if (row.answers.front().verdict.kind != Verdict::kDoesNotApply || row.answers.size() > 1) {
        ++counted;
        held += row.broken() ? 0 : 1;
      }
      for (const Row::Answer& answer : row.answers)
        lines.push_back({"  " + std::string(row.check->name), wordOf(row, answer),
                         versionsText(answer.versions), answer.verdict.text});
    }
    if (!lines.empty())
      text += textOf("%s%s: %d of %d\n", text.empty() ? "" : "\n", title, held, counted) + tableText(lines);
  }
  return text;
}

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
      json.key("verdict").value(answer.verdict.kind == Verdict::kHeld     ? "held"
                                : answer.verdict.kind == Verdict::kBroken ? "broken"
                                                                          : "does not apply");
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

Row tryAll(const Check& check, const PluginOptions& plugin, const conform::Exports& exports) {
  static int trials = 0;
  Row row = {&check, {}};
  std::vector<int> versions = isOneSided(check) ? exports.rma : exports.net;
  if (plugin.api != 0) std::erase_if(versions, [&](int version) { return version != plugin.api; });
  std::erase_if(versions, [&](int version) { return version < check.oldest; });
  if (check.kind != Kind::kContract && versions.size() > 1) versions.resize(1);
  for (const int version : versions) {
    showProgress(textOf("%s v%d", check.name, version));
    PluginOptions one = plugin;
    one.api = version;
    row.add(version, conform::tryCheck(check, one, ++trials));
  }
  return row;
}

}  // namespace

int conformCommand(Args args) {
  ConformOptions options;
  std::vector<Option> table = {
      textOption(0, "only", "NAME", &options.only, "only the checks whose names begin so (data, fault.port)"),
      flagOption('l', "list", &options.list, "print the checks and what each says"),
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
  if (needsDropIn(options.plugin, namesOwnPlugin(options.plugin.plugin) ? "Railwise" : options.plugin.plugin))
    return runBehindDropIn("conform", options.plugin, args);
  applyDevice(options.plugin, false);
  const auto exports = conform::exportsOf(options.plugin);
  if (!exports.ok()) return leave(kExitFailed, "conform: %s", exports.error().c_str());

  std::vector<Row> rows;
  for (const Check* const check : checks) rows.push_back(tryAll(*check, options.plugin, *exports));
  clearProgress();
  std::erase_if(rows, [](const Row& row) { return row.answers.empty(); });
  if (rows.empty())
    return leave(kExitFailed, "conform: nothing to try: the plugin exports net API %s, RMA API %s",
                 versionsText(exports->net).c_str(), versionsText(exports->rma).c_str());
  const bool broken = std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.check->kind != Kind::kCare && row.broken();
  });
  const std::string head = textOf("%s: net API %s; RMA API %s; %s\n\n",
                                  options.plugin.plugin.empty() ? "railwise" : options.plugin.plugin.c_str(),
                                  versionsText(exports->net).c_str(), versionsText(exports->rma).c_str(),
                                  options.plugin.device.c_str());
  status = writeOutput("conform", "", options.json ? jsonOf(options.plugin, rows) : head + tableOf(rows));
  return status == kExitOk && broken ? kExitFailed : status;
}

}  // namespace railwise::cli
