// Whose rules a command applies: the option that names a release of NCCL, and the release that counts without
// it.
#pragma once

#include <optional>
#include <string>

#include "cli/options/options.h"
#include "topo/nccl_release.h"

namespace railwise::cli {

// An option with the name of a release, such as --nccl=2.30.
Option ncclOption(std::string name, std::optional<topo::NcclChoice>* field, std::string text);

// The rules that a command applies, and why.
struct RulesInUse {
  topo::NcclVersion release;
  std::string note;     // for people: "the rules of NCCL 2.30.7", and why these
  std::string warning;  // "": there is none
  bool asked = false;   // an option has named the release
};
// `asked`: what ncclOption() has read. Without it: for this machine (`live`) the release of the libnccl that
// programs load here, else the newest release with rules that are known.
RulesInUse rulesInUse(const std::optional<topo::NcclChoice>& asked, bool live);

}  // namespace railwise::cli
