// Apart from sysfs.cc, so that the plugin does not contain what starts processes.
#include "gpu/vendor.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::topo {

Outcome<GpuAnswers> askForGpus(const sysfs::FileTree& tree, bool this_machine, const Config& config) {
  auto recorded = recordedGpus(tree);
  if (!recorded.ok() || *recorded != nullptr || !this_machine) return recorded;
  auto answers = gpu::readGpus(gpu::kVendorLimit, gpu::allVendors(config));
  if (!answers.ok()) return answers.failure();
  return GpuAnswers(std::make_shared<gpu::GpuTopology>(std::move(*answers)));
}

}  // namespace railwise::topo
