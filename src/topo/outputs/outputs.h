// A machine in the forms that people and programs read: `railwise topo show --format ...` and `railwise topo
// paths`. Each function returns the whole text, ending with a newline. Pure; thread-safe.
#pragma once

#include <string>

#include "topo/machine/machine.h"

namespace railwise::topo {

// The look of `nvidia-smi topo -m`, with NCCL's path types, a legend, and the NIC of each GPU.
std::string matrixText(const Machine& machine);

// The whole model; docs/topology-json.md has the schema.
std::string topologyJson(const Machine& machine);

// What tools/compare_topology.py holds against NCCL's own answers: paths, p2p, gdr and domains, and no
// reasons.
std::string pathsJson(const Machine& machine);

// Source for Graphviz: railwise topo show --format dot | dot -Tsvg
std::string dotText(const Machine& machine);

// A drawing in our own layout, light and dark as the viewer prefers.
std::string svgText(const Machine& machine);

// One page that needs nothing else: the drawing, and on a click the paths of a GPU or NIC.
std::string htmlText(const Machine& machine);

}  // namespace railwise::topo
