// railwise topo lint: finds what is wrong with a topology file although NCCL may not complain.
#include "topo/lint/lint.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/words.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "topo/lint/init/init_failure.h"

namespace railwise::cli {
namespace {

constexpr const char* kTopoLintHelp =
    "usage: railwise topo lint [FILE...] [options]\n\n"
    "Checks NCCL topology files (- is standard input): what NCCL refuses, and what it reads otherwise than "
    "it was meant, each with line and fix, and whether the init of a release fails, with NCCL's variables as "
    "they are set here. Without FILE: what `railwise topo show -f xml` prints of the machine. docs/lint.md "
    "lists the rules.\n"
    "Exit status: 0 no error, 1 an error (or, with --strict, a warning), 2 a mistake on the command "
    "line.\n\n";

std::string locationOf(const std::string& file, const topo::Finding& finding) {
  if (finding.position.line == 0) return file;
  return textOf("%s:%d:%d", file.c_str(), finding.position.line, finding.position.column);
}

// Of the findings of one kind in a file, more would hide the others.
constexpr int kShownOfKind = 5;

std::string reportText(const std::string& file, const topo::LintReport& report, bool all) {
  std::string text;
  std::map<std::pair<topo::Finding::Severity, std::string>, int> kinds;
  for (const topo::Finding& finding : report.findings) {
    if (++kinds[{finding.severity, finding.rule}] > kShownOfKind && !all) continue;
    // The reader's own message already begins with the position.
    const bool placed = !report.read && finding.text.starts_with(file);
    text += (placed ? "" : locationOf(file, finding) + ": ") + topo::severityName(finding.severity) + ": " +
            finding.text + " [" + finding.rule + "]\n";
    if (!finding.fix.empty()) text += "    fix: " + finding.fix + "\n";
  }
  for (const auto& [kind, count] : kinds)
    if (count > kShownOfKind && !all)
      text += textOf("%s: %s: %d more like it (--all shows them) [%s]\n", file.c_str(),
                     topo::severityName(kind.first), count - kShownOfKind, kind.second.c_str());
  return text;
}

// The document that NCCL makes of a machine. Null and `status`: as openMachine().
std::optional<topo::LintReport> lintMachine(const MachineOptions& machine, topo::NcclVersion nccl,
                                            int* status) {
  const auto opened = openMachine("topo lint", "", machine, status);
  if (!opened) return std::nullopt;
  topo::LintReport report = topo::lintText(topo::writeXml(*opened->xml), "topo show -f xml", nccl);
  // That of this machine, rightly.
  std::erase_if(report.findings, [](const topo::Finding& found) { return found.rule == "host-hash"; });
  return report;
}

struct Counts {
  int errors = 0;
  int warnings = 0;
  int notes = 0;

  void add(const topo::LintReport& report) {
    for (const topo::Finding& finding : report.findings) {
      if (finding.severity == topo::Finding::kError) ++errors;
      if (finding.severity == topo::Finding::kWarning) ++warnings;
      if (finding.severity == topo::Finding::kNote) ++notes;
    }
  }
};

}  // namespace

int topoLintCommand(Args args) {
  Output output;
  bool strict = false;
  bool all = false;
  MachineOptions machine{.quiet = true};
  ColorChoice color = ColorChoice::kAuto;
  std::vector<Option> table = {
      ncclOption("nccl", &machine.nccl,
                 "whose init: 2.13 to 2.32, such as 2.30 or 2.30.7 (default: the newest known)"),
      flagOption(0, "all", &all, "show all findings of a kind, not the first 5"),
      flagOption(0, "strict", &strict, "warnings fail too")};
  addOutputOptions(table, output);
  addColorOption(table, color);
  addWhichMachine(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave("topo lint", table, args, kTopoLintHelp, args.size(), &status);
  if (!arguments) return status;
  std::vector<std::string> files = arguments->positional;
  if (files.size() == 1) takeMachine(files[0], machine);
  if (files.size() == 1 && files[0].empty()) files.clear();
  if (!files.empty() && machine.elsewhere())
    return leave(kExitUsage,
                 "topo lint: a FILE is checked by itself: leave out --root and --machine (railwise explain "
                 "FILE --machine NAME puts them together)");
  if (std::ranges::count(files, kStandardInput) > 1)
    return leave(kExitUsage, "topo lint: - is standard input, and can be read once");
  const topo::Settings settings =
      topo::settingsFromEnvironment(std::getenv, topo::chooseRules({.asked = machine.nccl}).release);
  for (const std::string& warning : settings.warnings) say("topo lint: %s", warning.c_str());
  const auto graphs = graphFileOf("topo lint", "", false);
  Counts counts;
  std::string text;
  JsonWriter json;
  json.beginArray();
  const auto add = [&](const std::string& name, topo::LintReport report) {
    if (graphs.ok()) topo::addInitFailure(report, settings, *graphs);
    else topo::addInitFailure(report, graphs.error());
    counts.add(report);
    topo::writeLintJson(json, name, report);
    text += reportText(withoutControls(name), report, all);
  };
  for (const std::string& file : files)
    add(file, topo::lintFile(file == kStandardInput ? "/dev/stdin" : file, settings.nccl));
  if (files.empty()) {
    auto report = lintMachine(machine, settings.nccl, &status);
    if (!report) return status;
    add("topo show -f xml", std::move(*report));
  }
  json.endArray();
  text += textOf("%s: %s, %s, %s\n", counted(std::max(files.size(), std::size_t{1}), "file").c_str(),
                 counted(counts.errors, "error").c_str(), counted(counts.warnings, "warning").c_str(),
                 counted(counts.notes, "note").c_str());
  if (outputHasColor(color) && output.file.empty()) text = paintedFindings(text);
  const int failed = writeOutput("topo lint", output, output.json() ? json.text() : text);
  if (failed != kExitOk) return failed;
  return counts.errors > 0 || (strict && counts.warnings > 0) ? kExitFailed : kExitOk;
}

}  // namespace railwise::cli
