// A machine's GPUs as a text file, from which the fake vendors' libraries answer (RAILWISE_FAKE_GPUS names
// it). One "key value" a line, '#' begins a comment. "gpu" begins a GPU, "mig" an instance of the GPU before
// it; the keys after it belong to it. A key that is missing: the fake library does not support the call.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace railwise::test {

struct MachinePart {
  std::vector<std::pair<std::string, std::string>> rows;
  std::vector<MachinePart> parts;  // of a machine: its GPUs; of a GPU: its MIG instances

  const std::string* find(std::string_view key) const {
    for (const auto& [name, value] : rows)
      if (name == key) return &value;
    return nullptr;
  }
  uint64_t number(std::string_view key) const { return std::stoull(*find(key), nullptr, 0); }
};

inline MachinePart readMachineFile(const char* path) {
  MachinePart machine;
  std::ifstream file(path != nullptr ? path : "");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string key;
    if (!(words >> key)) continue;
    std::string value;
    std::getline(words >> std::ws, value);
    while (!value.empty() && value.back() == ' ') value.pop_back();
    if (key == "gpu") machine.parts.emplace_back();
    else if (key == "mig") machine.parts.back().parts.emplace_back();
    else if (machine.parts.empty()) machine.rows.emplace_back(key, value);
    else if (machine.parts.back().parts.empty()) machine.parts.back().rows.emplace_back(key, value);
    else machine.parts.back().parts.back().rows.emplace_back(key, value);
  }
  return machine;
}

inline bool fakeMode(std::string_view mode) {
  const char* set = std::getenv("RAILWISE_FAKE_GPU_MODE");
  return set != nullptr && mode == set;
}

}  // namespace railwise::test
