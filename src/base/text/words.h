// Texts taken apart, words for people (counts, lists, sizes), and names that were probably meant. Pure;
// thread-safe.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace railwise {

// "1 process", "3 processes"
template <std::integral Number>
std::string counted(Number number, std::string_view one, std::string_view many) {
  return std::to_string(number).append(" ").append(number == 1 ? one : many);
}
// "1 rank", "3 ranks"
template <std::integral Number>
std::string counted(Number number, std::string_view noun) {
  return counted(number, noun, std::string(noun) + "s");
}

// All texts, with `between` between them; empty texts in front are left out. `text_of` makes a text of an
// item.
template <typename Items, typename TextOf = std::identity>
std::string joined(const Items& items, std::string_view between = ", ", const TextOf& text_of = {}) {
  std::string all;
  for (const auto& item : items) {
    if (!all.empty()) all += between;
    all += std::string_view(std::invoke(text_of, item));
  }
  return all;
}

// In small letters, or in capitals, as far as they are ASCII.
std::string lowerCase(std::string_view text);
std::string upperCase(std::string_view text);

// FNV-1a, the same on every machine. `before`: the hash of what stands before the text.
constexpr uint64_t stableHash(std::string_view text, uint64_t before = 0xcbf29ce484222325) {
  for (const char c : text) before = (before ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return before;
}

// "a, b and c"
std::string listText(const std::vector<std::string>& items, std::string_view last = " and ");

// "a, b, c and 2 more": the first `most` items.
std::string firstItems(std::span<const std::string> items, std::size_t most, std::string_view rest = "more");

// "8 GiB", "1000 B": exact, in the largest unit that needs no fraction.
std::string sizeText(uint64_t bytes);

// The name of `value` in a table of names, or `otherwise`.
template <typename Enum, std::size_t n>
constexpr const char* nameIn(const std::pair<Enum, const char*> (&names)[n], Enum value,
                             const char* otherwise = "unknown") {
  for (const auto& [each, name] : names)
    if (each == value) return name;
  return otherwise;
}

// A row of a table of names: a value, its words for people, and its key in JSON or in queries.
template <typename Enum>
struct Named {
  Enum value;
  const char* words;
  const char* key = nullptr;
};
// For lists of rows X(Enum, name, words, key): the enumerator of a row, and its row of a table of names. A
// list may be without keys.
#define RAILWISE_ENUMERATOR(Enum, name, ...) name,
#define RAILWISE_NAMED(Enum, name, ...) {Enum::name, __VA_ARGS__},
// The row of `value`. Without one, as a value from outside may be, words and key are `otherwise`.
template <typename Enum, std::size_t n>
constexpr Named<Enum> rowOf(const Named<Enum> (&rows)[n], Enum value, const char* otherwise = "unknown") {
  for (const Named<Enum>& row : rows)
    if (row.value == value) return row;
  return {value, otherwise, otherwise};
}

// Takes texts apart. Pure; thread-safe.

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

// The name that somebody probably meant: for "did you mean ...?". Pure functions; thread-safe.

// How many letters must be replaced, inserted, removed, or exchanged with their neighbour to make `b` of `a`.
std::size_t editDistance(std::string_view a, std::string_view b);

// The candidate closest to `name`, if it is close enough that `name` may be a misspelling. Otherwise null.
std::optional<std::string> closest(std::string_view name, std::span<const std::string> candidates);

}  // namespace railwise
