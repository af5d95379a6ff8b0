// Writes a machine in the forms that people and programs read: `railwise topo show --format ...` and
// `railwise topo paths`. Each function returns the whole text, which ends with a newline. Pure; thread-safe.
#pragma once

#include <string>

#include "topo/machine/machine.h"

namespace railwise::topo {

// A table that looks like `nvidia-smi topo -m`, with NCCL's path types, a legend, and the NIC of each GPU.
std::string matrixText(const Machine& machine);

// The whole model as JSON; docs/topology-json.md has the schema.
std::string topologyJson(const Machine& machine);

// Paths, p2p, gdr and domains as JSON, without reasons. ../shared/tools/compare_topology.py compares this
// with NCCL's own answers.
std::string pathsJson(const Machine& machine);

// Source text for Graphviz: railwise topo show --format dot
// dot -Tsvg
std::string dotText(const Machine& machine);

// A drawing in Railwise's own layout; its colours are light or dark as the viewer prefers.
std::string svgText(const Machine& machine);

// One self-contained page: the drawing, and after a click the paths of a GPU or NIC.
std::string htmlText(const Machine& machine);

}  // namespace railwise::topo
