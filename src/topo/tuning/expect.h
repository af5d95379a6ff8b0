// What to expect of a collective on a machine: for each size what NCCL takes, the time and the bus bandwidth
// of its own cost model, the peak, and what limits it. For all-to-all, which NCCL has no model of, an
// estimate of our own. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "topo/machine/machine.h"
#include "topo/search/channel_graph.h"
#include "topo/tuning/cost_model.h"

namespace railwise::topo::tuning {

struct ExpectedSize {
  std::size_t bytes = 0;         // as nccl-tests counts: the larger one of both buffers of a rank
  std::optional<Choice> choice;  // none: all-to-all, which has no algorithms
  double time_us = 0;
  double bus_bandwidth = 0;  // GB/s, as nccl-tests counts
};

// NCCL's own table: what it logs with NCCL_DEBUG_SUBSYS=TUNING.
struct CostRow {
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  Cost cost;
};

struct Expectation {
  std::vector<int> ranks;  // of one node
  int nodes = 1;
  std::optional<Collective> collective;  // none: all-to-all
  std::vector<ExpectedSize> sizes;
  std::vector<CostRow> costs;  // empty for all-to-all
  double peak = 0;             // GB/s of the bus that large messages approach; 0: a communicator of one rank
  std::optional<Choice> peak_choice;
  int channels = 0;   // of the kernels; 0: all-to-all
  std::string limit;  // a sentence: what the peak depends on
  // Between nodes: GB/s that all channels of the rings together take of the NICs, and the names of these
  // NICs. 0 and none: one node, or all-to-all.
  double ring_network = 0;
  std::vector<std::string> ring_nics;
};

// The communicator of `nodes` equal machines on a domain. `nvls`: false where the driver has no multicast, or
// NCCL_NVLS_ENABLE=0.
Communicator communicatorOn(const Machine& machine, const Domain& domain, int nodes, bool nvls);

// `graphs`: of one node if `nodes` is 1, else of two.
Expectation expectCollective(const Machine& machine, const Domain& domain, const CommunicatorGraphs& graphs,
                             int nodes, bool nvls, Collective collective, std::span<const std::size_t> sizes);
Expectation expectAllToAll(const Machine& machine, const Domain& domain, int nodes,
                           std::span<const std::size_t> sizes);

// What makes NCCL choose, or count, otherwise than its model does here.
inline constexpr const char* kUnmodelled[] = {
    "NCCL_ALGO",     "NCCL_PROTO",        "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",   "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS", "NCCL_NET_OVERHEAD", "NCCL_TUNER_PLUGIN",  "RAILWISE_TUNER_CONFIG"};

// A collective of equal machines.
struct Question {
  std::optional<Collective> collective = Collective::kAllReduce;  // none: all-to-all
  int nodes = 1;
  bool nvls = true;
};
// Searches the graphs of the machine, and answers for each of its domains, in their order. An error: NCCL has
// no such communicator, and why.
Outcome<std::vector<Expectation>> expectOn(const Machine& machine, const Question& question,
                                           std::span<const std::size_t> sizes);

}  // namespace railwise::topo::tuning
