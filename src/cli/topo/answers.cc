// railwise topo graphs, transports and expect: what NCCL makes of a machine: the channels that its search
// finds, how it connects each pair of GPUs, and what a collective takes.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "topo/outputs/outputs.h"
#include "topo/search/search.h"
#include "topo/transports/transports.h"
#include "topo/tuning/expect.h"

namespace railwise::cli {
namespace {

constexpr const char* kGraphsHelp =
    "usage: railwise topo graphs [FILE] [--root DIR|TAR] [options]\n\n"
    "Shows the channels that NCCL's search finds on the machine: the order of the GPUs and the NICs of each "
    "ring, tree, CollNet and NVLS graph, their bandwidth and their path types; for the machine alone, and "
    "with a second, equal one. --why tells what the search tried. The form xml is that of "
    "NCCL_GRAPH_DUMP_FILE; with NCCL_GRAPH_FILE set, or with --graph-file, the graphs of that file are "
    "taken, as NCCL takes them.\n"
    "Exit status: 0 all right, 1 the machine or the graph file cannot be read, or NCCL's init would fail; 2 "
    "a mistake on the command line.\n\n";

// A graph file has one communicator: that of rank 0, as NCCL_GRAPH_DUMP_FILE does.
Outcome<std::string> xmlOf(const topo::Machine& machine, const std::vector<topo::DomainGraphs>& graphs,
                           int nodes) {
  const auto& found = nodes == 2 ? graphs[0].two_hosts : graphs[0].one_host;
  if (!found) return Error{"the machine has no NIC, and its ranks cannot reach others"};
  return topo::graphFileText(*found, *machine.domains[0].graph, *machine.settings);
}

constexpr const char* kTransportsHelp =
    "usage: railwise topo transports [FILE] [--root DIR|TAR] [options]\n\n"
    "How NCCL connects each pair of GPUs, and why: P2P (by a pointer, CUDA IPC, cuMem or over an NVLink "
    "domain; directly or via a third GPU; the sender writes or the receiver reads), SHM, or NET with the "
    "NICs of both ends. NCCL's variables (NCCL_P2P_LEVEL, NCCL_SHM_DISABLE, NCCL_CUMEM_ENABLE, ...) count. "
    "With --from and --to: every step of the choice, and the line of NCCL's log that shows it.\n"
    "Exit status: 0 all right, 1 the machine cannot be read, 2 a mistake on the command line (also a GPU "
    "that is not there).\n\n";

// `nodes` 2: a row shows both hosts, and ranks of the second one have no option of their own.
bool hasRank(const topo::Transports& transports, const char* option, int rank, int nodes) {
  const std::vector<int>& ranks = transports.ranks();
  if (rank < 0 || std::binary_search(ranks.begin(), ranks.end(), rank)) return true;
  const int there = rank - static_cast<int>(ranks.size());
  const bool other_host = nodes == 2 && std::binary_search(ranks.begin(), ranks.end(), there);
  say("topo transports: %s=%d: this machine has no GPU with rank %d; its ranks are %d to %d%s", option, rank,
      rank, ranks.front(), ranks.back(),
      other_host
          ? textOf("; rank %d of the other host is in the answer of %s=%d", rank, option, there).c_str()
          : "");
  return false;
}

using topo::tuning::Collective;

constexpr int kAllToAllChoice = -1;
constexpr std::array<Choice<int>, 6> kExpectCollectives = {
    {{"all_reduce", static_cast<int>(Collective::kAllReduce)},
     {"all_gather", static_cast<int>(Collective::kAllGather)},
     {"reduce_scatter", static_cast<int>(Collective::kReduceScatter)},
     {"broadcast", static_cast<int>(Collective::kBroadcast)},
     {"reduce", static_cast<int>(Collective::kReduce)},
     {"alltoall", kAllToAllChoice}}};

constexpr const char* kExpectHelp =
    "usage: railwise topo expect [FILE] [--root DIR|TAR] [options]\n\n"
    "Shows what NCCL expects of a collective on the machine: the algorithm and the protocol that it takes "
    "for each size, the time and the bus bandwidth (as nccl-tests counts), the peak, and what limits it. The "
    "numbers are those of NCCL's own model, without NCCL_ALGO, NCCL_PROTO, a tuner and the like, which a "
    "note names where they are set here. alltoall: an estimate of Railwise, since NCCL has no model of it.\n"
    "Exit status: 0 all right, 1 the machine cannot be read, 2 a mistake on the command line.\n\n";

// From 1 KiB to 8 GiB, in steps of 8.
std::vector<std::size_t> usualSizes() {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 1024; bytes <= (std::size_t{8} << 30); bytes *= 8) sizes.push_back(bytes);
  return sizes;
}

// What is set here, and makes NCCL choose otherwise.
void noteUnmodelled() {
  for (const char* name : topo::tuning::kUnmodelled)
    if (const char* const value = std::getenv(name))
      say("topo expect: note: %s=%s is not in the model: NCCL may choose otherwise here", name, value);
}

}  // namespace

