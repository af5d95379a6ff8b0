// railwise doctor --pair and --hosts: starts the other ends or joins those of mpirun, srun or torchrun,
// measures, and reports. The process that a person started, or rank 0, is the one that reports.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/text/words.h"
#include "cli/device/machine.h"
#include "cli/doctor/pair_job.h"
#include "cli/hosts/run_on_hosts.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/plugin/plugin_loader.h"
#include "cli/topo/machine_options.h"
#include "doctor/pair/judge.h"
#include "doctor/pair/measuring/wire.h"
#include "doctor/pair/summary.h"
#include "perf/job/rank_environment.h"

namespace railwise::cli {
namespace {

namespace pair = doctor::pair;

constexpr const char* kCommand = "doctor";
constexpr uint64_t kMostBytes = uint64_t{64} << 20;
constexpr int kExitErrors = 2;  // as for findings that are errors

constexpr const char* kPairHelp =
    "usage: railwise doctor --pair [HOST] [options]\n"
    "       railwise doctor --hosts FILE [options]\n"
    "       mpirun -np 2 railwise doctor --pair        # also srun, torchrun: each host is an end\n\n"
    "Measures the NIC pairs of this host and HOST, or of all hosts in FILE (one per line, \"#\" comments): "
    "reach, MTU,\n"
    "types of GIDs, latency and bandwidth of RDMA writes, each NIC alone and all at once, beside what ports "
    "and PCIe\n"
    "links allow; and names the odd rail and the odd host. The other ends are started by ssh. Without HOST: "
    "this\n"
    "machine with itself; on a software machine its first two hosts.\n"
    "Exit status: 0 nothing found, 1 warnings, 2 errors, also when hosts cannot be measured.\n"
    "docs/doctor-pair.md explains each finding.\n\n";

struct PairOptions {
  bool pair = false;
  std::string host;
  std::string hosts_file;
  Output output;
  ColorChoice color = ColorChoice::kAuto;
  std::string html;
  std::string nics;
  bool gpu = false;
  std::string launch = kDefaultLaunch;
  std::string program;
  std::string address;
  MachineOptions machine;  // its software machine, and whose rules
  topo::RulesInUse rules;
  pair::MeasureOptions measure;

