// What the tests of the search have in common: a machine of output_machines.h, searched.
#pragma once

#include "tests/topo/output_machines.h"
#include "topo/search/channel_search.h"
#include "topo/search/search.h"

namespace railwise::topo::test {

// The paths of a whole machine, as the search needs them.
inline Paths searchPaths(const Machine& machine) {
  auto paths =
      Paths::compute(*machine.graph, *machine.settings, {.with_communicator = true, .for_search = true});
  EXPECT_OK(paths);
  return std::move(*paths);
}

inline CommunicatorGraphs searched(const Machine& machine, SearchOptions options) {
  auto found = searchGraphs(machine.domains[0], *machine.settings, options);
  EXPECT_OK(found);
  return std::move(*found);
}

// Two GPUs on one PCIe switch each, without NVLink: all traffic goes over PCIe and between the CPUs.
inline std::string withoutNvlink(int sm = 90) {
  std::string inner;
  for (int i = 0; i < 2; ++i) {
    inner += cpu(i, gpuWith(i, "0000:1" + std::to_string(i) + ":00.0", "", sm));
  }
  return systemOf(inner);
}

}  // namespace railwise::topo::test
