// Words that stuck and postmortem share: names, ages, sizes, and lines of 80 columns. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text/words.h"
#include "observe/stuck/facts.h"

namespace railwise::observe {

// A text from outside for a terminal: what is not printable ASCII becomes '?', and a long text is cut.
std::string plainText(std::string_view text);

// "rank 3 (gpu2:4411)", or "gpu2:4411" where the rank is not known.
std::string processName(const ProcessFacts& process);
// "gpu2:4411", as a peer names the process.
std::string processKey(const ProcessFacts& process);
// The host of a record. A record may call it "gpu2:4411", as peers are called.
std::string hostName(const record::Process& process);
// "1.0 MiB", "40 bytes"
std::string bytesText(uint64_t bytes);
// "3.2 s"; "an unknown time" for kNever.
std::string ageText(uint64_t ms);

// `text`, broken between words so that no line is wider than 80 columns. `first` stands before the first line
// and `indent` blanks before the others. Ends with a line feed.
std::string wrapped(std::string_view text, std::string_view first = "", std::size_t indent = 0);

}  // namespace railwise::observe
