// Reads the table of Pairing::kTable (options.h). Plain values; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
#include "topo/sources/generate/flat_machine.h"

namespace railwise::topo {

struct TableRow {
  Bridge bridge;
  int node = 0;
};

// An error names the table, the line and the mistake. A remark reports something that is unusual but may be
// intended.
Outcome<std::vector<TableRow>> readPairTable(const FlatMachine& machine, std::string_view text,
                                             const std::string& name, std::vector<std::string>& remarks);

}  // namespace railwise::topo
