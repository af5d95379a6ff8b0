// How a child process that has asked a vendor's library sends the answer to its parent: a private binary
// form, between two processes of one program. The reader believes nothing: the library may have written over
// the child's memory. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/outcome.h"
#include "gpu/topology.h"

namespace railwise::gpu {

std::string encodeAnswer(const GpuTopology& topology);
// Whether `bytes` begins with a whole answer, so that nothing more needs to be read.
bool answerIsWhole(std::string_view bytes);
Outcome<GpuTopology> decodeAnswer(std::string_view bytes);

// Makes a topology safe to use: removes what refers to devices that are not there and what no GPU can have,
// each with a remark that begins with `name`. Indexes are then positions in `devices`, or -1.
void sanitize(GpuTopology& topology, const std::string& name);

}  // namespace railwise::gpu
