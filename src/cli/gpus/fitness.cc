// railwise gpus fitness: how well the hosts and GPUs of a job fit together.
#include <algorithm>

#include "base/text/json.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "gpu/choose/choose.h"
#include "gpu/choose/hosts.h"
#include "topo/choice/pick.h"
#include "topo/explain/describe.h"

namespace railwise::cli {
namespace {

constexpr const char* kFitness = "gpus fitness";

constexpr const char* kFitnessHelp =
    "usage: railwise gpus fitness --hosts FILE --nodes LIST [--gpus K [FILE] [options]]\n\n"
    "Compares places for a job: the higher, the better its hosts fit together. 0.7 x inter + 0.3 x intra. "
    "inter is 1 - (switch groups that the job touches / switch groups that there are): 0 where there is one "
    "group. "
    "intra is the slowest pair of the K "
    "GPUs that railwise gpus pick takes / the fastest pair of the machine; 1 without --gpus. On one host the "
    "fitness is intra alone.\n"
    "Exit status: 0 all right, 1 a file or the machine cannot be read, 2 a mistake on the command line (also "
    "a host that is in no group).\n\n";

struct Fitness {
  std::vector<std::string> nodes;
  int groups_needed = 0;
  int groups_available = 0;
  double inter = 0;
  double intra = 1;
  double total = 0;
  bool has_gpus = false;
  std::vector<int> gpus;  // ranks
};

// Fills gpus and intra. Not kExitOk: the reason was said.
int addIntra(Fitness& fitness, int count, const std::string& file, MachineOptions& options) {
  bool without_gpus = false;
  int status = kExitOk;
  options.without_gpus = &without_gpus;
  const auto machine = openMachine(kFitness, file, options, &status);
  if (without_gpus)
    say("%s: %s has no GPU; give a topology FILE, --root or --machine", kFitness,
        subjectOf(file, options).c_str());
  if (!machine) return status;
  const topo::GpuTable table = topo::gpuTable(*machine);
  const gpu::ChoiceQuestion question = table.question({});
  const auto answer = gpu::chooseGpus(question, count);
  if (!answer.ok()) return leave(kExitUsage, "%s: --gpus: %s", kFitness, answer.error().c_str());
  fitness.has_gpus = true;
  fitness.intra = gpu::intraFitness(question.pair_gb_per_s, question.gpus, answer->best.gpus);
  for (const int row : answer->best.gpus)
    fitness.gpus.push_back(table.rows[static_cast<std::size_t>(row)].rank());
  return kExitOk;
}

std::string number(double value) { return textOf("%.4g", value); }

std::string fitnessText(const Fitness& fitness) {
  std::string text = "fitness " + number(fitness.total) + "\n";
  text += "  inter " + number(fitness.inter) + ": " +
          counted(static_cast<int>(fitness.nodes.size()), "host") + " in " +
          std::to_string(fitness.groups_needed) + " of " + counted(fitness.groups_available, "switch group") +
          "\n";
  text += "  intra " + number(fitness.intra) + ": " +
          (fitness.has_gpus ? "GPUs " + topo::rangesText(fitness.gpus) +
                                  " of each host, slowest pair / fastest pair of the host"
                            : std::string("no GPUs were named (--gpus K)")) +
          "\n";
  return text + (fitness.nodes.size() > 1 ? "  0.7 x inter + 0.3 x intra\n" : "  one host: intra alone\n");
}

std::string fitnessJson(const Fitness& fitness) {
  JsonWriter json;
  json.beginObject().key("schema").value("railwise-gpus-fitness").key("schema_version").value(1);
  json.key("fitness")
      .value(fitness.total)
      .key("inter")
      .value(fitness.inter)
      .key("intra")
      .value(fitness.intra);
  json.key("groups_needed")
      .value(fitness.groups_needed)
      .key("groups_available")
      .value(fitness.groups_available);
  json.key("nodes").row(fitness.nodes);
  json.key("gpus");
  fitness.has_gpus ? json.row(fitness.gpus) : json.null();
  json.endObject();
  return json.text();
}

// "" or the host that is named twice.
std::string namedTwice(std::vector<std::string> nodes) {
  std::ranges::sort(nodes);
  const auto twice = std::adjacent_find(nodes.begin(), nodes.end());
  return twice == nodes.end() ? "" : *twice;
}

}  // namespace

int gpusFitnessCommand(Args args) {
  MachineOptions machine;
  std::string hosts;
  std::string nodes;
  int gpus = 0;
  Output output;
  std::vector<Option> table = {
      textOption(0, "hosts", "FILE", &hosts,
                 "the switch group of each host: 'host TAB group' lines, or Slurm's topology.conf"),
      textOption(0, "nodes", "LIST", &nodes, "the hosts of the job, e.g. node[1-4,7]"),
      intOption('g', "gpus", &gpus, 1, 1 << 20,
                "how many GPUs of each host; the hosts are like the machine of FILE")};
  addOutputOptions(table, output);
  addMachineOptions(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave(kFitness, table, args, kFitnessHelp, 1, &status);
  if (!arguments) return status;
  if (hosts.empty() || nodes.empty())
    return leave(kExitUsage, "%s: --hosts FILE and --nodes LIST are needed (railwise gpus fitness --help)",
                 kFitness);
  const std::string file = arguments->first();
  if (gpus == 0 && (!file.empty() || machine.elsewhere()))
    return leave(kExitUsage, "%s: a machine says nothing without --gpus K", kFitness);
  const auto names = gpu::expandHosts(nodes);
  if (!names.ok()) return leave(kExitUsage, "%s: --nodes: %s", kFitness, names.error().c_str());
  if (const std::string twice = namedTwice(*names); !twice.empty())
    return leave(kExitUsage, "%s: --nodes: %s is named twice", kFitness, twice.c_str());
  const auto groups = gpu::readHostGroups(hosts);
  if (!groups.ok()) return leave(kExitFailed, "%s: --hosts: %s", kFitness, groups.error().c_str());
  const auto needed = groups->groupsOf(*names);
  if (!needed.ok())
    return leave(kExitUsage, "%s: --nodes: %s of %s; correct the name, or add the host there", kFitness,
                 needed.error().c_str(), hosts.c_str());
  Fitness fitness{.nodes = *names, .groups_needed = *needed, .groups_available = groups->groups()};
  if (gpus > 0 && (status = addIntra(fitness, gpus, file, machine)) != kExitOk) return status;
  fitness.inter = gpu::interFitness(fitness.groups_needed, fitness.groups_available);
  fitness.total = gpu::totalFitness(static_cast<int>(fitness.nodes.size()), fitness.inter, fitness.intra);
  return writeOutput(kFitness, output, output.json() ? fitnessJson(fitness) : fitnessText(fitness));
}

}  // namespace railwise::cli
