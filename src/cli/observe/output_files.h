// How collected metrics get into files. Any thread.
#pragma once

#include <string>

#include "base/outcome.h"

namespace railwise::cli {

// Gives `path` the content `text`: a reader sees the whole old or the whole new content. The mode is 0644.
// The error names the file.
Outcome<void> replaceFile(const std::string& path, const std::string& text);

// Appends `line` to `path`, which is made if it does not exist.
Outcome<void> appendLine(const std::string& path, const std::string& line);

}  // namespace railwise::cli
