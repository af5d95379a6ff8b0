#include "softdev/config/machines.h"

#include <algorithm>

namespace railwise::softdev {

std::string_view ShippedMachine::title() const {
  std::string_view line = text;
  line = line.substr(0, std::min(line.find('\n'), line.size()));
  line.remove_prefix(std::min(line.find_first_not_of("# "), line.size()));
  return line;
}

const ShippedMachine* findMachine(std::string_view name) {
  for (const ShippedMachine& machine : shippedMachines()) {
    if (name == machine.name) return &machine;
  }
  return nullptr;
}

std::string machineNames() {
  std::string names;
  for (const ShippedMachine& machine : shippedMachines())
    names += (names.empty() ? "" : ", ") + std::string(machine.name);
  return names;
}

}  // namespace railwise::softdev
