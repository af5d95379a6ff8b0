// What the facts of both ends say without a measurement. Pure; thread-safe.
#pragma once

#include "doctor/finding.h"
#include "doctor/pair/measuring/plan.h"

namespace railwise::doctor::pair {

void judgeFacts(const Results& results, Findings& findings);

}  // namespace railwise::doctor::pair
