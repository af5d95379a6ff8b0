// railwise gpus: lists the GPUs of a machine; its first word may be a subcommand.
#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/help_page.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "gpu/json.h"
#include "topo/choice/pick.h"
#include "topo/explain/describe.h"
#include "topo/explain/gpu_topology.h"

namespace railwise::cli {
namespace {

constexpr std::array<Subcommand, 2> kGpusSubcommands = {{
    {"pick", gpusPickCommand, "which K GPUs a job should take, and why"},
    {"fitness", gpusFitnessCommand, "how well the hosts of a job fit together"},
}};

constexpr const char* kGpusHelp =
    "usage: railwise gpus [FILE] [--root DIR|TAR] [options]\n"
    "       railwise gpus pick K     which K GPUs a job should take, and why\n"
    "       railwise gpus fitness    how well the hosts of a job fit together\n\n"
    "Lists the GPUs of the machine: PCI address, model, memory, NUMA node, the best path to other GPUs, the "
    "nearest NICs, and what is wrong with it. On this machine NVIDIA's and AMD's own libraries are asked. "
    "FILE is an NCCL (or RCCL) topology file; without one, this machine.\n"
    "Exit status: 0 all right (also without a GPU), 1 the machine cannot be read, 2 a mistake on the command "
    "line.\n\n";

// The fastest links of a row, of these the nearest kind, and to which GPUs.
struct BestLink {
  topo::PairLink link;
  std::vector<int> ranks;
};

BestLink bestLink(const topo::GpuTable& table, std::size_t row) {
  const auto key = [](const topo::PairLink& link) { return std::tuple(-link.gb_per_s, link.type); };
  BestLink best;
  for (std::size_t other = 0; other < table.rows.size(); ++other) {
    const topo::PairLink& link = table.pair(row, other);
    if (other == row || link.gb_per_s <= 0 || key(link) > key(best.link)) continue;
    if (key(link) < key(best.link)) best = {link, {}};
    best.ranks.push_back(table.rows[other].rank());
  }
  return best;
}

// The NICs that are as near and as fast as the nearest.
std::vector<topo::NearNic> nearestNics(const std::vector<topo::NearNic>& nics) {
  std::vector<topo::NearNic> nearest;
  for (const topo::NearNic& nic : nics)
    if (nic.type == nics[0].type && nic.gb_per_s == nics[0].gb_per_s) nearest.push_back(nic);
  return nearest;
}

TextRow rowText(const topo::Machine& machine, const topo::GpuTable& table, std::size_t i,
                const gpu::Device& device) {
  const topo::GpuRow& row = table.rows[i];
  const BestLink best = bestLink(table, i);
  const std::string link = best.ranks.empty() ? "none"
                                              : topo::typeText(*machine.graph, best.link.type) + " " +
                                                    topo::gbText(static_cast<float>(best.link.gb_per_s)) +
                                                    " GB/s to " + topo::rangesText(best.ranks);
  TextRow line = {topo::rangesText(row.ranks),
                  row.busid,
                  device.model.empty() ? row.kind : topo::gpuModelText(device),
                  topo::memoryText(device.memory_bytes),
                  row.numa < 0 ? "-" : std::to_string(row.numa),
                  link,
                  topo::nicsText(*machine.graph, nearestNics(table.nics[i])),
                  topo::stateText(device)};
  if (machine.graph->hosts() > 1) line.insert(line.begin() + 1, std::to_string(row.host));
  return line;
}

// A device without a rank: a MIG instance, or a partition that is no PCI function of its own.
TextRow partText(const gpu::Device& device, bool hosts) {
  TextRow line = {"-",
                  device.parent < 0 ? device.busid : "",
                  "  " + topo::gpuModelText(device),
                  topo::memoryText(device.memory_bytes),
                  "",
                  "",
                  "",
                  topo::stateText(device)};
  if (hosts) line.insert(line.begin() + 1, "");
  return line;
}

std::size_t widthOf(const std::vector<TextRow>& lines) {
  std::size_t width = 0;
  for (const std::string& line : splitAt(tableText(lines), '\n')) width = std::max(width, line.size());
  return width;
}

// The lines with the widest column cut between words, so that it is narrower by `excess`.
std::vector<TextRow> foldedLines(const std::vector<TextRow>& lines, std::size_t excess) {
  std::size_t widest = 0;
  std::size_t width = 0;
  for (const TextRow& line : lines)
    for (std::size_t column = 0; column < line.size(); ++column)
      if (line[column].size() > width) width = line[column].size(), widest = column;
  std::vector<TextRow> folded;
  for (const TextRow& line : lines) {
    const std::string cell = wrappedText(line[widest], "", "", width - std::min(width - 1, excess));
    TextRow rest = line;  // the other columns stand in the first line alone
    for (std::string& part : fullPartsOf(cell, '\n')) {
      rest[widest] = std::move(part);
      folded.push_back(std::exchange(rest, TextRow(line.size())));
    }
    if (cell.empty()) folded.push_back(line);
  }
  return folded;
}

// Where the table is wider than the terminal's columns (0: no limit), what is equal for all GPUs stands below
// it.
std::string fittedText(std::vector<TextRow> lines, std::size_t columns) {
  std::string below;
  for (std::size_t column = lines[0].size(); columns > 0 && widthOf(lines) > columns && column-- > 1;) {
    const bool equal = lines.size() > 1 &&
                       std::all_of(lines.begin() + 1, lines.end(),
                                   [&](const TextRow& line) { return line[column] == lines[1][column]; });
    if (!equal) continue;
    below = wrappedText(lines[1][column], lines[0][column] + ": ", "  ", columns) + below;
    for (TextRow& line : lines) line.erase(line.begin() + static_cast<std::ptrdiff_t>(column));
  }
  if (columns > 0 && widthOf(lines) > columns) lines = foldedLines(lines, widthOf(lines) - columns);
  return tableText(lines) + (below.empty() ? "" : "\n") + below;
}

std::string listText(const topo::Machine& machine, const gpu::GpuTopology& topology, std::size_t columns) {
  const topo::GpuTable table = topo::gpuTable(machine);
  const bool hosts = machine.graph->hosts() > 1;
  std::vector<TextRow> lines = {
      {"GPU", "PCI address", "model", "memory", "NUMA", "best path to GPUs", "nearest NIC", "state"}};
  if (hosts) lines[0].insert(lines[0].begin() + 1, "host");
  for (const gpu::Device& device : topology.gpus) {
    if (!gpu::isWhole(device)) continue;
    const auto row = std::ranges::find_if(
        table.rows, [&](const topo::GpuRow& one) { return device.rank >= 0 && one.rank() == device.rank; });
    lines.push_back(
        row == table.rows.end()
            ? partText(device, hosts)
            : rowText(machine, table, static_cast<std::size_t>(row - table.rows.begin()), device));
    for (const gpu::Device& part : topology.gpus)
      if (part.parent == device.index) lines.push_back(partText(part, hosts));
  }
  return fittedText(std::move(lines), columns);
}

// GPUs that the vendor's library lists and /sys does not: a container without /sys/bus/pci, for example.
std::string bareText(const gpu::GpuTopology& topology) {
  std::vector<TextRow> lines = {{"GPU", "PCI address", "model", "memory", "state"}};
  for (const gpu::Device& device : topology.gpus)
    lines.push_back({gpu::isWhole(device) ? std::to_string(device.index) : "",
                     gpu::isWhole(device) ? device.busid : "",
                     (gpu::isWhole(device) ? "" : "  ") + topo::gpuModelText(device),
                     topo::memoryText(device.memory_bytes), topo::stateText(device)});
  return tableText(lines);
}

// A machine in whose /sys, or topology file, there is no GPU. `subject`: how it is called.
int writeWithoutGpus(std::string subject, const topo::GpuAnswers& answers, bool quiet, const Output& output) {
  const gpu::GpuTopology topology = answers == nullptr ? gpu::GpuTopology() : *answers;
  if (output.json()) return writeOutput("gpus", output, gpu::jsonOf(topology));
  if (!quiet) sayNotes("gpus", topology.remarks);
  if (topology.gpus.empty()) {
    if (subject == "this machine") subject[0] = 'T';
    return writeOutput("gpus", output, subject + " has no GPU by NVIDIA or AMD.\n");
  }
  say("gpus: note: /sys/bus/pci/devices has none of these GPUs, so nothing is known of their paths and NICs");
  return writeOutput("gpus", output, bareText(topology));
}

int listCommand(Args args) {
  MachineOptions options;
  Output output;
  std::vector<Option> table;
  addOutputOptions(table, output);
  addMachineOptions(table, options);
  int status = kExitOk;
  const auto arguments = parseOrLeave("gpus", table, args, kGpusHelp, 1, &status);
  if (!arguments) return status;
  bool without_gpus = false;
  options.without_gpus = &without_gpus;
  topo::GpuAnswers answers;
  options.gpu_answers = &answers;
  const auto machine = openMachine("gpus", arguments->first(), options, &status);
  if (without_gpus)
    return writeWithoutGpus(subjectOf(arguments->first(), options), answers, options.quiet, output);
  if (!machine) return status;
  const gpu::GpuTopology topology = topo::gpuTopology(*machine);
  return writeOutput("gpus", output,
                     output.json() ? gpu::jsonOf(topology, machine->name)
                                   : listText(*machine, topology, terminalColumns(output.file)));
}

}  // namespace

int gpusCommand(Args args) {
  const std::string_view word = args.empty() ? "" : args[0];
  offerSubcommands(kGpusSubcommands);
  std::vector<std::string> words;
  for (const Subcommand& sub : kGpusSubcommands) {
    if (word == sub.name) return sub.run(args.subspan(1));
    words.emplace_back(sub.name);
  }
  const std::string meant = suggestion(word, words);
  if (!meant.empty() && !std::filesystem::exists(word))
    return leave(kExitUsage, "gpus: '%s' is neither a file nor a subcommand%s", std::string(word).c_str(),
                 meant.c_str());
  return listCommand(args);
}

}  // namespace railwise::cli
