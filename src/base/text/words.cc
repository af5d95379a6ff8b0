#include "base/text/words.h"

#include <algorithm>
#include <iterator>

namespace railwise {

std::string listText(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  return text;
}

std::string firstItems(std::span<const std::string> items, std::size_t most, std::string_view rest) {
  std::string text = joined(items.first(std::min(items.size(), most)));
  if (items.size() > most) text.append(" and ").append(counted(items.size() - most, rest, rest));
  return text;
}

std::string lowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::string sizeText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) bytes /= 1024, ++unit;
  return std::to_string(bytes) + " " + kUnits[unit];
}

}  // namespace railwise
