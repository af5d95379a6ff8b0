#include "base/text/split.h"

#include <algorithm>

namespace railwise {

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string> splitAt(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> fullPartsOf(std::string_view text, char separator) {
  std::vector<std::string> parts = splitAt(text, separator);
  std::erase(parts, "");
  return parts;
}

std::vector<std::string> wordsOf(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::vector<std::string> words;
  for (std::size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> lines = splitAt(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  for (std::string& line : lines)
    if (line.ends_with('\r')) line.pop_back();
  return lines;
}

}  // namespace railwise
