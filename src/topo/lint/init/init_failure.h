// Does NCCL's init fail on the machine of a topology file, although NCCL reads the file and makes a graph of
// it? The paths and the search for rings, trees and NVLS can fail, and in which release they do differs.
// Pure; thread-safe.
#pragma once

#include "topo/lint/lint.h"
#include "topo/search/graph_file.h"
#include "topo/settings.h"

namespace railwise::topo {

// Adds the error "init-fails" to the report of a file. It adds nothing where the report has an error already,
// where NCCL reads no such file (RCCL's), and where the file alone makes no machine. `graphs`:
// NCCL_GRAPH_FILE; null: there is no such file.
void addInitFailure(LintReport& report, const Settings& settings, const GraphFile* graphs = nullptr);

}  // namespace railwise::topo
