// The names that fault rules are written with. Lists are for error messages.
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

std::span<const FaultName> faultOperations();  // bits of FaultOperation, "any" not among them
std::span<const FaultName> faultVerbs();       // values of Verb
std::span<const FaultName> faultStatuses();    // ibv_wc_status without success
std::span<const FaultName> faultErrnos();
std::span<const FaultName> faultEvents();  // ibv_event_type

// Case does not matter.
bool findFaultName(std::span<const FaultName> names, std::string_view text, uint32_t* value);
// "?" when the value has none.
const char* nameOfFault(std::span<const FaultName> names, uint32_t value);
// Whether `name` is what a rule asks for: `pattern` may end with *; empty: any.
bool matchesName(std::string_view pattern, std::string_view name);
// "a, b, c"
std::string listOf(std::span<const FaultName> names);

inline const char* verbName(Verb verb) { return nameOfFault(faultVerbs(), static_cast<uint32_t>(verb)); }

}  // namespace railwise::softdev
