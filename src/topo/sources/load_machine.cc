#include "topo/sources/load_machine.h"

#include <utility>
#include <vector>

namespace railwise::topo {

Outcome<Machine> loadMachine(MachineInputs inputs) {
  if (inputs.topology_file != nullptr) {
    auto read = readXmlFile(*inputs.topology_file);
    if (!read.ok()) return read.failure();
    inputs.document = std::move(*read);
  }
  std::vector<std::string> remarks;
  auto xml = readSysfs(inputs.tree, inputs.document, inputs.settings, inputs.options, &remarks);
  if (!xml.ok()) return Error{xml.error(), Code::kNoDevice};
  auto machine = makeMachine(std::move(*xml), inputs.settings, inputs.tree.name());
  if (!machine.ok()) return machine;
  machine->completed = true;
  machine->remarks = std::move(remarks);
  return machine;
}

}  // namespace railwise::topo
