// railwise topo expect: the time and the bus bandwidth of a collective on a machine, by NCCL's own model.
#include "topo/tuning/expect.h"

#include <array>
#include <cstdlib>
#include <optional>

#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "topo/outputs/outputs.h"

namespace railwise::cli {
namespace {

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
    "note names where they are set here. alltoall: an estimate "
    "of Railwise, since NCCL has no model of it.\n"
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
