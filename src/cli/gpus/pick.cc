// railwise gpus pick: which K GPUs of a machine a job should take, and why.
#include "cli/gpus/pick.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "cli/gpus/commands.h"
#include "cli/gpus/device_nodes.h"
#include "cli/gpus/gpu_table.h"
#include "cli/options/command_line.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "gpu/choose/fitness.h"
#include "gpu/choose/ring.h"
#include "topo/explain/describe.h"
#include "topo/explain/gpu_topology.h"

namespace railwise::cli {
namespace {

constexpr int kMostGpus = 1 << 20;
constexpr int kMostNodes = 1 << 20;

constexpr const char* kPickHelp =
    "usage: railwise gpus pick K [FILE] [--of LIST] [--exclude LIST] [--nic NAME] [--json|--env|--cgroup] "
    "[options]\n"
    "       railwise gpus pick K --machine A.tar.gz --machine B.tar.gz ... [--nodes N] [--hosts FILE] "
    "[--json]\n\n"
    "Says which K GPUs a job should take: the set whose slowest pair of GPUs has the most bandwidth; then "
    "the most\n"
    "bandwidth over all pairs; then the most GPUs with a near NIC of their own; then the lowest numbers. "
    "GPUs on "
    "which a process\n"
    "has memory are left out. Of several machines (recorded by railwise topo record) it says which N to "
    "take. "
    "FILE is an NCCL\n"
    "(or RCCL) topology file; without one, this machine. docs/gpus-pick.md has the rule in full.\n"
    "Exit status: 0 all right, 1 the machine cannot be read or has no GPU, 2 a mistake on the command line "
    "(also a GPU\n"
    "or a NIC that is not there).\n\n";

struct Picked {
  const topo::Machine& machine;
  const GpuTable& table;
  gpu::ChoiceAnswer answer;
  std::vector<int> left_out;  // ranks of GPUs that processes use
  std::vector<int> ring;      // rows
  double intra = 0;           // fitness
};

// The kind of path of the slowest pair.
topo::PathType slowestType(const GpuTable& table, const gpu::GpuSet& set) {
  auto type = topo::PathType::kLoc;
  for (const int a : set.gpus)
    for (const int b : set.gpus) {
      const PairLink& link = table.pair(static_cast<std::size_t>(a), static_cast<std::size_t>(b));
      if (a != b && std::llround(link.gb_per_s * 1000) == set.score.slowest_pair_mbps)
        type = std::max(type, link.type);
    }
  return type;
}

std::string linksText(const Picked& picked, const gpu::GpuSet& set) {
  if (set.gpus.size() < 2) return "one GPU has no pair";
  return "slowest pair " + mbpsText(set.score.slowest_pair_mbps) + " (" +
         typeText(*picked.machine.graph, slowestType(picked.table, set)) + "), all pairs together " +
         mbpsText(set.score.all_pairs_mbps);
}

const topo::NearNic& nicOf(const GpuTable& table, int row, int net) {
  const auto& nics = table.nics[static_cast<std::size_t>(row)];
  return *std::find_if(nics.begin(), nics.end(), [&](const topo::NearNic& nic) { return nic.net == net; });
}

std::string nicsText(const Picked& picked, const gpu::GpuSet& set) {
  std::string text;
  for (std::size_t i = 0; i < set.gpus.size(); ++i) {
    const int row = set.gpus[i];
    if (set.nics[i] < 0) continue;
    const topo::NearNic& nic = nicOf(picked.table, row, set.nics[i]);
    text += (text.empty() ? "" : "\n              ") +
            ("GPU " + std::to_string(picked.table.rows[static_cast<std::size_t>(row)].rank())) + " " +
            topo::netName(*picked.machine.graph, nic.net) + " (" + topo::pathTypeName(nic.type) + ", " +
            topo::gbText(static_cast<float>(nic.gb_per_s)) + " GB/s)";
  }
  return text.empty() ? "none" : text;
}

std::string ringText(const std::vector<int>& ring, const std::vector<int>& ranks) {
  std::string text;
  for (const int row : ring)
    text += (text.empty() ? "" : " -> ") + std::to_string(ranks[static_cast<std::size_t>(row)]);
  return text;
}

std::string pickText(const Picked& picked) {
  const std::vector<int> ranks = picked.table.ranks();
  const gpu::ChoiceAnswer& answer = picked.answer;
  const std::string plural = answer.best.gpus.size() == 1 ? "GPU " : "GPUs ";
  std::string text =
      plural + gpu::namesText(answer.best.gpus, ranks) + " of " + std::to_string(ranks.size()) + "\n";
  text += "  ring order  " + ringText(picked.ring, ranks) + "\n";
  text += "  links       " + linksText(picked, answer.best) + "\n";
  text += "  NICs        " + nicsText(picked, answer.best) + "\n";
  text += "  fitness     " + topo::gbText(static_cast<float>(picked.intra)) + " within the host\n";
  text += "  why         " + gpu::whyText(answer, ranks) + "\n";
  if (!picked.left_out.empty())
    text += std::string("  left out    ") + (picked.left_out.size() == 1 ? "GPU " : "GPUs ") +
            topo::rangesText(picked.left_out) + ": in use by a process (--occupied takes them too)\n";
  if (answer.second)
    text += "  second best " + plural + gpu::namesText(answer.second->gpus, ranks) + ": " +
            linksText(picked, *answer.second) + "\n";
  return text;
}

void writeSet(JsonWriter& json, const Picked& picked, const gpu::GpuSet& set) {
  const auto row = [&](int gpu) -> const GpuRow& { return picked.table.rows[static_cast<std::size_t>(gpu)]; };
  json.key("gpus").beginRow();
  for (const int gpu : set.gpus) json.value(row(gpu).rank());
  json.endRow().key("busids").beginRow();
  for (const int gpu : set.gpus) json.value(row(gpu).busid);
  json.endRow().key("slowest_pair_gb_per_s");
  set.gpus.size() < 2 ? json.null() : json.value(static_cast<double>(set.score.slowest_pair_mbps) / 1000);
  json.key("slowest_pair_type");
  set.gpus.size() < 2 ? json.null() : json.value(topo::pathTypeName(slowestType(picked.table, set)));
  json.key("all_pairs_gb_per_s").value(static_cast<double>(set.score.all_pairs_mbps) / 1000);
  json.key("gpus_with_nic").value(set.score.with_nic).key("nics").beginArray();
  for (std::size_t i = 0; i < set.gpus.size(); ++i) {
    if (set.nics[i] < 0) continue;
    const topo::NearNic& nic = nicOf(picked.table, set.gpus[i], set.nics[i]);
    json.beginInlineObject()
        .key("gpu")
        .value(row(set.gpus[i]).rank())
        .key("nic")
        .value(topo::netName(*picked.machine.graph, nic.net));
    json.key("type")
        .value(topo::pathTypeName(nic.type))
        .key("gb_per_s")
        .value(static_cast<float>(nic.gb_per_s))
        .endInlineObject();
  }
  json.endArray();
}

std::string pickJson(const Picked& picked) {
  const gpu::ChoiceAnswer& answer = picked.answer;
  JsonWriter json;
  json.beginObject().key("schema").value("railwise-gpus-pick").key("schema_version").value(1);
  json.key("machine").value(picked.machine.name);
  writeSet(json, picked, answer.best);
  json.key("ring").beginRow();
  for (const int row : picked.ring) json.value(picked.table.rows[static_cast<std::size_t>(row)].rank());
  json.endRow().key("left_out").beginRow();
  for (const int rank : picked.left_out) json.value(rank);
  json.endRow().key("fitness_intra").value(picked.intra).key("exact").value(answer.exact);
  json.key("equally_good");
  answer.equally_good ? json.value(*answer.equally_good) : json.null();
  json.key("why").value(gpu::whyText(answer, picked.table.ranks())).key("second");
  if (answer.second) {
    json.beginObject();
    writeSet(json, picked, *answer.second);
    json.endObject();
  } else {
    json.null();
  }
  json.endObject();
  return json.text();
}

// The rows whose GPU has memory of a process, or a MIG instance with one, as the vendor's library says.
std::vector<int> occupiedRows(const topo::Machine& machine, const GpuTable& table) {
  std::vector<int> rows;
  const gpu::GpuTopology topology = topo::gpuTopology(machine);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto device = std::find_if(topology.gpus.begin(), topology.gpus.end(), [&](const gpu::Device& one) {
      return one.rank == table.rows[row].rank();
    });
    if (device == topology.gpus.end()) continue;
    const bool used = std::any_of(topology.gpus.begin(), topology.gpus.end(), [&](const gpu::Device& one) {
      return (one.index == device->index || one.parent == device->index) && one.processes.value_or(0) > 0;
    });
    if (used) rows.push_back(static_cast<int>(row));
  }
  return rows;
}

}  // namespace

