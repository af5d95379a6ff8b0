// railwise stuck: asks this host, the hosts of a file or the ranks of a launcher, and says who waits for
// whom.
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "cli/hosts/run_on_hosts.h"
#include "cli/observe/collect.h"
#include "cli/observe/records.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "observe/stuck/diagnosis.h"
#include "observe/stuck/facts.h"
#include "observe/stuck/wire.h"
#include "perf/job/rank_environment.h"

namespace railwise::cli {
namespace {

constexpr const char* kStuck = "stuck";
constexpr std::size_t kMostArguments = 4096;
constexpr std::size_t kMostHostsAsked = 8192;
constexpr std::uintmax_t kMostFileBytes = std::uintmax_t{1} << 30;
constexpr auto kForRanks = std::chrono::seconds(15);  // how much later than rank 0 a rank may come

constexpr const char* kStuckHelp =
    "usage: railwise stuck [PID...] [options]\n"
    "       railwise stuck --hosts FILE [options]\n"
    "       srun --overlap --ntasks-per-node=1 railwise stuck  (or mpirun)\n\n"
    "Says which connection of the running jobs waits for what since when, who waits for whom, and who holds "
    "up\n"
    "the job: the rank at the root that waits for no one, a rank that is dead or stopped, a rail that has "
    "failed or\n"
    "is silent. It reads the records of the processes twice: what has moved in between is not stuck. Without "
    "PID:\n"
    "all processes of this user. To see both ends of a connection it must ask the hosts of both.\n"
    "Exit status: 0 nothing is stuck, 1 something is, 2 a mistake on the command line.\n\n";

struct StuckOptions {
  std::string hosts_file;
  double seconds = 2;
  bool json = false;
  bool dot = false;
  bool gather = false;
  bool gathered = false;
  std::string folder;
  std::string launch = kDefaultLaunch;
  std::string program;
  int limit_s = 30;
  std::string address;
  std::vector<std::string> pids;  // or files, with --gathered
};

std::vector<Option> stuckTable(StuckOptions& options) {
  Option seconds = textOption('t', "seconds", "S", nullptr,
                              "time between the two reads (default 2); 0: read once, and judge by age");
  seconds.accepted = "a number of seconds from 0 to 600";
  seconds.accept = [&options](std::string_view text) {
    const auto read = std::from_chars(text.data(), text.data() + text.size(), options.seconds);
    return read.ec == std::errc() && read.ptr == text.data() + text.size() && options.seconds >= 0 &&
           options.seconds <= 600;
  };
  return {
      textOption(0, "hosts", "FILE", &options.hosts_file, "also ask the hosts of FILE, one per line"),
      std::move(seconds),
      flagOption('j', "json", &options.json, "JSON instead of a text"),
      flagOption(0, "dot", &options.dot, "a graph for Graphviz: railwise stuck --dot | dot -Tsvg"),
      recordFolderOption(&options.folder),
      textOption(
          0, "launch", "COMMAND", &options.launch,
          std::string("how a host is asked; {host} is the host (default '") + kDefaultLaunch + " {host}')"),
      textOption(0, "program", "PATH", &options.program,
                 "railwise on the other hosts (default: the path of this one)"),
      intOption(0, "limit", &options.limit_s, 1, 3600, "seconds that a host may take, beside the two reads"),
      textOption(0, "address", "HOST:PORT", &options.address,
                 "where rank 0 listens, under mpirun and srun (default: from their variables)"),
      flagOption(0, "gather", &options.gather, "only print what this host knows, as lines of JSON"),
      flagOption(0, "gathered", &options.gathered,
                 "the arguments are FILEs that --gather has written; - is standard input"),
  };
}

// A remote shell reads the words of an end again.
bool isPlain(const std::string& text) {
  return text.find_first_of(" '\"\\$`;&|<>()*?[]{}!#~\t\n") == std::string::npos;
}

std::string contradiction(const StuckOptions& options) {
  const int ways =
      (options.hosts_file.empty() ? 0 : 1) + (options.gather ? 1 : 0) + (options.gathered ? 1 : 0);
  if (ways > 1) return "--hosts, --gather and --gathered: give one of them";
  if (options.json && options.dot) return "--json and --dot: give one of them";
  if (!options.hosts_file.empty() && !options.pids.empty())
    return "--hosts takes no PID: the number of a process means nothing on other hosts";
  if (options.gathered && options.pids.empty()) return "--gathered: which FILEs?";
  if (!options.hosts_file.empty() && !isPlain(options.folder))
    return "--dir: no blanks and no characters of a shell";
  if (options.gathered) return "";
  for (const std::string& pid : options.pids)
    if (!parseInt(pid, 1, INT32_MAX))
      return "'" + observe::plainText(pid) + "' is not the number of a process";
  return "";
}

GatherOptions gatherOptions(const StuckOptions& options) {
  return {.folder = options.folder, .pids = options.pids, .seconds = options.seconds};
}

// Adds what a host or a file has answered. Who cannot be understood has not answered.
void addAnswers(const std::string& text, const std::string& asked, std::vector<observe::HostFacts>& hosts) {
  auto parsed = observe::parseJsonLines(text, asked);
  if (!parsed.ok()) {
    hosts.push_back({.asked = observe::plainText(asked), .error = observe::plainText(parsed.error())});
    return;
  }
  for (observe::HostFacts& host : *parsed) {
    if (host.asked.empty()) host.asked = observe::plainText(asked);
    hosts.push_back(std::move(host));
  }
}

int report(const StuckOptions& options, std::vector<observe::HostFacts> hosts) {
  observe::DiagnosisOptions wanted;
  if (!options.gathered)
    for (const std::string& pid : options.pids)
      wanted.pids.push_back(static_cast<uint32_t>(parseInt(pid, 1, INT32_MAX).value_or(0)));
  const observe::Job job(std::move(hosts));
  const observe::Diagnosis diagnosis = observe::diagnose(job, wanted);
  const std::string text = options.json  ? observe::stuckJson(job, diagnosis)
                           : options.dot ? observe::stuckDot(job, diagnosis)
                                         : observe::stuckText(job, diagnosis);
  const int written = writeOutput(kStuck, "", text);
  if (written != kExitOk) return kExitUsage;
  return diagnosis.stuck ? kExitFailed : kExitOk;
}

std::vector<std::string> gatherWords(const StuckOptions& options) {
  const std::string program =
      options.program.empty() ? std::filesystem::read_symlink("/proc/self/exe").string() : options.program;
  std::vector<std::string> words = {program, kStuck, "--gather", textOf("--seconds=%.9g", options.seconds)};
  if (!options.folder.empty()) words.push_back("--dir=" + options.folder);
  return words;
}

int askHosts(const StuckOptions& options) {
  std::ifstream file(options.hosts_file);
  if (!file) return say("%s: %s: cannot be read: %m", kStuck, options.hosts_file.c_str()), kExitUsage;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto names = parseHostFile(text, options.hosts_file, kMostHostsAsked);
  if (!names.ok()) return say("%s: %s", kStuck, names.error().c_str()), kExitUsage;
  std::vector<HostCommand> commands;
  for (const std::string& name : *names) {
    // This host needs no ssh. The other hosts are asked at once, so this one is, too.
    const bool here = isThisHost(name);
    commands.push_back({name, here ? gatherWords({.seconds = options.seconds, .folder = options.folder})
                                   : launchWords(options.launch, name, gatherWords(options))});
  }
  showProgress(textOf("stuck: asking %zu hosts", commands.size()));
  RunLimits limits;
  limits.time = std::chrono::milliseconds(static_cast<int64_t>((options.limit_s + options.seconds) * 1000));
  std::vector<observe::HostFacts> hosts;
  for (const HostAnswer& answer : runOnHosts(commands, limits)) {
    if (answer.error.empty()) addAnswers(answer.out, answer.host, hosts);
    else
      hosts.push_back({.asked = observe::plainText(answer.host), .error = observe::plainText(answer.error)});
  }
  clearProgress();
  return report(options, std::move(hosts));
}

int judgeFiles(const StuckOptions& options) {
  std::vector<observe::HostFacts> hosts;
  for (const std::string& name : options.pids) {
    std::string text;
    if (name == "-") {
      text.assign(std::istreambuf_iterator<char>(std::cin), {});
    } else {
      std::error_code failed;
      const std::uintmax_t bytes = std::filesystem::file_size(name, failed);
      std::ifstream file(name, std::ios::binary);
      if (failed || !file) return say("%s: %s: cannot be read", kStuck, name.c_str()), kExitUsage;
      if (bytes > kMostFileBytes) return say("%s: %s: larger than 1 GiB", kStuck, name.c_str()), kExitUsage;
      text.assign(std::istreambuf_iterator<char>(file), {});
    }
    auto parsed = observe::parseJsonLines(text, name == "-" ? "standard input" : name);
    if (!parsed.ok()) return say("%s: %s", kStuck, observe::plainText(parsed.error()).c_str()), kExitUsage;
    for (observe::HostFacts& host : *parsed) hosts.push_back(std::move(host));
  }
  return report(options, std::move(hosts));
}

std::string missingRanks(const std::vector<RankAnswer>& answers, int size) {
  std::vector<bool> came(static_cast<std::size_t>(size), false);
  for (const RankAnswer& answer : answers) came[static_cast<std::size_t>(answer.rank)] = true;
  std::string missing;
  int count = 0;
  for (int rank = 1; rank < size; ++rank) {
    if (came[static_cast<std::size_t>(rank)]) continue;
    if (++count <= 8) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (count > 8) missing += " and " + std::to_string(count - 8) + " more";
  return missing;
}

// As a rank of mpirun, srun or torchrun.
int asRank(const StuckOptions& options, const RankIdentity& identity) {
  setMessagePrefix("rank " + std::to_string(identity.rank) + ": ");
  auto own = gatherHere(gatherOptions(options));
  if (!own.ok()) return say("%s: %s", kStuck, own.error().c_str()), kExitUsage;
  if (identity.rank != 0) {
    const auto sent = sendToRankZero(identity, observe::jsonLines(*own), kForRanks);
    if (!sent.ok()) return say("%s: %s", kStuck, sent.error().c_str()), kExitUsage;
    return kExitOk;
  }
  std::vector<observe::HostFacts> hosts;
  hosts.push_back(std::move(*own));
  const auto answers = collectFromRanks(identity, kForRanks);
  if (!answers.ok()) return say("%s: %s", kStuck, answers.error().c_str()), kExitUsage;
  for (const RankAnswer& answer : *answers) addAnswers(answer.text, "", hosts);
  if (const std::string missing = missingRanks(*answers, identity.size); !missing.empty())
    hosts.front().notes.push_back("rank " + missing + " of this railwise stuck did not come; " +
                                  identity.source + " promise " + std::to_string(identity.size) +
                                  ". Start it with srun or mpirun, or use --hosts");
  return report(options, std::move(hosts));
}

int askHere(const StuckOptions& options) {
  auto own = gatherHere(gatherOptions(options));
  if (!own.ok()) return say("%s: %s", kStuck, own.error().c_str()), kExitUsage;
  if (options.gather) return writeOutput(kStuck, "", observe::jsonLines(*own));
  std::vector<observe::HostFacts> hosts;
  hosts.push_back(std::move(*own));
  return report(options, std::move(hosts));
}

}  // namespace

int stuckCommand(Args args) {
  StuckOptions options;
  const std::vector<Option> table = stuckTable(options);
  int status = kExitOk;
  const auto arguments = parseOrLeave(kStuck, table, args, kStuckHelp, kMostArguments, &status);
  if (!arguments) return status;
  options.pids = arguments->positional;
  if (const std::string wrong = contradiction(options); !wrong.empty())
    return say("%s: %s", kStuck, wrong.c_str()), kExitUsage;
  if (options.gathered) return judgeFiles(options);
  if (!options.hosts_file.empty()) return askHosts(options);
  if (options.gather || !options.pids.empty()) return askHere(options);
  const auto identity = rankFromEnvironment(std::getenv, options.address);
  if (!identity.ok()) return say("%s: %s", kStuck, identity.error().c_str()), kExitUsage;
  const bool ranks = identity->has_value() && (*identity)->size > 1;
  return ranks ? asRank(options, **identity) : askHere(options);
}

}  // namespace railwise::cli
