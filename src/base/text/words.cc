#include "base/text/words.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

namespace railwise {

std::string listText(const std::vector<std::string>& items, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? last : ", ";
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

std::string upperCase(std::string_view text) {
  std::string upper(text);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return upper;
}

std::string sizeText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) bytes /= 1024, ++unit;
  return std::to_string(bytes) + " " + kUnits[unit];
}

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

std::size_t editDistance(std::string_view a, std::string_view b) {
  using Row = std::vector<std::size_t>;
  Row before_last;
  Row last(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    Row row(b.size() + 1);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::move(last);
    last = std::move(row);
  }
  return last.back();
}

std::optional<std::string> closest(std::string_view name, std::span<const std::string> candidates) {
  std::optional<std::string> best;
  // Two slips in a word of three letters leave nothing of it.
  std::size_t best_distance = std::max<std::size_t>(name.size() < 4 ? 1 : 2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const bool abbreviated = name.size() >= 3 && candidate.starts_with(name);
    const std::size_t distance = abbreviated ? 1 : editDistance(name, candidate);
    // Where two candidates are equally near, the one with the same letters wins: for PBX that is PXB, not
    // PIX.
    const bool reordered = distance == best_distance && best && std::ranges::is_permutation(name, candidate);
    if ((distance >= best_distance && !reordered) || distance >= candidate.size()) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

}  // namespace railwise
