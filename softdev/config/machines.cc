#include "softdev/config/machines.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/text/words.h"

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

std::optional<std::string> closestMachine(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  std::vector<std::string> names;
  for (const ShippedMachine& machine : shippedMachines()) {
    if (lower.starts_with(machine.name)) return machine.name;  // "dgxh100", "DGX"
    names.emplace_back(machine.name);
  }
  return closest(lower, names);
}

std::string machineNames() {
  std::string names;
  for (const ShippedMachine& machine : shippedMachines())
    names += (names.empty() ? "" : ", ") + std::string(machine.name);
  return names;
}

}  // namespace railwise::softdev
