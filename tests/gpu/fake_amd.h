// What the fakes of AMD's two libraries share: the machine of RAILWISE_FAKE_GPUS as an AMD library sees it.
//
// Rows of the machine: "mesh MIN MAX" joins each GPU to each by xGMI, MB/s; "pair FROM TO TYPE HOPS MIN MAX"
// counts before it; "process GPU GPU ..." is a process that uses them.
#pragma once

#include <cstring>

#include "tests/gpu/machine_file.h"

namespace railwise::test {

// RSMI_STATUS and AMDSMI_STATUS.
constexpr unsigned kAmdInvalid = 1;
constexpr unsigned kAmdUnsupported = 2;
constexpr unsigned kAmdUnknownError = 0xffffffff;

inline const MachinePart& amdMachine() {
  static const MachinePart read = readMachineFile(std::getenv("RAILWISE_FAKE_GPUS"));
  return read;
}

inline unsigned amdRefuses(uint64_t gpu, const char* key) {
  if (gpu >= amdMachine().parts.size()) return kAmdInvalid;
  if (fakeMode("fail")) return kAmdUnknownError;
  return amdMachine().parts[gpu].find(key) != nullptr ? 0 : kAmdUnsupported;
}

// In mode "endless" a text without an end.
inline unsigned amdFill(const std::string* value, char* to, size_t bytes) {
  if (value == nullptr || value->size() >= bytes) return kAmdUnsupported;
  if (fakeMode("endless")) std::memset(to, 'A', bytes);
  else std::memcpy(to, value->c_str(), value->size() + 1);
  return 0;
}

inline unsigned amdText(uint64_t gpu, const char* key, char* to, size_t bytes) {
  if (const unsigned error = amdRefuses(gpu, key)) return error;
  return amdFill(amdMachine().parts[gpu].find(key), to, bytes);
}

template <typename T>
unsigned amdNumber(uint64_t gpu, const char* key, T* to, unsigned shift = 0) {
  if (const unsigned error = amdRefuses(gpu, key)) return error;
  *to = static_cast<T>(amdMachine().parts[gpu].number(key) << shift);
  return 0;
}

struct AmdPair {
  int type = 0;
  uint64_t hops = 0, min = 0, max = 0;
};

inline AmdPair amdPair(uint64_t from, uint64_t to) {
  AmdPair pair;
  for (const auto& [key, value] : amdMachine().rows) {
    std::istringstream words(value);
    if (key == "mesh") {
      words >> pair.min >> pair.max;
      pair.type = 2;
      pair.hops = 1;
    } else if (key == "pair") {
      uint64_t a = 0;
      uint64_t b = 0;
      AmdPair one;
      words >> a >> b >> one.type >> one.hops >> one.min >> one.max;
      if ((a == from && b == to) || (a == to && b == from)) return one;
    }
  }
  return pair;
}

// The GPUs that each process uses.
inline std::vector<std::vector<uint32_t>> amdProcesses() {
  std::vector<std::vector<uint32_t>> all;
  for (const auto& [key, value] : amdMachine().rows) {
    if (key != "process") continue;
    std::istringstream words(value);
    all.emplace_back();
    for (uint32_t gpu = 0; words >> gpu;) all.back().push_back(gpu);
  }
  return all;
}

}  // namespace railwise::test
