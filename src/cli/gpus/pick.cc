// railwise gpus pick: which K GPUs of a machine a job should take, and why.
#include "cli/gpus/pick.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "sysfs/file_tree.h"
#include "topo/choice/pick.h"
#include "topo/explain/describe.h"
#include "topo/exports/device_facts.h"

namespace railwise::cli {
namespace {

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
    const auto render = std::find_if(names.begin(), names.end(),
                                     [](const std::string& name) { return name.starts_with("renderD"); });
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
    "usage: railwise gpus pick K [FILE] [--of LIST] [--exclude LIST] [--nic NAME] [--json|--env|--cgroup] "
    "[options]\n"
    "       railwise gpus pick K --machine A.tar.gz --machine B.tar.gz ... [--nodes N] [--hosts FILE] "
    "[--json]\n\n"
    "Says which K GPUs a job should take: the set whose slowest pair of GPUs has the most bandwidth; then "
    "the most bandwidth over all pairs; then the most GPUs with a near NIC of their own; then the lowest "
    "numbers. GPUs on which a process has memory are left out. Of several machines (recorded by railwise "
    "topo record) it says which N to take. FILE is an NCCL (or RCCL) topology file; without one, this "
    "machine. docs/gpus-pick.md has the rule in full.\n"
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

// A NIC each.
std::vector<std::string> nicTexts(const Picked& picked, const gpu::GpuSet& set) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < set.gpus.size(); ++i) {
    const int row = set.gpus[i];
    if (set.nics[i] < 0) continue;
    const topo::NearNic& nic = topo::nicOf(picked.table, row, set.nics[i]);
    texts.push_back("GPU " + std::to_string(picked.table.rows[static_cast<std::size_t>(row)].rank()) + " " +
                    topo::netName(*picked.machine.graph, nic.net) + " (" + topo::pathTypeName(nic.type) +
                    ", " + topo::gbText(static_cast<float>(nic.gb_per_s)) + " GB/s)");
  }
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
  for (const std::string& nic : nicTexts(picked, answer.best)) {
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

}  // namespace

std::string mbpsText(int64_t mbps) { return topo::gbText(static_cast<float>(mbps) / 1000) + " GB/s"; }

namespace {

// What the process needs to get the GPUs: --env and --cgroup.
int writeForProcess(const Picked& picked, const PickOptions& options, const std::string& file) {
  std::vector<std::string> notes;
  std::unique_ptr<sysfs::FileTree> tree;
  if (options.cgroup && file.empty() && options.machine.software.empty())
    tree = openRoot(kPick, options.machine.root);
  const auto text = options.env ? environmentText(picked.machine, picked.table, picked.pick.ring)
                                : deviceNodesText(picked.machine, picked.table, picked.pick.answer.best.gpus,
                                                  tree.get(), &notes);
  if (!text.ok()) return leave(kExitUsage, "%s: %s", kPick, text.error().c_str());
  if (!options.machine.quiet) sayNotes(kPick, notes);
  return writeOutput(kPick, options.output, *text);
}

int pick(int count, const topo::Machine& machine, const PickOptions& options, const std::string& file) {
  const topo::GpuTable table = topo::gpuTable(machine);
  const auto question = topo::makePickQuestion(machine, table, options.wishes);
  if (!question.ok()) return leave(kExitUsage, "%s: --%s", kPick, question.error().c_str());
  auto answer = topo::pickGpus(*question, count);
  if (!answer.ok())
    return leave(kExitUsage, "%s: %s: %s; ask for fewer, or change --of and --exclude%s", kPick,
                 machine.name.c_str(), answer.error().c_str(),
                 question->left_out.empty() ? "" : "; --occupied takes those in use too");
  const Picked picked{.machine = machine, .table = table, .pick = std::move(*answer)};
  if (options.env || options.cgroup) return writeForProcess(picked, options, file);
  return writeOutput(kPick, options.output,
                     options.output.json() ? topo::pickJson(machine, table, picked.pick)
                                           : pickText(picked, outputColumns(options.output.file)));
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
  if (int{options.output.json()} + int{options.env} + int{options.cgroup} > 1)
    return leave(kExitUsage, "%s: --json, --env and --cgroup are three outputs: name one", kPick);
  if (options.machines.size() > 1) {
    if (arguments->positional.size() > 1 || !options.machine.root.empty() || options.env || options.cgroup)
      return leave(kExitUsage,
                   "%s: with several --machine there is no FILE, --root, --env or --cgroup: name one machine "
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
    say("%s: this machine has no GPU by NVIDIA or AMD; give a topology FILE, --root or --machine for another "
        "machine",
        kPick);
  if (!machine) return status;
  return pick(*count, *machine, options, file);
}

}  // namespace railwise::cli
