// Writes files that other programs read meanwhile. Thread-safe. An error names the file.
#pragma once

#include <string>

#include "base/outcome.h"

namespace railwise {

// Gives `path` the content `text`: a reader sees the whole old or the whole new content. The mode is 0644.
Outcome<void> replaceFile(const std::string& path, const std::string& text);
// Appends `text` to `path`, which is made if it does not exist.
Outcome<void> appendToFile(const std::string& path, const std::string& text);

}  // namespace railwise