int topoGraphsCommand(Args args) {
  MachineOptions machine;
  int nodes = 0;
  bool why = false;
  std::string graph_file;
  Output output;
  std::vector<Option> table = {
      intOption('n', "nodes", &nodes, 1, 2,
                "1: the machine alone; 2: with a second, equal one (default: both; xml: 1)"),
      flagOption('w', "why", &why, "also tell what the search tried (text, json)"),
      graphFileOption(&graph_file)};
  addOutputOptions(table, output, {"text", "json", "xml"});
  addMachineOptions(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave("topo graphs", table, args, kGraphsHelp, 1, &status);
  if (!arguments) return status;
  auto opened = openMachine("topo graphs", arguments->first(), machine, &status);
  if (!opened) return status;
  if (!takeGraphFile("topo graphs", graph_file, machine.quiet, *opened)) return kExitFailed;
  if (output.is("xml") && nodes == 0) nodes = 1;
  const auto graphs =
      topo::searchMachine(*opened, {.one_host = nodes != 2, .two_hosts = nodes != 1, .traces = why});
  if (!graphs.ok()) return leave(kExitFailed, "topo graphs: %s", graphs.error().c_str());
  const bool any =
      std::ranges::any_of(*graphs, [](const topo::DomainGraphs& of) { return of.one_host || of.two_hosts; });
  if (!any && !output.json())
    return leave(
        kExitFailed,
        "topo graphs: no GPU reaches a NIC, so two machines have no communicator: leave --nodes=2 out");
  if (output.is("text")) return writeOutput("topo graphs", output, topo::graphsText(*opened, *graphs, why));
  if (output.json()) return writeOutput("topo graphs", output, topo::graphsJson(*opened, *graphs, why));
  if (graphs->size() > 1 && !machine.quiet)
    say("topo graphs: note: NCCL splits this machine into %zu parts; the graphs of the first one are written",
        graphs->size());
  const auto xml = xmlOf(*opened, *graphs, nodes);
  if (!xml.ok()) return leave(kExitFailed, "topo graphs: %s", xml.error().c_str());
  return writeOutput("topo graphs", output, *xml);
}

int topoTransportsCommand(Args args) {
  MachineOptions machine;
  topo::TransportsShown shown;
  bool one_process = false;
  Output output;
  std::vector<Option> table = {
      intOption(0, "from", &shown.from, 0, 1 << 20, "only the pairs that this rank sends in"),
      intOption(0, "to", &shown.to, 0, 1 << 20, "only the pairs that this rank receives in"),
      intOption('n', "nodes", &shown.nodes, 1, 2, "2: also to another host like this (default 1)"),
      intOption('c', "channel", &shown.channel, 0, 63, "the NICs of this channel (default 0)"),
      flagOption(0, "one-process", &one_process,
                 "the GPUs of a host belong to one process (default: a process for each)")};
  addOutputOptions(table, output);
  addMachineOptions(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave("topo transports", table, args, kTransportsHelp, 1, &status);
  if (!arguments) return status;
  machine.say_remarks = output.json();  // the text itself contains the notes
  const auto opened = openMachine("topo transports", arguments->first(), machine, &status);
  if (!opened) return status;
  topo::Job job = topo::jobOn(*opened);
  job.one_process = one_process;
  const topo::Transports transports(*opened, job);
  if (!hasRank(transports, "--from", shown.from, shown.nodes) ||
      !hasRank(transports, "--to", shown.to, shown.nodes))
    return kExitUsage;
  if (shown.from >= 0 && shown.from == shown.to && shown.nodes == 1)
    return leave(
        kExitUsage,
        "topo transports: a GPU needs no transport to itself; --nodes=2 shows the pair of two hosts");
  return writeOutput(
      "topo transports", output,
      output.json() ? topo::transportsJson(transports, shown) : topo::transportsText(transports, shown));
}

int topoExpectCommand(Args args) {
  MachineOptions machine;
  int nodes = 1;
  int collective = static_cast<int>(Collective::kAllReduce);
  uint64_t size = 0;
  bool no_nvls = false;
  std::string graph_file;
  Output output;
  constexpr int kMostNodes = 1 << 20;
  constexpr uint64_t kMostBytes = uint64_t{1} << 50;
  std::vector<Option> table = {
      intOption('n', "nodes", &nodes, 1, kMostNodes, "equal machines in the communicator (default: 1)"),
      choiceOption<int>('c', "collective", kExpectCollectives, &collective,
                        "all_reduce (default), all_gather, reduce_scatter, broadcast, reduce or alltoall"),
      sizeOption('s', "size", &size, kMostBytes, "this size only, such as 64M (default: 1K to 8G)"),
      flagOption(0, "no-nvls", &no_nvls, "without NVLS: NCCL_NVLS_ENABLE=0, or a driver without multicast"),
      graphFileOption(&graph_file)};
  addOutputOptions(table, output);
  addMachineOptions(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave("topo expect", table, args, kExpectHelp, 1, &status);
  if (!arguments) return status;
  auto opened = openMachine("topo expect", arguments->first(), machine, &status);
  if (!opened) return status;
  if (!takeGraphFile("topo expect", graph_file, machine.quiet, *opened)) return kExitFailed;
  if (!machine.quiet) noteUnmodelled();
  const std::vector<std::size_t> sizes = size > 0 ? std::vector<std::size_t>{size} : usualSizes();
  topo::tuning::Question question{.nodes = nodes, .nvls = !no_nvls};
  question.collective =
      collective == kAllToAllChoice ? std::nullopt : std::optional(static_cast<Collective>(collective));
  const auto expectations = topo::tuning::expectOn(*opened, question, sizes);
  if (!expectations.ok())
    return leave(kExitFailed, "topo expect: %s%s", expectations.error().c_str(),
                 expectations.failure().code == Code::kNoDevice ? ": leave --nodes out" : "");
  return writeOutput("topo expect", output,
                     output.json() ? topo::expectationJson(*opened, *expectations)
                                   : topo::expectationText(*opened, *expectations));
}

}  // namespace railwise::cli
