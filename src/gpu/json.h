// GpuTopology as JSON: what `railwise gpus --json` prints, what `railwise topo record` takes along, and how a
// child process that has asked a vendor's library answers. docs/gpus.md has the schema. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/outcome.h"
#include "gpu/topology.h"

namespace railwise::gpu {

// One document, with a newline at its end. What is unknown is null. `machine`: the name of the machine;
// empty: not told.
std::string jsonOf(const GpuTopology& topology, const std::string& machine = "");

// Reads such a document. Keys that are missing leave the field unknown; unknown keys are passed over. An
// error names the place in the document ("gpus[3].memory_bytes"). The values are as `text` has them: see
// sanitize().
Outcome<GpuTopology> parseJson(std::string_view text);

// Makes a topology safe to use: removes what refers to GPUs that are not there and what no GPU can have,
// each with a remark that begins with `name`. Indexes are then positions in `gpus`, or -1.
void sanitize(GpuTopology& topology, const std::string& name);

}  // namespace railwise::gpu
