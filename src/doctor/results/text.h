// Results of nccl-tests for people and as JSON. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/text/json.h"
#include "doctor/results/comparison.h"

namespace railwise::doctor {

std::string ranksText(const Comparison& its);  // "16 ranks on 2 hosts"; "": not known
std::string jobText(const Comparison& its);    // "all_reduce, 16 ranks on 2 hosts"
// "320.1 of 458.1 GB/s (70 %) at 8 GiB"; only of a comparison with a judged row.
std::string youGetText(const Comparison& its);

// What stands in the report's first line: "all_reduce 320.1 of 458.1 GB/s (70 %)"; without a model the best
// result.
std::string headlineText(const Comparison& its);
// What the output is of, and why it is not compared where it is not.
std::string readText(const Comparison& its);
// A paragraph and a table: size, measured, expected. "": nothing is compared.
std::string tableText(const Comparison& its);

// Writes the key "results" into the object that is open.
void writeResultsJson(JsonWriter& json, std::span<const Comparison> comparisons);

}  // namespace railwise::doctor
