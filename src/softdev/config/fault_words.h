// One word of a fault rule's text (fault_rule.h).
#pragma once

#include <string>
#include <string_view>

#include "softdev/config/fault_rule.h"

namespace railwise::softdev {

// Adds what `word` says to the rule; false with a sentence in *error.
bool parseFaultWord(std::string_view word, FaultRule* rule, std::string* error);
// Sets *error; always false.
bool refuseFault(std::string* error, std::string_view word, const std::string& why);
std::string knownFaultActions();

}  // namespace railwise::softdev
