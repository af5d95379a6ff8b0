// The names of settings: every variable of NCCL and RCCL (nccl_variables.def) and of Railwise (config.def),
// and which names in an environment are probably misspelt. NCCL ignores a name that it does not know without
// a word. Pure functions of an environment that the caller passes, which may be that of another machine.
// Thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace railwise {

// Name and value of each variable.
using Environment = std::map<std::string, std::string>;

// A row of nccl_variables.def.
struct NcclVariable {
  enum class Kind : uint8_t { kNumber, kWord, kExactWord, kText };
  const char* name;
  const char* since = "";  // the first release with it; "": 2.13 or before
  const char* until = "";  // the last release with it; "": 2.32 has it
  Kind kind = Kind::kText;
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
  const char* words = "";    // separated by commas
  bool gone = false;         // no release since 2.13 reads it
  const char* instead = "";  // a variable to set in place of one that is gone
  bool rccl_only = false;
};
std::span<const NcclVariable> ncclVariables();
// Null: neither NCCL nor RCCL has it.
const NcclVariable* findNcclVariable(std::string_view name);

// Is it a name of NCCL, RCCL or config.def?
bool isSettingName(std::string_view name);

// Some names begin like settings and are not NCCL's: container images, build systems, and other programs set
// them. Returns what the name is for; null: nothing is known.
const char* purposeElsewhere(std::string_view name);

// A variable that begins like a setting of NCCL, RCCL or Railwise, and is none.
struct UnknownName {
  std::string name;
  std::string nearest;  // the setting that was probably meant; "": none is near
  bool railwise;        // begins with RAILWISE_, where every unknown name is a mistake
};
// In the order of the names. Names without a near setting are in the answer too: a newer NCCL may know them.
std::vector<UnknownName> unknownNames(const Environment& environment);
// One sentence for people.
std::string textOf(const UnknownName& unknown);

// The unknown names that concern the network: all of Railwise's; NCCL's only if a near setting is NCCL_IB_*,
// NCCL_NET* or NCCL_SOCKET*.
std::vector<UnknownName> misspeltNetworkNames(const Environment& environment);

}  // namespace railwise
