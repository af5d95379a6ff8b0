// railwise stuck: asks this host, the hosts of a file or the ranks of a launcher, and says who waits for
// whom.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/files.h"
#include "base/process.h"
#include "base/socket.h"
#include "cli/hosts/run_on_hosts.h"
#include "cli/observe/records.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "observe/stuck/diagnosis.h"
#include "observe/stuck/facts.h"
#include "perf/job/rank_environment.h"
#include "perf/job/wire.h"

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
    "is silent. It reads the records of the processes twice: what has moved in between is not stuck. With "
    "PID:\n"
    "the process and those of its job on this host; else all jobs of this user, each by itself: processes "
    "that have\n"
    "a connection, a communicator or a launcher in common are one job. To see both ends of a connection it "
    "must ask the\nhosts of both.\n"
    "Exit status: 0 nothing is stuck, 1 something is, 2 a mistake on the command line, 3 no job runs where "
    "it looked.\n\n";

struct StuckOptions {
  std::string hosts_file;
  double seconds = 2;
  bool json = false;
  ColorChoice color = ColorChoice::kAuto;
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
  std::vector<Option> table = {
      textOption(0, "hosts", "FILE", &options.hosts_file,
                 "ask this host and the hosts of FILE, one per line"),
      secondsOption('t', "seconds", &options.seconds, 0, 600,
                    "time between the two reads (default 2); 0: read once, and judge by age"),
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
                 "the arguments are FILEs that --gather has written; - is standard input")};
  addColorOption(table, options.color);
  return table;
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

// ---- the answers of the ranks of mpirun, srun or torchrun, gathered at rank 0 over TCP

// A rank that does not come costs the time limit and no more: it may be on the host that is dead.
struct RankAnswer {
  int rank = 0;
  std::string text;
};

constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of one rank's answer
constexpr int kPollMs = 50;
constexpr auto kRetryPeriod = std::chrono::milliseconds(100);
constexpr const char* kPurpose = "railwise stuck";

class Collector {
 public:
  Collector(const RankIdentity& identity, Socket listener)
      : identity_(identity), callers_(std::move(listener)) {}

  std::vector<RankAnswer> run(Deadline deadline) {
    while (static_cast<int>(answers_.size()) + 1 < identity_.size && !deadline.passed()) {
      std::vector<int> open;
      for (const Member& member : members_) open.push_back(member.channel->fd());
      callers_.wait(open);
      for (Callers::Greeting& caller : callers_.greetings())
        if (const int rank = rankOf(caller.hello); rank > 0)
          members_.push_back({std::move(caller.channel), rank});
      std::erase_if(members_, [this](Member& member) { return isDone(member); });
    }
    return std::move(answers_);
  }

 private:
  // A caller that has proven that it is of this job.
  struct Member {
    std::unique_ptr<FrameChannel> channel;
    int rank;
  };

  // 0: the caller is none of this job.
  int rankOf(const Bytes& hello) const {
    ByteReader reader(hello);
    const bool ours = reader.text() == identity_.secret && reader.text() == kPurpose;
    const auto rank = static_cast<int>(reader.u32());
    return ours && reader.ok() && rank > 0 && rank < identity_.size ? rank : 0;
  }
  // Takes its answer if all of it is there, and tells it so. True: nothing more is expected from it.
  bool isDone(Member& member) {
    Frame frame;
    const Received received = member.channel->receive(frame, kMostBytes);
    if (received == Received::kNothing) return false;
    const bool known =
        std::ranges::any_of(answers_, [&](const RankAnswer& other) { return other.rank == member.rank; });
    if (received != Received::kFrame || frame.type != FrameType::kData) return true;
    if (!known) answers_.push_back({member.rank, toText(frame.payload)});
    member.channel->sendIfIdle(FrameType::kBye);
    return true;
  }

  const RankIdentity& identity_;
  Callers callers_;
  std::vector<Member> members_;
  std::vector<RankAnswer> answers_;
};

