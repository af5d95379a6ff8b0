// Runs a check in a process of its own, and what it found.
#pragma once

#include <string>

#include "conform/check.h"

namespace railwise::conform {

struct Verdict {
  enum Kind { kHeld, kBroken, kDoesNotApply, kNotTried };
  Kind kind = kBroken;
  std::string text;     // how it held, what the plugin did, or why the check does not apply or is not tried
  bool started = true;  // the plugin came through init and devices
  std::string hung_in = {};  // the call of the plugin that has not returned; "": none
};

// On software devices of a fabric of its own. `number`: of the trial. After `limit_s` it hangs. Main thread
// only.
Verdict tryCheck(const Check& check, const cli::PluginOptions& plugin, int number, int limit_s);

// The versions of its net table and of its RMA table that a plugin exports, newest first. An error: it cannot
// be loaded.
struct Exports {
  std::vector<int> net, rma;
};
Outcome<Exports> exportsOf(const cli::PluginOptions& plugin);

}  // namespace railwise::conform
