// Reads files of any kind, and writes files that other programs read meanwhile. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/outcome.h"

namespace railwise {

// An error of the two that write names the file.

// Writes all of `text`. Returns 0 or an errno.
int writeAll(int fd, std::string_view text);
// Gives `path` the content `text`: a reader sees the whole old or the whole new content. `mode`: nothing
// keeps that of the file before, or takes that of a new file. What is no plain file (/dev/stderr, a pipe, a
// link to nothing), or lies in a folder where no file can be made, is written itself.
Outcome<void> replaceFile(const std::string& path, const std::string& text, std::optional<mode_t> mode = {});
// Appends `text` to `path`, which is made if it does not exist.
Outcome<void> appendToFile(const std::string& path, const std::string& text);

// The first `most` bytes of a file of any kind: also of /proc, or of a pipe, whose size the kernel does not
// tell. The error is the system's, without the name.
Outcome<std::string> wholeFile(const std::string& path, std::size_t most = SIZE_MAX);

}  // namespace railwise
