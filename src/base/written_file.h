// Writes files that other programs read meanwhile. Thread-safe. An error names the file.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/outcome.h"

namespace railwise {

// Gives `path` the content `text`: a reader sees the whole old or the whole new content. `mode`: nothing
// keeps that of the file before, or takes that of a new file. What is no plain file (/dev/stderr, a pipe), or
// lies in a folder where no file can be made, is written itself.
Outcome<void> replaceFile(const std::string& path, const std::string& text, std::optional<mode_t> mode = {});
// Appends `text` to `path`, which is made if it does not exist.
Outcome<void> appendToFile(const std::string& path, const std::string& text);

}  // namespace railwise
