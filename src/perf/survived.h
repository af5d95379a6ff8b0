// What a run has survived, from the records that its ranks leave (src/record): the paths that connections
// have left because of a failure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "record/snapshot.h"

namespace railwise::cli {

// Lines that begin with '#', as the rest of the table's foot: for each port, how many times connections left
// it after a failure and came back; and the longest time that one was without a path. "": nothing failed.
// Pure, any thread.
std::string survivedText(const std::vector<record::Snapshot>& ranks);

// The records of `pids` that can be read. A rank whose run had no failure has removed its own.
std::vector<record::Snapshot> recordsOf(std::span<const int> pids);

}  // namespace railwise::cli
