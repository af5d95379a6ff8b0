// Conducts the pair test: what every end does, in step with all others, from the first facts to the results
// that all of them then have. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "doctor/pair/measuring/open_end.h"
#include "doctor/pair/measuring/plan.h"
#include "doctor/pair/measuring/wire.h"

namespace railwise::doctor::pair {

struct MeasureOptions {
  double seconds = 0.25;                 // of each bandwidth
  uint64_t bytes = uint64_t{256} << 10;  // of a write
  bool full = false;                     // every NIC with every NIC
  int subnet_bits = 24;  // NCCL_IB_SUBNET_PREFIX_LEN; equal at all ends, since all compute the plan
};

// How the ends talk to each other besides RDMA. Every end makes the same calls in the same order; a call
// waits for all ends.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;
  // Block r of the result came from end r. An error: an end has gone.
  virtual Outcome<std::vector<Bytes>> allGather(const Bytes& mine) = 0;
};

// `progress` is called with a line for a person: "round 2 of 7: mlx5_3".
Outcome<Results> conduct(Exchange& exchange, OpenEnd& end, const MeasureOptions& options,
                         const std::function<void(const std::string&)>& progress);

// Which of the ends measure: one of each host; on one host alone, the first two.
std::vector<std::size_t> measuringEnds(const std::vector<EndFacts>& ends);

}  // namespace railwise::doctor::pair
