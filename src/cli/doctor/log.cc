// railwise doctor --log: reads the logs of all ranks, and says what is wrong; and what nccl-tests measured,
// beside what NCCL's model expects.
#include <algorithm>
#include <optional>

#include "base/text/json.h"
#include "base/text/words.h"
#include "cli/hosts/run_on_hosts.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "doctor/log/judging/judge.h"
#include "doctor/log/pastes/pastes.h"
#include "doctor/log/ranks.h"
#include "doctor/log/reading/reader.h"
#include "doctor/results/comparison.h"
#include "doctor/results/nccl_tests.h"
#include "topo/tuning/expect.h"

namespace railwise::cli {
namespace {

constexpr const char* kDoctorLog = "doctor --log";
constexpr std::size_t kMostLogs = 1UL << 20;
constexpr int kMostRanks = 1 << 24;

constexpr const char* kDoctorLogHelp =
    "usage: railwise doctor --log FILE... [--topo FILE] [options]\n\n"
    "Reads what NCCL has logged (NCCL_DEBUG=INFO, 2.13 to 2.32), of one rank or of all, in one file or many, "
    "with what\n"
    "mpirun, srun, torchrun or a container put before the lines; gzip too, and - is standard input. Says "
    "which network,\n"
    "plugin and NICs the ranks use and why not others, which ranks differ or are missing, the first error, "
    "and what the\n"
    "warnings mean. To log: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH "
    "NCCL_DEBUG_FILE=/shared/nccl.%h.%p.log\n"
    "Tables of nccl-tests are held against what NCCL's own model expects (railwise topo expect) of the job's "
    "hosts:\n"
    "--topo, --root or --machine names one of them; on a host of the job it is this machine.\n"
    "Exit status: 0 no finding, or advice alone; 1 warnings; 2 errors, or a mistake on the command line.\n\n";

struct LogOptions {
  bool json = false;
  bool strict = false;
  int expected = 0;
  std::string topology;
  bool no_nvls = false;
  MachineOptions machine;
};

// What the logs say.
struct Read {
  doctor::Job job;
  std::vector<doctor::TestRun> runs;
  doctor::Pastes pastes;
};

Read readLogs(const std::vector<std::string>& files) {
  doctor::JobReader job;
  doctor::NcclTestsReader tests;
  doctor::PasteReader pastes;
  for (const std::string& file : files) {
    const std::string name = file == "-" ? "standard input" : file;
    job.beginFile(name);
    tests.beginFile(name);
    pastes.beginFile(name);
    job.fileProblem(doctor::readLines(file, [&](std::string_view line) {
      job.line(line);
      tests.line(line);
      pastes.line(line);
    }));
  }
  Read read{job.take(), tests.take(), pastes.take()};
  read.job.has_results = !read.runs.empty();
  read.job.has_pastes = !read.pastes.empty();
  return read;
}

// The release that the job ran: by nccl-tests, else by NCCL's lines.
std::optional<topo::NcclVersion> releaseOf(const Read& read) {
  std::string release = read.runs.front().nccl;
  for (const doctor::Process& process : read.job.processes)
    if (release.empty()) release = process.version.value;
  if (release.empty()) release = read.job.version.value;
  return topo::parseNcclVersion(release);
}

// What the environment of the job says of a setting; "": nothing.
std::string settingOf(const doctor::Job& job, const char* name) {
  for (const doctor::Process& process : job.processes)
    if (const auto setting = process.settings.find(name); setting != process.settings.end())
      return setting->second.value;
  return "";
}

std::vector<std::string> unreadSettings(const doctor::Job& job) {
  std::vector<std::string> settings;
  for (const char* name : topo::tuning::kUnmodelled)
    if (const std::string value = settingOf(job, name); !value.empty())
      settings.push_back(std::string(name) + "=" + value);
  return settings;
}

bool isOnThisHost(const Read& read) {
  for (const doctor::TestRun& run : read.runs)
    for (const auto& [host, ranks] : run.ranks_on_host)
      if (isThisHost(host)) return true;
  return std::ranges::any_of(read.job.processes,
                             [](const doctor::Process& process) { return isThisHost(process.host); });
}

constexpr const char* kNoMachine =
    "the hosts' topology is not known: --topo FILE (NCCL_TOPO_DUMP_FILE writes it), --root TAR (railwise "
    "topo record), or run this on a host of the job";

// The machine of the job's hosts. Its message is said and *failed is set where the options name one that
// cannot be read.
std::optional<topo::Machine> machineOfHosts(LogOptions& options, const Read& read, bool* failed) {
  const bool named = !options.topology.empty() || options.machine.elsewhere();
  if (!named && (read.runs.empty() || !isOnThisHost(read))) return std::nullopt;
  if (!read.runs.empty()) options.machine.in_log = releaseOf(read);
  bool without_gpus = false;
  if (!named) options.machine.without_gpus = &without_gpus;
  int status = kExitOk;  // not used: 1 would say that there are warnings
  auto machine = openMachine(kDoctorLog, options.topology, options.machine, &status);
  *failed = named && !machine;
  return machine;
}

std::vector<doctor::Comparison> compareAll(const Read& read, const doctor::Ranks& ranks,
                                           const topo::Machine* machine, bool nvls) {
  const doctor::ModelMachine model = {.machine = machine,
                                      .nvls = nvls && settingOf(read.job, "NCCL_NVLS_ENABLE") != "0",
                                      .why_none = kNoMachine,
                                      .unread = unreadSettings(read.job),
                                      .ranks = ranks.size(),
                                      .hosts = static_cast<int>(ranks.hosts())};
  std::vector<doctor::Comparison> comparisons;
  for (const doctor::TestRun& run : read.runs) comparisons.push_back(doctor::compare(run, model));
  return comparisons;
}

// Why the verdict cannot be "fine", a word for what was measured; "": it can.
std::string unjudgedText(const std::vector<doctor::Comparison>& comparisons) {
  for (const doctor::Comparison& its : comparisons)
    if (its.obstacle.empty() && its.judged) return "";
  return "speed not judged, since " + (comparisons.empty() ? std::string("there is no table of nccl-tests")
                                                           : comparisons.front().obstacle);
}

// The best result of the tables, as what judgeRate() takes.
doctor::Measured measuredOf(const std::vector<doctor::Comparison>& comparisons) {
  doctor::Measured measured;
  for (const doctor::Comparison& its : comparisons) {
    const doctor::ResultRow* const best = its.run.best();
    if (best == nullptr) continue;
    measured.below_model = measured.below_model || (its.obstacle.empty() && its.judged && its.doubt.empty() &&
                                                    its.share() < doctor::kFarBelowModel);
    if (best->best() <= measured.gb_per_s) continue;
    measured.gb_per_s = best->best();
    measured.where = its.run.file + ":" + std::to_string(best->line);
  }
  return measured;
}

doctor::ReportStyle styleOf(const Read& read, const doctor::Ranks& ranks,
                            const std::vector<doctor::Comparison>& comparisons) {
  doctor::ReportStyle style = logStyle(read.job, ranks);
  style.unjudged = unjudgedText(comparisons);
  if (ranks.members().empty() && read.job.has_pastes) style.subject = joined(read.pastes.kinds, "; ");
  else style.looked.insert(style.looked.end(), read.pastes.kinds.begin(), read.pastes.kinds.end());
  style.looked.insert(style.looked.end(), read.pastes.looked.begin(), read.pastes.looked.end());
  style.hidden.insert(style.hidden.end(), read.pastes.hidden.begin(), read.pastes.hidden.end());
  for (const doctor::Comparison& its : comparisons) {
    style.looked.push_back(readText(its));
    const std::string hidden = "what to expect of " + jobText(its) + ": " + its.obstacle;
    if (!its.obstacle.empty() && std::ranges::find(style.hidden, hidden) == style.hidden.end())
      style.hidden.push_back(hidden);
  }
  if (comparisons.empty()) return style;
  const std::string job = ranksText(comparisons.front());
  if (ranks.members().empty() && !job.empty()) style.subject = job;
  style.subject += ", " + headlineText(comparisons.front());
  return style;
}

std::string jsonText(const doctor::Findings& findings, const doctor::ReportStyle& style, const Read& read,
                     const doctor::Ranks& ranks, const std::vector<doctor::Comparison>& comparisons) {
  JsonWriter json;
  json.beginObject();
  json.key("schema").value("railwise-doctor-log");
  json.key("schema_version").value(1);
  json.key("subject").value(style.subject);
  doctor::writeReportJson(json, findings, style);
  doctor::writeJobJson(json, read.job, ranks);
  doctor::writeResultsJson(json, comparisons);
  json.endObject();
  return json.text();
}

// NCCL's RAS names processes and hosts. Whom the logs know gets its rank and the place of its last words
// there.
void addPastes(const Read& read, const doctor::Ranks& ranks, bool ras, doctor::Findings& findings) {
  for (doctor::Finding finding : read.pastes.findings) {
    if ((finding.check == "ras-report") != ras) continue;
    for (doctor::Seen& seen : finding.seen) {
      for (const auto& [index, process] : ranks.members()) {
        if (!doctor::namesProcess(seen.value, process.pid, process.host)) continue;
        seen.device = ranks.label(index);
        if (!process.last_time.empty()) seen.value += "; the last line of its log is of " + process.last_time;
      }
    }
    findings.add(std::move(finding));
  }
}

int report(LogOptions& options, const Read& read) {
  bool failed = false;
  const auto machine = machineOfHosts(options, read, &failed);
  if (failed) return kExitUsage;
  const doctor::Ranks ranks(read.job, options.expected);
  const auto comparisons = compareAll(read, ranks, machine ? &*machine : nullptr, !options.no_nvls);
  // Of a hang RAS knows who holds up the others, and the logs only who waits: it comes first.
  doctor::Findings findings;
  addPastes(read, ranks, true, findings);
  const doctor::Findings of_logs = judgeJob(read.job, ranks);
  for (const doctor::Finding& finding : of_logs.all()) findings.add(finding);
  judgeResults(comparisons, findings);
  addPastes(read, ranks, false, findings);
  judgeRate(ranks, measuredOf(comparisons), findings);
  findings.sort();
  const doctor::ReportStyle style = styleOf(read, ranks, comparisons);
  std::string text =
      options.json ? jsonText(findings, style, read, ranks, comparisons) : reportText(findings, style);
  for (const doctor::Comparison& its : comparisons) {
    const std::string table = options.json ? "" : tableText(its);
    if (!table.empty()) text += "\n" + table;
  }
  if (writeOutput(kDoctorLog, "", text) != kExitOk) return kExitUsage;
  return options.strict && findings.exitStatus() != kExitOk ? kExitUsage : findings.exitStatus();
}

}  // namespace

int doctorLogCommand(Args args) {
  LogOptions options;
  std::vector<Option> table = {
      flagOption('j', "json", &options.json, "JSON: the findings, and what each rank says"),
      flagOption(0, "strict", &options.strict, "warnings count as errors (exit status 2)"),
      intOption(0, "ranks", &options.expected, 1, kMostRanks,
                "how many ranks the job has, where the logs do not say"),
      textOption(0, "topo", "FILE", &options.topology,
                 "the topology file of the job's hosts, for nccl-tests"),
      flagOption(0, "no-nvls", &options.no_nvls,
                 "expect no NVLS: NCCL_NVLS_ENABLE=0, or a driver without multicast")};
  addMachineOptions(table, options.machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave(kDoctorLog, table, args, kDoctorLogHelp, kMostLogs, &status);
  if (!arguments) return status;
  if (arguments->positional.empty())
    return say("%s: which FILEs? With NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/shared/nccl.%%h.%%p.log each rank "
               "writes one",
               kDoctorLog),
           kExitUsage;
  return report(options, readLogs(arguments->positional));
}

}  // namespace railwise::cli
