// The plugin behind the spy: RAILWISE_SPY names it, as NCCL_NET_PLUGIN would. It is loaded when the spy is
// loaded, and stays. Immutable after that, so any thread may read it.
#pragma once

#include <array>
#include <string>

#include "base/settings/config.h"
#include "nccl/versions.h"

namespace railwise::spy {

// One-sided communication; a plugin behind the spy may have more than Railwise.
inline constexpr int kOldestRma = 13;
inline constexpr int kOldestGin = 11;
inline constexpr int kNewestOneSided = 16;

struct Inner {
  Config config;      // the spy's settings
  std::string file;   // its path; "" if it is not loaded
  std::string error;  // why there is no plugin behind the spy; "" if there is one
  // What the plugin exports that NCCL does not find through the spy: "ncclTunerPlugin_v3".
  std::string hidden;
  std::array<const void*, kNewestApi + 1> tables = {};  // by version; null: the plugin lacks it
  std::array<const void*, kNewestOneSided + 1> rma = {};
  std::array<const void*, kNewestOneSided + 1> gin = {};
};

const Inner& inner();

// True while inner() looks at the plugin. Who asks for a table of the spy's then is the spy itself, which
// RAILWISE_SPY must not name.
bool askedByItself();

}  // namespace railwise::spy
