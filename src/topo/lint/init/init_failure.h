// Does NCCL's init fail on the machine of a topology file, although NCCL reads the file and makes a graph of
// it? The paths and the search for rings, trees and NVLS can fail, and in which release they do differs.
// Pure; thread-safe.
#pragma once

#include <memory>

#include "topo/lint/lint.h"
#include "topo/search/graph_file.h"
#include "topo/settings.h"

namespace railwise::topo {

// Adds the error "init-fails" to the report of a file. It adds nothing where the report has an error already,
// where NCCL reads no such file (RCCL's), and where the file alone makes no machine. `graph_file`: as in
// Machine.
void addInitFailure(LintReport& report, const Settings& settings,
                    std::shared_ptr<const GraphFile> graph_file = nullptr);

// Adds it for a reason that is known: NCCL cannot read its graph file. After the last "; " it says what
// helps.
void addInitFailure(LintReport& report, const std::string& error);

}  // namespace railwise::topo
