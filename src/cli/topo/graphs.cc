// railwise topo graphs: the rings, trees and other graphs that NCCL's search finds on a machine.
#include <algorithm>
#include <optional>

#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "topo/outputs/outputs.h"
#include "topo/search/search.h"

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
  const bool any = std::any_of(graphs->begin(), graphs->end(),
                               [](const topo::DomainGraphs& of) { return of.one_host || of.two_hosts; });
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

}  // namespace railwise::cli
