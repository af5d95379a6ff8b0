// The machines that Railwise ships (machines/*.conf). They are compiled into the program, so that
// software:@NAME works without files. CMake generates the text.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace railwise::softdev {

struct ShippedMachine {
  const char* name;
  const char* text;  // text of the file, in the grammar of config.h
  // The first comment line of the text, which describes the machine.
  std::string_view title() const;
};

std::span<const ShippedMachine> shippedMachines();
const ShippedMachine* findMachine(std::string_view name);          // null: no shipped machine has this name
std::string machineNames();                                        // "laptop, dgx ..."
std::optional<std::string> closestMachine(std::string_view name);  // that was probably meant

}  // namespace railwise::softdev
