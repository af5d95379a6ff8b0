#include "topo/sources/load_machine.h"

#include <utility>
#include <vector>

#include "topo/sources/gpu_answers.h"

namespace railwise::topo {

Outcome<Machine> loadMachine(MachineInputs inputs) {
  if (inputs.topology_file != nullptr) {
    auto read = readXmlFile(*inputs.topology_file);
    if (!read.ok()) return read.failure();
    inputs.document = std::move(*read);
  }
  if (inputs.options.gpu_answers == nullptr) {
    auto recorded = recordedGpus(inputs.tree);
    if (!recorded.ok()) return recorded.failure();
    inputs.options.gpu_answers = std::move(*recorded);
  }
  std::vector<std::string> remarks;
  auto xml = readSysfs(inputs.tree, inputs.document, inputs.settings, inputs.options,
                       inputs.remarks ? &remarks : nullptr);
  if (!xml.ok()) return Error{xml.error(), Code::kNoDevice};
  auto machine = makeMachine(std::move(*xml), inputs.settings, inputs.tree.name());
  if (!machine.ok()) return machine;
  machine->completed = true;
  machine->remarks = std::move(remarks);
  machine->gpu_answers = std::move(inputs.options.gpu_answers);
  return machine;
}

}  // namespace railwise::topo
