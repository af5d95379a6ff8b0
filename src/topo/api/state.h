// The state behind railwise::topology::Machine, and the conversion between the public types and those of the
// engine. Internal to api/. Thread-safe: everything is const once it is made.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "railwise/topology.h"
#include "topo/machine/load.h"
#include "topo/machine/machine.h"

namespace railwise::topology {

struct MachineState {
  topo::Machine machine;
  std::vector<Gpu> gpus;
  std::vector<Net> nets;
  GpuTopology gpu_topology;

  static Machine make(topo::Machine machine);
  static const MachineState& of(const Machine& machine) { return *machine.state_; }
  bool hasGpu(int gpu) const { return gpu >= 0 && gpu < static_cast<int>(gpus.size()); }
  bool hasNet(int net) const { return net >= 0 && net < static_cast<int>(nets.size()); }
};

Failure noGpu(const MachineState& state, int gpu);
Failure noNet(const MachineState& state, int net);

// The caller's options, in the types of the engine.
struct LoadOptions {
  topo::Settings settings;
  topo::Detection detection;
};
Result<LoadOptions> loadOptions(const Options& options);

template <typename T>
Result<T> published(Outcome<T> outcome) {
  if (!outcome.ok()) return Failure{outcome.error()};
  return std::move(*outcome);
}

// Turns exceptions into a Failure, so that none reaches the caller. The engine throws none of its own, but
// memory can run out.
template <typename Call>
auto guarded(const Call& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& exception) {
    return Failure{exception.what()};  // std::bad_alloc's text needs no memory
  }
}

// Wraps a call that returns a text and can fail only because memory runs out.
template <typename Call>
Result<std::string> guardedText(const Call& call) {
  return guarded([&]() -> Result<std::string> { return call(); });
}

}  // namespace railwise::topology
