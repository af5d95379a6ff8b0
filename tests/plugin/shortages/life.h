// A job's life with the plugin, both ends in this process: devices, two connections, messages, flushes, the
// end. An error ends it early and in good order, as in NCCL.
#pragma once

#include <chrono>
#include <string>

#include "nccl/err.h"

namespace railwise::test {

struct Life {
  std::string failed;  // the call that answered an error; empty: none
  std::string wrong;   // what must not be, whatever failed
};

// What each life does with the answers of calls.
class Living {
 protected:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kPatience = std::chrono::seconds(60);  // what then has not ended hangs
  struct Failure {};

  void call(const char* name, ncclResult_t result) {
    if (result == ncclSuccess) return;
    life_.failed = std::string(name) + " answered " + std::to_string(result);
    throw Failure{};
  }
  void wrong(const std::string& what) {
    if (life_.wrong.empty()) life_.wrong = what;
    throw Failure{};
  }
  // Every call here must succeed, whatever went before: nobody can do anything about it.
  void must(const char* name, ncclResult_t result) {
    if (result != ncclSuccess && life_.wrong.empty())
      life_.wrong = std::string(name) + " answered " + std::to_string(result) + " at the end";
  }

  Life life_;
};

// One life from init to finalize. The software device must be chosen (useDevice).
Life live();
// The same with a group of two ranks that put, signal and read, and lose a path.
Life liveOneSided();

}  // namespace railwise::test
