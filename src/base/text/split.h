// Takes texts apart. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace railwise {

// The text without the blanks at its ends.
std::string_view trimmed(std::string_view text, std::string_view blanks);

// The parts between the separators. "a,,b" has an empty one.
std::vector<std::string> splitAt(std::string_view text, char separator);
// The parts that are not empty.
std::vector<std::string> fullPartsOf(std::string_view text, char separator);

}  // namespace railwise
