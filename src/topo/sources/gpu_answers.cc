#include "topo/sources/gpu_answers.h"

#include "gpu/json.h"

namespace railwise::topo {

// A machine of 256 GPUs, each linked to each, needs 12 MB.
constexpr std::size_t kMaxAnswers = 32U << 20U;

Outcome<GpuAnswers> recordedGpus(const sysfs::FileTree& tree) {
  const std::optional<std::string> text = tree.read(kGpuAnswersPath, kMaxAnswers);
  if (!text) return GpuAnswers();
  auto answers = gpu::parseJson(*text);
  const std::string file = tree.name() + ": " + (kGpuAnswersPath + 1);
  if (!answers.ok())
    return Error{
        file + " " + answers.error() +
        "; record the machine again (railwise topo record), or remove the file: its GPUs are then assumed"};
  gpu::sanitize(*answers, file);
  return GpuAnswers(std::make_shared<gpu::GpuTopology>(std::move(*answers)));
}

}  // namespace railwise::topo
