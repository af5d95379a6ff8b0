// railwise gpus pick: which K GPUs of a machine a job should take, and why.
#include "topo/choice/pick.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/options/options.h"
#include "cli/topo/machine_options.h"
#include "gpu/choose/hosts.h"
#include "sysfs/file_tree.h"
#include "sysfs/tar_archive.h"
#include "topo/explain/describe.h"
#include "topo/exports/host_view.h"

namespace railwise::cli {
namespace {

inline constexpr const char* kPick = "gpus pick";

struct PickOptions {
  MachineOptions machine;
  std::vector<std::string> machines;  // of --machine, each time that it was given
  topo::PickWishes wishes;
  std::string hosts;  // file of switch groups
  int nodes = 0;      // 0: not given
  Output output;
  bool env = false;
  bool cgroup = false;
  bool slurm = false;
};

// "370.8 GB/s"
std::string mbpsText(int64_t mbps) { return topo::gbText(static_cast<float>(mbps) / 1000) + " GB/s"; }

// How a process is given chosen GPUs and no others: by environment variables, or by the device nodes that its
// cgroup may open.

const topo::GpuRow& rowAt(const topo::GpuTable& table, int row) {
  return table.rows[static_cast<std::size_t>(row)];
}

// "" or why these GPUs cannot be given to one process.
std::string severalHosts(const topo::GpuTable& table, const std::vector<int>& rows) {
  for (const int row : rows)
    if (rowAt(table, row).host != rowAt(table, rows[0]).host)
      return "the chosen GPUs are in several hosts, and a process sees the GPUs of one; name the GPUs of a "
             "host with --of";
  return "";
}

// "CUDA_VISIBLE_DEVICES=2,3" and the variable that makes CUDA count as NVML does, or
// "ROCR_VISIBLE_DEVICES=...". `rows`: in the order in which the process shall see them. An error: they are of
// several hosts.
Outcome<std::string> environmentText(const topo::Machine& machine, const topo::GpuTable& table,
                                     const std::vector<int>& rows) {
  if (std::string wrong = severalHosts(table, rows); !wrong.empty()) return Error{std::move(wrong)};
  const std::string devices =
      joined(rows, ",", [&](int row) { return std::to_string(rowAt(table, row).dev); });
  if (topo::isAmd(*machine.graph)) return "ROCR_VISIBLE_DEVICES=" + devices + "\n";
  return "CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=" + devices + "\n";
}

// The options of srun by which each of its tasks on the node gets one of the GPUs, task 0 the first of the
// ring.
Outcome<std::string> slurmText(const topo::GpuTable& table, const std::vector<int>& rows) {
  if (std::string wrong = severalHosts(table, rows); !wrong.empty()) return Error{std::move(wrong)};
  return "--ntasks-per-node=" + std::to_string(rows.size()) + " --gpu-bind=map_gpu:" +
         joined(rows, ",", [&](int row) { return std::to_string(rowAt(table, row).dev); }) + "\n";
}

// The device nodes, one a line. `tree`: where the names of AMD's render nodes are looked up; null, or without
// them: they are assumed, and `notes` says so. An error: the rows are of several hosts.
Outcome<std::string> deviceNodesText(const topo::Machine& machine, const topo::GpuTable& table,
                                     const std::vector<int>& rows, const sysfs::FileTree* tree,
                                     std::vector<std::string>* notes) {
  if (std::string wrong = severalHosts(table, rows); !wrong.empty()) return Error{std::move(wrong)};
  std::string text;
  if (!topo::isAmd(*machine.graph)) {
    for (const int row : rows) text += topo::gpuDeviceFile(false, rowAt(table, row).dev, "") + "\n";
    notes->push_back(
        "the numbers of /dev/nvidia* are NVML's indices, as drivers give them; nvidia-smi -q says 'Minor "
        "Number'");
    return text + "/dev/nvidiactl\n/dev/nvidia-uvm\n";
  }
  text = "/dev/kfd\n";
  bool assumed = false;
  for (const int row : rows) {
    const topo::GpuRow& gpu = rowAt(table, row);
    const auto names = tree == nullptr ? std::vector<std::string>()
                                       : tree->list("/sys/bus/pci/devices/" + gpu.busid + "/drm");
    const auto render =
        std::ranges::find_if(names, [](const std::string& name) { return name.starts_with("renderD"); });
    assumed = assumed || render == names.end();
    text += topo::gpuDeviceFile(true, gpu.dev, render != names.end() ? *render : "") + "\n";
  }
  if (assumed)
    notes->push_back("the numbers of the render nodes are assumed; ls -l /dev/dri/by-path says them");
  return text;
}

constexpr int kMostGpus = 1 << 20;
constexpr int kMostNodes = 1 << 20;

constexpr const char* kPickHelp =
    "usage: railwise gpus pick K [FILE] [--of LIST] [--exclude LIST] [--nic NAME] "
    "[--json|--env|--slurm|--cgroup] [options]\n"
    "       railwise gpus pick K --machine A.tar.gz --machine B.tar.gz ... [--nodes N] [--hosts FILE] "
    "[--json]\n\n"
    "Says which K GPUs a job should take: the set whose slowest pair of GPUs has the most bandwidth; then "
    "the most bandwidth over all pairs; then the most GPUs with a near NIC of their own; then the fewest "
    "NUMA nodes; then the lowest numbers. GPUs on which a process has memory are left out. Of several "
    "machines (recorded by railwise topo record) it says which N to take. FILE is an NCCL (or RCCL) topology "
    "file; without one, this machine. docs/gpus.md has the rule in full.\n"
    "Exit status: 0 all right, 1 the machine cannot be read or has no GPU, 2 a mistake on the command line "
    "(also a GPU or a NIC that is not there).\n\n";

struct Picked {
  const topo::Machine& machine;
  const topo::GpuTable& table;
  topo::Pick pick;
};

std::string linksText(const Picked& picked, const gpu::GpuSet& set) {
  if (set.gpus.size() < 2) return "one GPU has no pair";
  return "slowest pair " + mbpsText(set.score.slowest_pair_mbps) + " (" +
         topo::typeText(*picked.machine.graph, topo::slowestType(picked.table, set)) +
         "), all pairs together " + mbpsText(set.score.all_pairs_mbps);
}

// A line for each GPU of the best set that has a NIC.
std::vector<std::string> nicTexts(const Picked& picked) {
  const std::vector<int> ranks = picked.table.ranks();
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < picked.pick.best_nics.size(); ++i)
    if (const auto& nics = picked.pick.best_nics[i]; !nics.empty())
      texts.push_back("GPU " +
                      std::to_string(ranks[static_cast<std::size_t>(picked.pick.answer.best.gpus[i])]) + " " +
                      topo::nicsText(*picked.machine.graph, nics));
  if (texts.empty()) texts.emplace_back("none");
  return texts;
}

std::string ringText(const std::vector<int>& ring, const std::vector<int>& ranks) {
  return joined(ring, " -> ", [&](int row) { return std::to_string(ranks[static_cast<std::size_t>(row)]); });
}

std::string pickText(const Picked& picked, std::size_t columns) {
  const std::vector<int> ranks = picked.table.ranks();
  const gpu::ChoiceAnswer& answer = picked.pick.answer;
  const std::string plural = answer.best.gpus.size() == 1 ? "GPU " : "GPUs ";
  std::string text =
      wrappedText(plural + gpu::namesText(answer.best.gpus, ranks) + " of " + std::to_string(ranks.size()),
                  "", "  ", columns);
  const auto add = [&](const std::string& words, const char* name) {
    text += wrappedText(words, name, columns);
  };
  add(ringText(picked.pick.ring, ranks), "  ring order  ");
  add(linksText(picked, answer.best), "  links       ");
  const char* name = "  NICs        ";
  for (const std::string& nic : nicTexts(picked)) {
    add(nic, name);
    name = "              ";
  }
  add(topo::gbText(static_cast<float>(picked.pick.intra)) + " within the host", "  fitness     ");
  add(gpu::whyText(answer, ranks), "  why         ");
  if (!picked.pick.left_out.empty())
    add((picked.pick.left_out.size() == 1 ? "GPU " : "GPUs ") + topo::rangesText(picked.pick.left_out) +
            ": in use by a process (--occupied takes them too)",
        "  left out    ");
  if (answer.second)
    add(plural + gpu::namesText(answer.second->gpus, ranks) + ": " + linksText(picked, *answer.second),
        "  second best ");
  return text;
}

// What the process needs to get the GPUs: --env, --slurm and --cgroup.
int writeForProcess(const Picked& picked, const PickOptions& options, const std::string& file) {
  std::vector<std::string> notes;
  std::unique_ptr<sysfs::FileTree> tree;
  if (options.cgroup && file.empty() && options.machine.software.empty())
    tree = openRoot(kPick, options.machine.root);
  const auto text = options.env     ? environmentText(picked.machine, picked.table, picked.pick.ring)
                    : options.slurm ? slurmText(picked.table, picked.pick.ring)
                                    : deviceNodesText(picked.machine, picked.table,
                                                      picked.pick.answer.best.gpus, tree.get(), &notes);
  if (!text.ok()) return leave(kExitUsage, "%s: %s", kPick, text.error().c_str());
  if (options.slurm)
    notes.emplace_back(
        "for a job that has all GPUs of the node; else Slurm may count from the first GPU of the job");
  if (!options.machine.quiet) sayNotes(kPick, notes);
  return writeOutput(kPick, options.output, *text);
}

int pick(int count, const topo::Machine& machine, const PickOptions& options, const std::string& file) {
  const topo::GpuTable table = topo::gpuTable(machine);
  const auto question = topo::makePickQuestion(machine, table, options.wishes);
  if (!question.ok()) return leave(kExitUsage, "%s: --%s", kPick, question.error().c_str());
  auto answer = topo::pickGpus(machine, table, *question, count);
  if (!answer.ok())
    return leave(kExitUsage, "%s: %s: %s; ask for fewer, or change --of and --exclude%s", kPick,
                 machine.name.c_str(), answer.error().c_str(),
                 question->left_out.empty() ? "" : "; --occupied takes those in use too");
  const Picked picked{.machine = machine, .table = table, .pick = std::move(*answer)};
  if (options.env || options.slurm || options.cgroup) return writeForProcess(picked, options, file);
  return writeOutput(kPick, options.output,
                     options.output.json() ? topo::pickJson(machine, table, picked.pick)
                                           : pickText(picked, outputColumns(options.output.file)));
}

// railwise gpus pick of several machines: which of them, and which GPUs of each.

struct Node {
  std::string name;
  std::vector<int> ranks;  // of the chosen GPUs
  gpu::NodeCandidate candidate;
};

// A recording, a topology file or a description of a software machine is called as its file is.
std::string nodeName(const std::string& machine) {
  std::string name = sysfs::archiveName(machine);
  for (const std::string_view ending : {".xml", ".conf"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name;
}

// Fills the node's best set. "" or why it has none. A machine that cannot be opened is reported to the user,
// and `failure` becomes the exit status.
std::string fillNode(Node& node, int count, const std::string& name, const PickOptions& options,
                     int& failure) {
  MachineOptions one = options.machine;
  const bool is_file = name.ends_with(".xml");
  one.software = is_file ? "" : name;
  one.quiet = true;
  bool without_gpus = false;
  one.without_gpus = &without_gpus;
  int status = kExitOk;
  const auto machine = openMachine(kPick, is_file ? name : "", one, &status);
  if (without_gpus) return "it has no GPU";
  if (!machine) return failure = status, "";
  const topo::GpuTable table = topo::gpuTable(*machine);
  const auto question = topo::makePickQuestion(*machine, table, options.wishes);
  if (!question.ok()) return "--" + question.error();
  const auto pick = topo::pickGpus(*machine, table, *question, count);
  if (!pick.ok()) return pick.error();
  for (const int row : pick->answer.best.gpus)
    node.ranks.push_back(table.rows[static_cast<std::size_t>(row)].rank());
  node.candidate.score = pick->answer.best.score;
  node.candidate.intra = pick->intra;
  return "";
}

struct PickedNodes {
  const std::vector<Node>& nodes;
  const gpu::NodesAnswer& answer;
  const std::vector<std::string>& group_names;
  std::vector<std::string> left_out;

  const Node& at(int node) const { return nodes[static_cast<std::size_t>(node)]; }
  std::string groupOf(const Node& node) const {
    return node.candidate.group < 0 ? "" : group_names[static_cast<std::size_t>(node.candidate.group)];
  }
};

std::string nodesText(const PickedNodes& picked, std::size_t columns) {
  std::string all = counted(static_cast<int>(picked.answer.nodes.size()), "node") + " of " +
                    std::to_string(picked.nodes.size() + picked.left_out.size()) + "\n";
  for (const int index : picked.answer.nodes) {
    const Node& node = picked.at(index);
    std::string words = "GPUs " + topo::rangesText(node.ranks);
    if (node.ranks.size() > 1)
      words += ", slowest pair " + mbpsText(node.candidate.score.slowest_pair_mbps) +
               ", all pairs together " + mbpsText(node.candidate.score.all_pairs_mbps);
    words += ", " + std::to_string(node.candidate.score.with_nic) + " with a NIC of their own";
    if (const std::string group = picked.groupOf(node); !group.empty()) words += ", switch group " + group;
    all += wrappedText(words, "  " + node.name + "  ", "      ", columns);
  }
  all += "  fitness " + textOf("%.4g", picked.answer.total);
  if (picked.answer.groups > 0) all += ": " + counted(picked.answer.groups, "switch group");
  all += "\n";
  for (const std::string& line : picked.left_out) all += wrappedText(line, "  left out: ", "      ", columns);
  return all;
}

std::string nodesJson(const PickedNodes& picked) {
  JsonWriter json;
  json.beginObject().key("schema").value("railwise-gpus-pick-nodes").key("schema_version").value(1);
  json.key("fitness").value(picked.answer.total).key("intra").value(picked.answer.intra).key("inter");
  picked.answer.groups > 0 ? json.value(picked.answer.inter) : json.null();
  json.key("nodes").beginArray();
  for (const int index : picked.answer.nodes) {
    const Node& node = picked.at(index);
    json.beginObject().key("node").value(node.name).key("gpus").row(node.ranks);
    json.key("group").known(picked.groupOf(node));
    json.key("slowest_pair_gb_per_s")
        .value(static_cast<double>(node.candidate.score.slowest_pair_mbps) / 1000);
    json.key("all_pairs_gb_per_s").value(static_cast<double>(node.candidate.score.all_pairs_mbps) / 1000);
    json.key("gpus_with_nic").value(node.candidate.score.with_nic);
    json.key("fitness_intra").value(node.candidate.intra).endObject();
  }
  json.endArray().key("left_out").array(picked.left_out);
  json.endObject();
  return json.text();
}

// Gives each node its switch group. Not kExitOk: the reason was said.
int addGroups(std::vector<Node>& nodes, const std::string& file, std::vector<std::string>& names,
              int& available) {
  const auto groups = gpu::readHostGroups(file);
  if (!groups.ok()) return leave(kExitFailed, "%s: --hosts: %s", kPick, groups.error().c_str());
  available = groups->groups();
  std::map<std::string, int> numbers;
  for (Node& node : nodes) {
    const auto group = groups->group_of.find(node.name);
    if (group == groups->group_of.end())
      return leave(kExitUsage,
                   "%s: --hosts: %s does not name the host %s; add it there, or call the recording as the "
                   "host is called",
                   kPick, file.c_str(), node.name.c_str());
    const auto [at, is_new] = numbers.try_emplace(group->second, static_cast<int>(names.size()));
    if (is_new) names.push_back(group->second);
    node.candidate.group = at->second;
  }
  return kExitOk;
}

// Chooses `count` GPUs of each of options.nodes (1) machines of options.machines, and prints them. Returns
// the exit status.
int pickOfNodes(int count, const PickOptions& options) {
  std::vector<Node> nodes;
  std::vector<std::string> left_out;
  int failure = kExitOk;
  for (const std::string& name : options.machines) {
    Node node{.name = nodeName(name), .ranks = {}, .candidate = {}};
    const bool twice = std::ranges::any_of(nodes, [&](const Node& other) { return other.name == node.name; });
    if (twice) return leave(kExitUsage, "%s: --machine: %s is named twice", kPick, node.name.c_str());
    const std::string without = fillNode(node, count, name, options, failure);
    if (failure != kExitOk) return failure;
    if (without.empty()) nodes.push_back(std::move(node));
    else left_out.push_back(node.name + ": " + without);
  }
  std::vector<std::string> group_names;
  int available = 0;
  if (!options.hosts.empty())
    if (const int status = addGroups(nodes, options.hosts, group_names, available); status != kExitOk)
      return status;
  std::vector<gpu::NodeCandidate> candidates;
  for (const Node& node : nodes) candidates.push_back(node.candidate);
  const int wanted = std::max(options.nodes, 1);
  const auto answer = gpu::chooseNodes(candidates, wanted, available);
  if (!answer) {
    for (const std::string& line : left_out) say("%s: left out: %s", kPick, line.c_str());
    return leave(kExitUsage, "%s: %s wanted that can give %s, and there are %zu; ask for fewer", kPick,
                 (counted(wanted, "machine") + (wanted == 1 ? " is" : " are")).c_str(),
                 counted(count, "GPU").c_str(), nodes.size());
  }
  const PickedNodes picked{
      .nodes = nodes, .answer = *answer, .group_names = group_names, .left_out = left_out};
  return writeOutput(
      kPick, options.output,
      options.output.json() ? nodesJson(picked) : nodesText(picked, outputColumns(options.output.file)));
}

}  // namespace

int gpusPickCommand(Args args) {
  PickOptions options;
  std::vector<Option> table = {
      textOption(0, "of", "LIST", &options.wishes.of, "choose only among these GPUs: ranks, e.g. 0-3,7"),
      textOption(0, "exclude", "LIST", &options.wishes.exclude,
                 "leave these GPUs out, e.g. those that a job has"),
      textOption(0, "nic", "NAME", &options.wishes.nic, "only this NIC counts, or these: mlx5_0,mlx5_1"),
      flagOption(0, "occupied", &options.wishes.occupied, "also GPUs on which a process has memory"),
      intOption('N', "nodes", &options.nodes, 1, kMostNodes,
                "of several --machine: how many of them (default 1), K GPUs of each"),
      textOption(
          0, "hosts", "FILE", &options.hosts,
          "of several --machine: their switch groups, 'host TAB group' lines or Slurm's topology.conf"),
      flagOption(0, "env", &options.env,
                 "the variables that show a process these GPUs only, in the order of a ring"),
      flagOption(0, "slurm", &options.slurm,
                 "the options of srun that give each of its tasks one of these GPUs, in the order of a ring"),
      flagOption(0, "cgroup", &options.cgroup, "the device nodes that the process must be able to open")};
  addOutputOptions(table, options.output);
  addMachineOptions(table, options.machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave(kPick, table, args, kPickHelp, 2, &status);
  if (!arguments) return status;
  for (const auto& [option, value] : arguments->given)
    if (option == "machine") options.machines.push_back(value);
  if (arguments->positional.empty())
    return leave(kExitUsage, "%s: how many GPUs? railwise gpus pick K", kPick);
  const auto count = parseInt(arguments->positional[0], 1, kMostGpus);
  if (!count)
    return leave(kExitUsage, "%s: '%s' is no number of GPUs, such as 4", kPick,
                 arguments->positional[0].c_str());
  const bool for_process = options.env || options.slurm || options.cgroup;
  if (int{options.output.json()} + int{options.env} + int{options.slurm} + int{options.cgroup} > 1)
    return leave(kExitUsage, "%s: --json, --env, --slurm and --cgroup are four outputs: name one", kPick);
  if (options.machines.size() > 1) {
    if (arguments->positional.size() > 1 || !options.machine.root.empty() || for_process)
      return leave(
          kExitUsage,
          "%s: with several --machine there is no FILE, --root, --env, --slurm or --cgroup: name one machine "
          "for these",
          kPick);
    return pickOfNodes(*count, options);
  }
  if (options.nodes > 0 || !options.hosts.empty())
    return leave(kExitUsage,
                 "%s: --nodes and --hosts are for several machines: give --machine more than once", kPick);
  const std::string file = arguments->positional.size() > 1 ? arguments->positional[1] : "";
  bool without_gpus = false;
  options.machine.without_gpus = &without_gpus;
  takeRecording(options.machine);
  const auto machine = openMachine(kPick, file, options.machine, &status);
  if (without_gpus)
    say("%s: %s has no GPU by NVIDIA or AMD; give a topology FILE, --root or --machine for another machine",
        kPick, subjectOf(file, options.machine).c_str());
  if (!machine) return status;
  return pick(*count, *machine, options, file);
}

}  // namespace railwise::cli
