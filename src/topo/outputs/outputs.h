// Writes a machine in the forms that people and programs read: `railwise topo show --format ...`. Each
// function returns the whole text, which ends with a newline. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/machine/machine.h"
#include "topo/search/search.h"
#include "topo/transports/transports.h"
#include "topo/tuning/expect.h"

namespace railwise::topo {

// A table that looks like `nvidia-smi topo -m`, with NCCL's path types, a legend, and the NIC of each GPU.
// `columns`: the matrix is cut into parts that are not wider; 0: it is not cut.
std::string matrixText(const Machine& machine, std::size_t columns = 0);

// The whole model as JSON; docs/topology-json.md has the schema. Tests compare its rows with NCCL's own
// answers.
std::string topologyJson(const Machine& machine);

// The rings, trees and other graphs of NCCL's search as JSON, `why`: also what the search tried.
std::string graphsJson(const Machine& machine, const std::vector<DomainGraphs>& graphs, bool why);

// The graphs for people; `why`: also what the search tried. Lines of at most 80 characters.
std::string graphsText(const Machine& machine, const std::vector<DomainGraphs>& graphs, bool why);

// What to expect of a collective: a table of sizes, the peak and its limit. One expectation for each domain.
std::string expectationText(const Machine& machine, const std::vector<tuning::Expectation>& expectations);
std::string expectationJson(const Machine& machine, const std::vector<tuning::Expectation>& expectations);

// A drawing in Railwise's own layout; its colours are light or dark as the viewer prefers.
std::string svgText(const Machine& machine);

// One self-contained page: the drawing, and after a click the paths of a GPU or NIC.
std::string htmlText(const Machine& machine);

// What `railwise topo transports` shows. -1: all ranks.
struct TransportsShown {
  int from = -1;
  int to = -1;
  int nodes = 1;  // 2: also the pairs of this machine and an equal one
  int channel = 0;
};
// A matrix with the reasons below it. If both ranks are given: every step that NCCL takes for this pair, and
// its log line.
std::string transportsText(const Transports& transports, const TransportsShown& shown);
std::string transportsJson(const Transports& transports, const TransportsShown& shown);

// Finds what differs between two machines, or between two views of one machine (with and without a file,
// under two releases of NCCL): devices, links, paths and choices. GPUs and NICs are matched by PCI address
// and name, then by their number.

using topology::Difference;

std::vector<Difference> diff(const Machine& left, const Machine& right);

// Is the topology file of both machines equal, as writeXml() writes it? Machines that differ in nothing may
// have different files.
bool sameFile(const Machine& left, const Machine& right);

// Describes the differences in words, sorted by kind. Pairs with equal differences share one line. If nothing
// differs, a line says so. Under two releases of NCCL, the rules that differ between them follow.
std::string diffText(const Machine& left, const Machine& right, const std::vector<Difference>& differences);
std::string diffJson(const Machine& left, const Machine& right, const std::vector<Difference>& differences);

}  // namespace railwise::topo
