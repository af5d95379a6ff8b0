// The names that fault rules use. The lists also serve error messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "softdev/config/fault_rule.h"

namespace railwise::softdev {

struct FaultName {
  const char* name;
  uint32_t value;
};

std::span<const FaultName> faultOperations();  // bits of FaultOperation; "any" is not in the list
std::span<const FaultName> faultVerbs();       // values of Verb
std::span<const FaultName> faultStatuses();    // values of ibv_wc_status, without success
std::span<const FaultName> faultErrnos();
std::span<const FaultName> faultEvents();  // values of ibv_event_type

// Finds `text` in `names`, ignoring case.
bool findFaultName(std::span<const FaultName> names, std::string_view text, uint32_t* value);
// "?" if `value` has no name.
const char* nameOfFault(std::span<const FaultName> names, uint32_t value);
// Does `name` match the pattern of a rule? `pattern` may end with '*'; an empty pattern matches every name.
bool matchesName(std::string_view pattern, std::string_view name);
// "a, b, c"
std::string listOf(std::span<const FaultName> names);

inline const char* verbName(Verb verb) { return nameOfFault(faultVerbs(), static_cast<uint32_t>(verb)); }

}  // namespace railwise::softdev
