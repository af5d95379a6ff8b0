// The tuner of one communicator: which override answers a question of NCCL's. It says once in the log what
// each override changes. NCCL asks for one communicator from one thread at a time; two tuners share nothing
// that changes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tuner/overrides.h"

namespace railwise::tuner {

// The collective that NCCL is about to begin.
struct Question {
  Collective collective = Collective::kAllReduce;
  std::size_t bytes = 0;  // as NCCL counts them: of the larger one of both buffers
  int pipe_ops = 1;
  std::optional<bool> registered;  // API versions 2 and 3 do not tell
};

// An algorithm with a protocol, and NCCL's estimate of the time.
struct Choice {
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  float time_us = 0;
};

// What NCCL can take in one case.
class Offers {
 public:
  virtual ~Offers() = default;
  virtual bool has(Algorithm algorithm, Protocol protocol) const = 0;
  // What NCCL takes without an override, if that is known.
  virtual std::optional<Choice> own() const = 0;
};

class Tuner {
 public:
  // `file` must live longer than the tuner. Logs how many overrides fit the communicator.
  Tuner(const OverrideFile& file, std::size_t ranks, std::size_t nodes);

  // The first override in the file that fits and that NCCL offers. Null: NCCL's own choice stays.
  const Override* choose(const Question& question, const Offers& offers);

  std::size_t nodes() const { return nodes_; }

 private:
  struct Row {
    const Override* override = nullptr;
    bool said_applied = false;
    bool said_missing = false;
  };
  void sayApplied(Row& row, const Question& question, const Offers& offers) const;
  void sayMissing(Row& row, const Question& question) const;

  const OverrideFile& file_;
  std::size_t nodes_;
  std::vector<Row> rows_;  // those that fit the communicator, in the order of the file
};

}  // namespace railwise::tuner
