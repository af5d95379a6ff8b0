// Takes texts apart. Pure; thread-safe.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace railwise {

// The text without the blanks at its ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n");

// The parts between the separators. "a,,b" has an empty one.
std::vector<std::string> splitAt(std::string_view text, char separator);
// The parts that are not empty.
std::vector<std::string> fullPartsOf(std::string_view text, char separator);
// The parts between spaces, tabs and ends of lines, and the lines without "\n" or "\r\n".
std::vector<std::string> wordsOf(std::string_view text);
std::vector<std::string> linesOf(std::string_view text);

// The number that the whole text is, or nothing. A whole number may have another base than 10.
template <typename Number>
std::optional<Number> numberIn(std::string_view text, [[maybe_unused]] int base = 10) {
  Number number{};
  const char* const last = text.data() + text.size();
  std::from_chars_result read;
  if constexpr (std::is_integral_v<Number>) read = std::from_chars(text.data(), last, number, base);
  else read = std::from_chars(text.data(), last, number);
  return read.ec == std::errc() && read.ptr == last ? std::optional(number) : std::nullopt;
}

}  // namespace railwise
