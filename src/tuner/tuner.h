// The tuner of one communicator: which override answers a question of NCCL's. It says once in the log what
// each override changes. NCCL asks for one communicator from one thread at a time; two tuners share nothing
// that changes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"

namespace railwise::tuner {

// Overrides of NCCL's choice of algorithm, protocol and channels: the rows of a CSV file with the columns of
// NCCL's example tuner (docs/tuner.md). The parser is strict: a file with a mistake gives no override at all.
// Plain values; thread-safe.

// The numbers of NCCL's ncclFunc_t, NCCL_ALGO_... and NCCL_PROTO_... (NCCL 2.21 to 2.31).
enum class Collective : int {
  kBroadcast = 0,
  kReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kAllReduce = 4
};
enum class Algorithm : int {
  kTree = 0,
  kRing = 1,
  kCollNetDirect = 2,
  kCollNetChain = 3,
  kNvls = 4,
  kNvlsTree = 5,
  kPat = 6,
};
enum class Protocol : int { kLl = 0, kLl128 = 1, kSimple = 2 };

// The words of the file.
const char* nameOf(Collective collective);
const char* nameOf(Algorithm algorithm);
const char* nameOf(Protocol protocol);

// A column that fits every value. For channels: NCCL's own number of channels stays.
inline constexpr int kAny = -1;

struct Override {
  int line = 0;  // of the file, from 1
  Collective collective = Collective::kAllReduce;
  std::size_t min_bytes = 0;
  std::size_t max_bytes = 0;  // inclusive
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  int channels = kAny;
  int nodes = kAny;
  int ranks = kAny;
  int pipe_ops = kAny;    // operations of a group that NCCL joins into one
  int registered = kAny;  // 1: both buffers are registered, 0: they are not
};

// Does any release of NCCL have this algorithm with this protocol for this collective?
bool ncclHas(Collective collective, Algorithm algorithm, Protocol protocol);

struct OverrideFile {
  std::string path;
  std::vector<Override> overrides;    // empty if there is a mistake
  std::vector<std::string> mistakes;  // "PATH:LINE:COLUMN: what is wrong, and what to write instead"
};

// `path` is for the messages only.
OverrideFile parseOverrides(std::string_view text, std::string path);

// Reads and parses the file. A file that cannot be read, or is too large, has one mistake.
OverrideFile readOverrides(const std::string& path);

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
