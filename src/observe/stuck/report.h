// A diagnosis as a text of 80 columns, as JSON, and as a graph for Graphviz. Pure; thread-safe.
#pragma once

#include <string>

#include "observe/stuck/diagnosis.h"

namespace railwise::observe {

std::string stuckText(const Job& job, const Diagnosis& diagnosis);
std::string stuckJson(const Job& job, const Diagnosis& diagnosis);
// For `dot -Tsvg`: processes and culprits, and who waits for whom.
std::string stuckDot(const Job& job, const Diagnosis& diagnosis);

}  // namespace railwise::observe
