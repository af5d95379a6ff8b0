// Apart from gpu_answers.cc, so that the plugin does not contain what starts processes.
#include "gpu/vendor.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::topo {

Outcome<std::optional<gpu::GpuTopology>> askForGpus(const sysfs::FileTree& tree, const Config& config) {
  auto recorded = recordedGpus(tree);
  if (!recorded.ok() || *recorded || !tree.live()) return recorded;
  auto answers = gpu::readGpus(gpu::kVendorLimit, gpu::allVendors(config));
  if (!answers.ok()) return answers.failure();
  return std::optional(std::move(*answers));
}

}  // namespace railwise::topo
