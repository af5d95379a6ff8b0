// A check of `railwise conform`: a sentence that holds for a net plugin, and what tries it. Each check runs
// in a process of its own, which loads and starts the plugin, and may crash or hang.
#pragma once

#include <span>
#include <stdexcept>
#include <string>

#include "cli/plugin/plugin_loader.h"

namespace railwise::conform {

// What the plugin did instead.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A call answered an error.
struct Refused : Broken {
  using Broken::Broken;
};
// The plugin has not got what the check is about.
struct DoesNotApply : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Kind {
  kContract,  // NCCL's own callers rely on it
  kFaults,    // right data, or an error at both ends in time
  kCare,      // NCCL does not need it, its users are glad of it
};

struct Check {
  const char* name;  // "data.sizes"
  Kind kind;
  const char* rule;  // what holds, in a sentence
  // Returns how it held, for the table; "": there is nothing to say. Throws Broken or DoesNotApply.
  std::string (*run)(const cli::PluginOptions& plugin);
  const char* fault = "";  // rule of the software devices' fault injector (docs/software-device.md)
  int limit_s = 30;        // then it hangs; --timeout counts instead
  int oldest = kOldestApi;
};

std::span<const Check> lifeChecks();
std::span<const Check> dataChecks();
std::span<const Check> endChecks();
std::span<const Check> faultChecks();
std::span<const Check> oneSidedChecks();  // of the RMA table

}  // namespace railwise::conform
