// A text file line by line, plain or gzip, or standard input; of any size.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace railwise::doctor {

// Calls `take` with every line, without its end. A line that is longer than 64 KiB is cut, its rest is left
// out. "-" is standard input. Answers "", or why the file could not be read to its end.
std::string readLines(const std::string& path, const std::function<void(std::string_view)>& take);

}  // namespace railwise::doctor
