// What the vendors' libraries say of the GPUs of a machine: asked on this machine, or read from the tree of a
// recorded or software machine. /sys itself has neither compute capability nor NVLinks. Thread-safe but for
// askForGpus().
#pragma once

#include <memory>

#include "base/outcome.h"
#include "base/settings/config.h"
#include "gpu/topology.h"
#include "sysfs/file_tree.h"

namespace railwise::topo {

// The answers as JSON (gpu/json.h), beside the tree's sys/.
inline constexpr char kGpuAnswersPath[] = "/railwise/gpus.json";

// Null: there are none.
using GpuAnswers = std::shared_ptr<const gpu::GpuTopology>;

// The answers that the tree has. An error: the file is not what it should be.
Outcome<GpuAnswers> recordedGpus(const sysfs::FileTree& tree);

// The answers that the tree has; without any, if it is the tree of this machine, those of the vendors'
// libraries, each asked in a process of its own (gpu/vendor.h). Waits at most gpu::kVendorLimit. The plugin
// does not call it: it runs inside a training process, which is not to fork.
Outcome<GpuAnswers> askForGpus(const sysfs::FileTree& tree, bool this_machine, const Config& config);

}  // namespace railwise::topo
