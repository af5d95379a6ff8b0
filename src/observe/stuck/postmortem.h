// The record of a process in words, after its end: what it was, what went wrong first, what was open, and the
// last events. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <string>

#include "record/snapshot.h"

namespace railwise::observe {

struct PostmortemOptions {
  std::size_t events = 40;  // how many of the last events are shown
};

// One sentence: how the process ended, what it did, and what went wrong first.
std::string postmortemVerdict(const record::Snapshot& snapshot);
// The verdict, then everything, in 80 columns.
std::string postmortemText(const record::Snapshot& snapshot, const PostmortemOptions& options);
std::string postmortemJson(const record::Snapshot& snapshot, const PostmortemOptions& options);

}  // namespace railwise::observe