std::string mbpsText(int64_t mbps) { return topo::gbText(static_cast<float>(mbps) / 1000) + " GB/s"; }

Outcome<gpu::ChoiceQuestion> makeQuestion(const topo::Machine& machine, const GpuTable& table,
                                          const PickOptions& options, std::vector<int>* left_out) {
  std::vector<int> nets;
  if (!options.nic.empty()) {
    auto named = netsOf(*machine.graph, options.nic);
    if (!named.ok()) return Error{"--nic: " + named.error()};
    nets = std::move(*named);
  }
  gpu::ChoiceQuestion question = table.question(nets);
  if (!options.of.empty()) {
    auto rows = rowsOf(table, options.of);
    if (!rows.ok()) return Error{"--of: " + rows.error()};
    question.allowed = std::move(*rows);
  }
  if (!options.exclude.empty()) {
    auto rows = rowsOf(table, options.exclude);
    if (!rows.ok()) return Error{"--exclude: " + rows.error()};
    question.excluded = std::move(*rows);
  }
  if (!options.occupied) question.occupied = occupiedRows(machine, table);
  for (const int row : question.occupied)
    left_out->push_back(table.rows[static_cast<std::size_t>(row)].rank());
  return question;
}

namespace {

// What the process needs to get the GPUs: --env and --cgroup.
int writeForProcess(const Picked& picked, const PickOptions& options, const std::string& file) {
  std::vector<std::string> notes;
  std::unique_ptr<sysfs::FileTree> tree;
  if (options.cgroup && file.empty() && options.machine.software.empty())
    tree = openRoot(kPick, options.machine.root);
  const auto text = options.env ? environmentText(picked.machine, picked.table, picked.ring)
                                : deviceNodesText(picked.machine, picked.table, picked.answer.best.gpus,
                                                  tree.get(), &notes);
  if (!text.ok()) return say("%s: %s", kPick, text.error().c_str()), kExitUsage;
  if (!options.machine.quiet) sayNotes(kPick, notes);
  return writeOutput(kPick, "", *text);
}

int pick(int count, const topo::Machine& machine, const PickOptions& options, const std::string& file) {
  const GpuTable table = gpuTable(machine);
  std::vector<int> left_out;
  const auto question = makeQuestion(machine, table, options, &left_out);
  if (!question.ok()) return say("%s: %s", kPick, question.error().c_str()), kExitUsage;
  auto answer = gpu::chooseGpus(*question, count);
  if (!answer.ok())
    return say("%s: %s: %s%s; ask for fewer, or change --of and --exclude", kPick, machine.name.c_str(),
               answer.error().c_str(),
               left_out.empty()
                   ? ""
                   : (" (in use: " + topo::rangesText(left_out) + "; --occupied takes them too)").c_str()),
           kExitUsage;
  Picked picked{
      .machine = machine, .table = table, .answer = std::move(*answer), .left_out = std::move(left_out)};
  picked.ring = gpu::ringOrder(question->pair_gb_per_s, question->gpus, picked.answer.best.gpus);
  picked.intra = gpu::intraFitness(question->pair_gb_per_s, question->gpus, picked.answer.best.gpus);
  if (options.env || options.cgroup) return writeForProcess(picked, options, file);
  return writeOutput(kPick, "", options.json ? pickJson(picked) : pickText(picked));
}

// --machine may be given several times; each is kept.
void takeEveryMachine(std::vector<Option>& table, PickOptions& options) {
  for (Option& option : table) {
    if (option.long_name != "machine") continue;
    option.accept = [accept = option.accept, &options](std::string_view value) {
      options.machines.emplace_back(value);
      return accept(value);
    };
  }
}

}  // namespace

