// The results of the pair test as a page: one HTML file without a script that needs nothing else. Pure;
// thread-safe.
#pragma once

#include <string>

#include "doctor/pair/summary.h"

namespace railwise::doctor::pair {

std::string pageHtml(const Results& results, const Judgement& judgement, const MeasureOptions& options);

}  // namespace railwise::doctor::pair
