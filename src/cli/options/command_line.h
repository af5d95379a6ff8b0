// What every subcommand does around its work: reads its command line or leaves, writes its output, says
// notes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/options.h"

namespace railwise::tools {

// Parses, and serves --help and mistakes. Nothing: leave with *status. The help is `help`, the options, and
// `after_options`.
std::optional<Arguments> parseOrLeave(const char* command, const std::vector<Option>& table, Args args,
                                      const std::string& help, std::size_t max_positional, int* status,
                                      const std::string& after_options = "");

// A text to stdout, or to the file that `path` names; the exit status.
int writeOutput(const char* command, const std::string& path, const std::string& text);

// Lines for people on stderr: "railwise: command: note: ...".
void sayNotes(const char* command, const std::vector<std::string>& notes);

}  // namespace railwise::tools
