// What the evidence makes of a line: causes in order of likelihood, each with what shows it. Pure;
// thread-safe.
#pragma once

#include <string>

#include "doctor/log/judging/evidence.h"

namespace railwise::doctor {

struct Advice {
  std::string why, fix;
};

// `check`: of the event, or of the process's state ("socket-network"). `general`: what its family says, which
// stays where no rule is certain. Names in braces are filled in.
Advice adviceOf(const Situation& situation, const std::string& check, const Advice& general);

// Does a rule of the check hold with certainty?
bool ruleHolds(const Situation& situation, const std::string& check);

}  // namespace railwise::doctor