  PairEndOptions end() const { return {.nics = nics, .gpu = gpu, .rules = rules.release}; }
};

// What all ends must agree on.
void addMeasureOptions(std::vector<Option>& table, PairOptions& options) {
  table.push_back(secondsOption('t', "seconds", &options.measure.seconds, 0.001, 60,
                                "how long each bandwidth is measured (default 0.25)"));
  table.push_back(
      sizeOption('s', "size", &options.measure.bytes, kMostBytes, "bytes of a write (default 256K)"));
  table.push_back(flagOption(0, "full", &options.measure.full,
                             "every NIC with every NIC, instead of each with the one of its rail"));
  table.push_back(flagOption('g', "gpu", &options.gpu,
                             "the data lie in the memory of the GPU nearest to each NIC (CUDA)"));
  table.push_back(textOption(0, "nic", "NAMES", &options.nics,
                             "only these NICs, in the form of NCCL_IB_HCA: mlx5_0,mlx5_1 or ^mlx5_8"));
  table.push_back(ncclOption("nccl", &options.machine.nccl,
                             "whose rules and cost model (default: of the libnccl here, else the newest)"));
}

std::vector<Option> pairTable(PairOptions& options) {
  std::vector<Option> table = {
      flagOption('p', "pair", &options.pair, "this host with HOST; without HOST: with itself"),
      textOption(0, "hosts", "FILE", &options.hosts_file, "all hosts of FILE with each other"),
      textOption(0, "html", "FILE", &options.html, "also write a page to FILE")};
  addOutputOptions(table, options.output);
  addColorOption(table, options.color);
  addMeasureOptions(table, options);
  table.push_back(textOption(
      0, "launch", "COMMAND", &options.launch,
      std::string("how an end is started; {host} is its host (default '") + kDefaultLaunch + " {host}')"));
  table.push_back(textOption(0, "program", "PATH", &options.program,
                             "railwise on the other hosts (default: the path of this one)"));
  table.push_back(textOption(0, "address", "HOST:PORT", &options.address,
                             "where the other ends find this one (default: its network interfaces)"));
  table.push_back(textOption('m', "machine", "NAME|FILE", &options.machine.software,
                             "a software machine instead of this one: its first two hosts"));
  table.push_back(
      textOption('H', "host", "NAME", &options.machine.host, "the first of these two (default: its first)"));
  return table;
}

std::string agreementOf(const PairOptions& options) {
  return textOf("doctor pair %.17g %llu %d %d %d", options.measure.seconds,
                static_cast<unsigned long long>(options.measure.bytes), options.measure.full ? 1 : 0,
                options.gpu ? 1 : 0, options.measure.subnet_bits);
}

int writeReport(const PairOptions& options, const pair::Results& results) {
  const pair::Judgement judgement = pair::judge(results);
  std::string text = options.output.json() ? pair::pairJson(results, judgement, options.measure)
                                           : doctor::reportText(judgement.findings,
                                                                pair::reportStyle(results, options.measure)) +
                                                 pair::tablesText(results, judgement);
  if (!options.output.json() && options.output.file.empty() && outputHasColor(options.color))
    text = paintedFindings(text);
  int failed = writeOutput(kCommand, options.output, text);
  if (!options.html.empty() && failed == kExitOk)
    failed = writeOutput(kCommand, options.html, pair::pageHtml(results, judgement, options.measure));
  return failed != kExitOk ? kExitErrors : judgement.findings.exitStatus();
}

// NCCL's model of the hosts, made of `machine`, which is one of them. It is empty where the hosts are not
// alike. A host that is measured with itself counts as two.
pair::NcclModel modelOfAll(const pair::Results& results, const std::optional<topo::Machine>& machine) {
  std::set<std::string> hosts;
  for (const pair::EndFacts& end : results.ends) {
    if (!(end.all_reduce == results.ends.front().all_reduce)) return {};
    hosts.insert(end.host);
  }
  return machine ? pair::ncclModel(*machine, std::max(2, static_cast<int>(hosts.size()))) : pair::NcclModel{};
}

// Rank 0, which reports, may only coordinate and have no machine. The model is that of the first end that has
// one.
Outcome<pair::NcclModel> sharedModel(PairExchange& exchange, const pair::NcclModel& own) {
  const auto models = exchange.allGather(pair::encodeNcclModel(own));
  if (!models.ok()) return models.failure();
  for (const pair::Bytes& bytes : *models) {
    auto model = pair::decodeNcclModel(bytes);
    if (!model) return Error{"an end has sent a model of NCCL that cannot be read"};
    if (model->gbytes > 0) return std::move(*model);
  }
  return pair::NcclModel{};
}

// Everything from joining on. `launch` is null where others have started the ends.
int measureAndReport(const PairOptions& options, PairSeat seat, PairEnd opened, PairLaunch* launch) {
  const bool reports = seat.rank == 0;
  seat.step_limit = std::chrono::seconds(static_cast<int>(2 * options.measure.seconds));
  auto exchange = PairExchange::join(std::move(seat));
  if (!exchange.ok()) {
    say("%s: %s", kCommand, exchange.error().c_str());
    return kExitErrors;
  }
  if (launch != nullptr) launch->joined();
  const auto progress = [&](const std::string& text) {
    if (reports) showProgress("doctor: " + text);
  };
  auto results = pair::conduct(**exchange, opened.end, options.measure, progress);
  if (!results.ok()) (*exchange)->fail(results.error());  // all ends say it and end
  auto model = sharedModel(**exchange, modelOfAll(*results, opened.machine));
  if (!model.ok()) (*exchange)->fail(model.error());
  results->nccl = std::move(*model);
  (*exchange)->leave();
  results->cross_nic = topo::settingsFromEnvironment(std::getenv, options.rules.release).cross_nic;
  if (results->nccl.gbytes > 0) results->rules = options.rules.note;
  clearProgress();
  return reports ? writeReport(options, *results) : kExitOk;
}

std::vector<std::string> endArguments(const PairOptions& options, int rank, int size) {
  const std::string program =
      options.program.empty() ? std::filesystem::read_symlink("/proc/self/exe").string() : options.program;
  std::vector<std::string> words = {program,
                                    kCommand,
                                    "--pair-end",
                                    "--rank=" + std::to_string(rank),
                                    "--of=" + std::to_string(size),
                                    textOf("--seconds=%.17g", options.measure.seconds),
                                    "--size=" + std::to_string(options.measure.bytes),
                                    "--subnet-bits=" + std::to_string(options.measure.subnet_bits)};
  if (options.measure.full) words.emplace_back("--full");
  if (options.gpu) words.emplace_back("--gpu");
  words.push_back("--nccl=" + ncclVersionName(options.rules.release));
  if (!options.nics.empty()) words.push_back("--nic=" + options.nics);
  return words;
}

// A software machine of several hosts: this process plays the host in force, and the other end the next one.
// Returns the other's variables.
std::vector<std::pair<std::string, std::string>> playTwoHosts() {
  const char* const device = std::getenv("RAILWISE_DEVICE");
  if (device == nullptr || !std::string_view(device).starts_with("software:")) return {};
  const auto machine = openDeviceMachine(kCommand, {});
  if (!machine || machine->config.hosts.size() < 2) return {};
  const auto& hosts = machine->config.hosts;
  const std::string own = machine->config.host().name;
  const std::string other = hosts[(machine->config.chosen + 1) % hosts.size()].name;
  const auto named = openDeviceMachine(kCommand, {.host = own});
  if (!named) return {};
  setenv("RAILWISE_DEVICE", ("software:" + named->text).c_str(), 1);  // without "#HOST"
  setenv("RAILWISE_HOST", own.c_str(), 1);
  return {{"RAILWISE_HOST", other}};
}

int startEnds(const PairOptions& options, PairSeat seat, const std::vector<PairCommand>& commands,
              const PairEndOptions& own) {
  PairLaunch launch;
  if (const auto started = launch.start(commands, contactLine(seat)); !started.ok()) {
    say("%s: %s", kCommand, started.error().c_str());
    return kExitErrors;
  }
  PairEnd end = openPairEnd(own);
  launch.watch();
  return measureAndReport(options, std::move(seat), std::move(end), &launch);
}

PairSeat seatOf(const PairOptions& options, int size) {
  PairSeat seat;
  seat.size = size;
  seat.agreement = agreementOf(options);
  return seat;
}

int withItself(const PairOptions& options) {
  useOwnFabric("pair" + std::to_string(getpid()));
  auto other = playTwoHosts();
  PairSeat seat = seatOf(options, 2);
  if (const auto opened = openSeat(seat, true, ""); !opened.ok())
    return say("%s: %s", kCommand, opened.error().c_str()), kExitErrors;
  const PairCommand command = {"the other end", endArguments(options, 1, 2), std::move(other)};
  return startEnds(options, std::move(seat), {command}, options.end());
}

// `hosts`: the ends. This process is one of them if `own` is true or if it is named; otherwise it only
// coordinates.
int withHosts(const PairOptions& options, const std::vector<std::string>& hosts, bool own) {
  std::vector<std::string> others;
  for (const std::string& host : hosts) {
    if (!own && isThisHost(host)) own = true;
    else others.push_back(host);
  }
  const int size = static_cast<int>(others.size()) + 1;
  PairSeat seat = seatOf(options, size);
  if (const auto opened = openSeat(seat, false, options.address); !opened.ok())
    return say("%s: %s", kCommand, opened.error().c_str()), kExitErrors;
  std::vector<PairCommand> commands;
  for (int rank = 1; rank < size; ++rank) {
    const std::string& host = others[static_cast<std::size_t>(rank) - 1];
    commands.push_back({host, launchWords(options.launch, host, endArguments(options, rank, size)), {}});
  }
  PairEndOptions its = options.end();
  its.takes_part = own;
  return startEnds(options, std::move(seat), commands, its);
}

int withHostsOfFile(const PairOptions& options) {
  const auto text = wholeFile(options.hosts_file);
  if (!text.ok())
    return say("%s: %s: cannot be read: %s", kCommand, options.hosts_file.c_str(), text.error().c_str()),
           kExitErrors;
  const auto hosts = parseHostFile(*text, options.hosts_file);
  if (!hosts.ok()) return say("%s: %s", kCommand, hosts.error().c_str()), kExitErrors;
  if (hosts->size() < 2)
    return say("%s: %s: one host alone has no pair: railwise doctor --pair %s", kCommand,
               options.hosts_file.c_str(), hosts->front().c_str()),
           kExitErrors;
  return withHosts(options, *hosts, false);
}

// As a rank of mpirun, srun or torchrun.
int asRank(const PairOptions& options, const RankIdentity& identity) {
  setMessagePrefix("rank " + std::to_string(identity.rank) + ": ");
  useOwnFabric(fabricOfJob(identity));
  PairSeat seat = seatOf(options, identity.size);
  seat.rank = identity.rank;
  seat.secret = identity.secret;
  seat.addresses = {identity.address};
  // A shell inside a Slurm job has such variables, too, and nobody starts the other ranks.
  const std::string variable = identity.source.substr(identity.source.rfind(' ') + 1);
  const bool slurm = variable.starts_with("SLURM_");
  seat.waits_for = variable + "=" + std::to_string(identity.size) + "; unset it, or start with " +
                   (slurm ? "srun" : "mpirun or torchrun");
  return measureAndReport(options, std::move(seat), openPairEnd(options.end()), nullptr);
}

topo::RulesInUse rulesOf(const MachineOptions& named) {
  MachineOptions machine = named;
  const char* const device = std::getenv("RAILWISE_DEVICE");
  if (device != nullptr && std::string_view(device).starts_with("software")) machine.software = device;
  return rulesFor(machine);
}

// The other end, started by startEnds().
int pairEnd(Args args) {
  PairOptions options;
  PairSeat seat;
  std::vector<Option> table = {intOption(0, "rank", &seat.rank, 1, kMaxRanks, "which end"),
                               intOption(0, "of", &seat.size, 2, kMaxRanks, "number of ends"),
                               intOption(0, "subnet-bits", &options.measure.subnet_bits, 1, 32, "of rank 0")};
  addMeasureOptions(table, options);
  int status = kExitOk;
  const auto arguments =
      parseOrLeave("doctor --pair-end", table, args, "Started by railwise doctor --pair.\n", 0, &status);
  if (!arguments) return status;
  std::string line;
  std::getline(std::cin, line);
  if (const auto read = readContactLine(line, seat); !read.ok())
    return say("%s: %s", kCommand, read.error().c_str()), kExitErrors;
  setMessagePrefix(nameOfThisHost() + ": ");
  seat.agreement = agreementOf(options);
  options.rules = rulesOf(options.machine);
  return measureAndReport(options, std::move(seat), openPairEnd(options.end()), nullptr);
}

// "": the options fit together.
std::string contradiction(const PairOptions& options) {
  if (options.pair && !options.hosts_file.empty()) return "--pair and --hosts: give one of them";
  if (!options.host.empty() && !options.hosts_file.empty()) return "--hosts FILE takes no HOST";
  if (!options.host.empty() && !isHostName(options.host))
    return "'" + options.host.substr(0, 80) + "' is not the name of a host (letters, digits, . - _ : @)";
  if (!options.machine.software.empty() && (!options.host.empty() || !options.hosts_file.empty()))
    return "--machine is instead of this machine: leave the other hosts out";
  if (!options.machine.host.empty() && options.machine.software.empty())
    return "--host is a host of --machine";
  if (options.measure.bytes < 64) return "--size: at least 64 bytes";
  const bool plain = options.nics.find_first_of(" '\"\\$`;&|<>()*?[]{}!#~\t\n") == std::string::npos;
  return plain ? "" : "--nic: only names, and , : ^ =";
}

}  // namespace

int doctorPairCommand(Args args) {
  if (!args.empty() && std::string_view(args[0]) == "--pair-end") return pairEnd(args.subspan(1));
  PairOptions options;
  const std::vector<Option> table = pairTable(options);
  int status = kExitOk;
  const auto arguments = parseOrLeave(kCommand, table, args, kPairHelp, 1, &status);
  if (!arguments) return status;
  if (!arguments->positional.empty()) options.host = arguments->positional[0];
  options.measure.subnet_bits = Config::load().ib_subnet_prefix_len;
  if (const std::string wrong = contradiction(options); !wrong.empty())
    return say("%s: %s", kCommand, wrong.c_str()), kExitUsage;
  if (!playMachine(kCommand, options.machine.software, options.machine.host)) return kExitUsage;
  options.rules = rulesOf(options.machine);
  if (!options.hosts_file.empty()) return withHostsOfFile(options);
  if (!options.host.empty()) return withHosts(options, {options.host}, true);
  const auto identity = rankFromEnvironment(std::getenv, options.address);
  if (!identity.ok()) return say("%s: %s", kCommand, identity.error().c_str()), kExitUsage;
  // A job of one rank (a batch script of Slurm) has no other end.
  const bool ranks = identity->has_value() && (*identity)->size > 1;
  return ranks ? asRank(options, **identity) : withItself(options);
}

}  // namespace railwise::cli