Outcome<Socket> connectOnce(const SocketAddress& address, Deadline deadline) {
  auto socket = Socket::connect(address);
  if (!socket.ok()) return Error{"no connection"};
  while (!deadline.passed()) {
    const auto connected = socket->connected();
    if (!connected.ok()) break;
    if (*connected == Io::kDone) return std::move(*socket);
    pollfd writable = {.fd = socket->fd(), .events = POLLOUT, .revents = 0};
    poll(&writable, 1, kPollMs);
  }
  return Error{"no connection"};
}

// Rank 0: waits for all other ranks, until `limit`. Ranks that have not come are missing in the answer.
Outcome<std::vector<RankAnswer>> collectFromRanks(const RankIdentity& identity,
                                                  std::chrono::milliseconds limit) {
  const auto address = resolveAddress(identity.address);
  if (!address.ok()) return address.failure();
  auto listener = Socket::listenEverywhere(address->port(), identity.size);
  if (!listener.ok())
    return Error{"rank 0 cannot listen on " + address->text() +
                 ": is another job there? --address HOST:PORT"};
  return Collector(identity, std::move(*listener)).run(Deadline::after(limit));
}

// True: rank 0 has the answer. It drops callers where it has too many.
bool isTaken(FrameChannel& channel, const Bytes& hello, const std::string& text, Deadline deadline) {
  if (!channel.send(FrameType::kHello, hello, deadline).ok() ||
      !channel.send(FrameType::kData, std::as_bytes(std::span(text)), deadline).ok())
    return false;
  channel.finishSending();
  Frame frame;
  Received received = channel.receive(frame, 0);
  for (; received == Received::kNothing && !deadline.passed(); received = channel.receive(frame, 0)) {
    pollfd readable = {.fd = channel.fd(), .events = POLLIN, .revents = 0};
    poll(&readable, 1, kPollMs);
  }
  return received == Received::kFrame && frame.type == FrameType::kBye;
}

// Every other rank.
Outcome<void> sendToRankZero(const RankIdentity& identity, const std::string& text,
                             std::chrono::milliseconds limit) {
  const auto address = resolveAddress(identity.address);
  if (!address.ok()) return address.failure();
  ByteWriter writer;
  writer.text(identity.secret).text(kPurpose).u32(static_cast<uint32_t>(identity.rank));
  const Bytes hello = writer.take();
  const Deadline deadline = Deadline::after(limit);
  while (!deadline.passed()) {
    if (auto socket = connectOnce(*address, deadline); socket.ok()) {
      FrameChannel channel(std::move(*socket));
      if (isTaken(channel, hello, text, deadline)) return {};
    }
    std::this_thread::sleep_for(kRetryPeriod);
  }
  return Error{"rank 0 does not answer at " + identity.address + ": --address HOST:PORT"};
}

// ---- this host

// What the kernel says of a living process. Nothing if the number belongs to another process: the record may
// be a container's.
void addKernelFacts(observe::ProcessFacts& process) {
  const std::string pid = std::to_string(process.pid);
  const ProcessStat stat = processStat(pid);
  if (stat.start != process.process_start) return;
  process.kernel_state = stat.state;
  process.parent = static_cast<uint32_t>(stat.parent);
  std::string words = beginningOf("/proc/" + pid + "/cmdline");
  std::ranges::replace(words, '\0', ' ');
  if (const std::size_t end = words.find_last_not_of(' '); end != std::string::npos)
    process.command = observe::plainText(words.substr(0, end + 1));
}

// Leaves the processes that are asked for, and those of their jobs.
void keepJobsOf(const std::vector<std::string>& pids, std::vector<observe::ProcessFacts>& all) {
  const std::vector<int> jobs = observe::jobNumbers(all);
  std::set<int> asked;
  for (std::size_t at = 0; at < all.size(); ++at)
    if (std::ranges::find(pids, std::to_string(all[at].pid)) != pids.end()) asked.insert(jobs[at]);
  std::size_t at = 0;
  std::erase_if(all, [&](const observe::ProcessFacts&) { return !asked.contains(jobs[at++]); });
}