int gpusPickCommand(Args args) {
  PickOptions options;
  std::vector<Option> table = {
      textOption(0, "of", "LIST", &options.of, "choose only among these GPUs: ranks, e.g. 0-3,7"),
      textOption(0, "exclude", "LIST", &options.exclude, "leave these GPUs out, e.g. those that a job has"),
      textOption(0, "nic", "NAME", &options.nic, "only this NIC counts, or these: mlx5_0,mlx5_1"),
      flagOption(0, "occupied", &options.occupied, "also GPUs on which a process has memory"),
      intOption('N', "nodes", &options.nodes, 1, kMostNodes,
                "of several --machine: how many of them (default 1), K GPUs of each"),
      textOption(
          0, "hosts", "FILE", &options.hosts,
          "of several --machine: their switch groups, 'host TAB group' lines or Slurm's topology.conf"),
      flagOption('j', "json", &options.json, "JSON instead of text"),
      flagOption(0, "env", &options.env,
                 "the variables that show a process these GPUs only, in the order of a ring"),
      flagOption(0, "cgroup", &options.cgroup, "the device nodes that the process must be able to open")};
  addMachineOptions(table, options.machine);
  takeEveryMachine(table, options);
  int status = kExitOk;
  const auto arguments = parseOrLeave(kPick, table, args, kPickHelp, 2, &status);
  if (!arguments) return status;
  if (arguments->positional.empty()) return say("%s: how many GPUs? railwise gpus pick K", kPick), kExitUsage;
  const auto count = parseInt(arguments->positional[0], 1, kMostGpus);
  if (!count)
    return say("%s: '%s' is no number of GPUs, such as 4", kPick, arguments->positional[0].c_str()),
           kExitUsage;
  if (int{options.json} + int{options.env} + int{options.cgroup} > 1)
    return say("%s: --json, --env and --cgroup are three outputs: name one", kPick), kExitUsage;
  if (options.machines.size() > 1) {
    if (arguments->positional.size() > 1 || !options.machine.root.empty() || options.env || options.cgroup)
      return say("%s: with several --machine there is no FILE, --root, --env or --cgroup: name one machine "
                 "for these",
                 kPick),
             kExitUsage;
    return pickOfNodes(*count, options);
  }
  if (options.nodes > 0 || !options.hosts.empty())
    return say("%s: --nodes and --hosts are for several machines: give --machine more than once", kPick),
           kExitUsage;
  const std::string file = arguments->positional.size() > 1 ? arguments->positional[1] : "";
  bool without_gpus = false;
  options.machine.without_gpus = &without_gpus;
  takeRecording(options.machine);
  const auto machine = openMachine(kPick, file, options.machine);
  if (without_gpus)
    say("%s: this machine has no GPU by NVIDIA or AMD; give a topology FILE, --root or --machine for another "
        "machine",
        kPick);
  if (!machine) return kExitFailed;
  return pick(*count, *machine, options, file);
}

}  // namespace railwise::cli
