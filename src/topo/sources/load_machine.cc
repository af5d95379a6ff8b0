#include "topo/sources/load_machine.h"

#include <memory>
#include <utility>
#include <vector>

#include "gpu/json.h"
#include "topo/sources/gpu_answers.h"

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

Outcome<Machine> loadMachine(MachineInputs inputs) {
  const bool alone = inputs.tree == nullptr;
  const Detection& detection = inputs.options.detection;
  if (inputs.topology_file != nullptr) {
    const std::string& file = *inputs.topology_file;
    const XmlReadOptions limit{.max_nodes = alone && detection.any_size ? 0 : kXmlMaxNodes};
    auto read = inputs.topology_text == nullptr ? readXmlFile(file, limit)
                                                : parseXml(*inputs.topology_text, file, limit);
    if (!read.ok()) return read.failure();
    inputs.document = std::move(*read);
    if (inputs.name.empty()) inputs.name = sysfs::baseName(file);
  }
  if (alone)
    return loadDocument(std::move(inputs.document).value(), inputs.settings, detection,
                        std::move(inputs.name));
  if (inputs.options.gpu_answers == nullptr) {
    auto recorded = recordedGpus(*inputs.tree);
    if (!recorded.ok()) return recorded.failure();
    inputs.options.gpu_answers = std::move(*recorded);
  }
  std::vector<std::string> remarks;
  auto xml = readSysfs(*inputs.tree, inputs.document, inputs.settings, inputs.options,
                       inputs.remarks ? &remarks : nullptr);
  if (!xml.ok()) return Error{xml.error(), Code::kNoDevice};
  auto machine = makeMachine(std::move(*xml), inputs.settings, inputs.tree->name());
  if (!machine.ok()) return machine;
  machine->completed = true;
  machine->remarks = std::move(remarks);
  machine->gpu_answers = std::move(inputs.options.gpu_answers);
  return machine;
}

}  // namespace railwise::topo