// What this host answers: two reads of the records here. The error: a pid has no record.
Outcome<observe::HostFacts> gatherHere(const StuckOptions& options) {
  observe::HostFacts facts;
  facts.name = observe::plainText(nameOfThisHost());
  const auto asked = readRecords(options.folder, options.pids, true, &facts.notes);
  if (!asked.ok()) return asked.failure();
  // All records: which of them are one job is known then. What cannot be read is said once.
  const auto read = [&] {
    facts.notes.clear();
    return readRecords(options.folder, {}, true, &facts.notes);
  };
  auto first = read();
  if (!first.ok()) return first.failure();
  if (options.seconds <= 0 || first->empty()) {
    facts.processes = observe::factsOfAll({}, *first);
  } else {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
    auto second = read();
    if (!second.ok()) return second.failure();
    facts.processes = observe::factsOfAll(*first, *second);
  }
  for (std::string& note : facts.notes) note = observe::plainText(note);
  for (observe::ProcessFacts& process : facts.processes)
    if (process.alive) addKernelFacts(process);
  if (!options.pids.empty()) keepJobsOf(options.pids, facts.processes);
  return facts;
}

// ---- what all have answered

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
  const observe::Job all(std::move(hosts));
  const observe::Diagnosis diagnosis = observe::diagnose(all, wanted);
  const std::vector<observe::JudgedJob> jobs = observe::judgeJobs(all, wanted);
  const std::string text = options.json  ? observe::stuckJson(all, diagnosis, jobs)
                           : options.dot ? observe::stuckDot(all, diagnosis)
                                         : observe::stuckText(all, diagnosis, jobs);
  const bool paints = !options.json && !options.dot && outputHasColor(options.color);
  const int written = writeOutput(kStuck, "", paints ? paintedFindings(text) : text);
  if (written != kExitOk) return kExitUsage;
  return diagnosis.stuck ? kExitFailed : diagnosis.processes > 0 ? kExitOk : kExitNothing;
}

std::vector<std::string> gatherWords(const StuckOptions& options) {
  const std::string program =
      options.program.empty() ? std::filesystem::read_symlink("/proc/self/exe").string() : options.program;
  std::vector<std::string> words = {program, kStuck, "--gather", textOf("--seconds=%.9g", options.seconds)};
  if (!options.folder.empty()) words.push_back("--dir=" + options.folder);
  return words;
}

int askHosts(const StuckOptions& options) {
  const auto text = wholeFile(options.hosts_file);
  if (!text.ok())
    return leave(kExitUsage, "%s: %s: cannot be read: %s", kStuck, options.hosts_file.c_str(),
                 text.error().c_str());
  const auto names = parseHostFile(*text, options.hosts_file, kMostHostsAsked);
  if (!names.ok()) return say("%s: %s", kStuck, names.error().c_str()), kExitUsage;
  std::vector<HostCommand> commands;
  // This host needs no ssh. The other hosts are asked at once, so this one is, too.
  const auto askThisHost = [&](const std::string& name) {
    commands.push_back({name, gatherWords({.seconds = options.seconds, .folder = options.folder})});
  };
  for (const std::string& name : *names) {
    if (isThisHost(name)) askThisHost(name);
    else commands.push_back({name, launchWords(options.launch, name, gatherWords(options))});
  }
  if (std::ranges::none_of(*names, isThisHost)) askThisHost(nameOfThisHost());
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
  std::vector<int> missing;
  for (int rank = 1; rank < size; ++rank)
    if (std::ranges::find(answers, rank, &RankAnswer::rank) == answers.end()) missing.push_back(rank);
  return observe::someOf(missing);
}

// As a rank of mpirun, srun or torchrun.
int asRank(const StuckOptions& options, const RankIdentity& identity) {
  setMessagePrefix("rank " + std::to_string(identity.rank) + ": ");
  auto own = gatherHere(options);
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
  auto own = gatherHere(options);
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
