// HostFacts as lines of JSON, which travel from host to host: first a line of the host, then a line for each
// process. What is read comes from other hosts and is checked: everything that is accepted can be used. Pure;
// thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
#include "observe/stuck/facts.h"

namespace railwise::observe {

std::string jsonLines(const HostFacts& host);

// The answers in `text`, of one host or of several one after the other. Lines that do not begin with '{' are
// left out: a shell may have greeted. The error names `source`, the line and what is wrong there.
Outcome<std::vector<HostFacts>> parseJsonLines(std::string_view text, const std::string& source);

}  // namespace railwise::observe
