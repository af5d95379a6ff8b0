// Words for people: counts, lists and sizes. Pure; thread-safe.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
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

// In small letters, as far as they are ASCII.
std::string lowerCase(std::string_view text);

// "a, b and c"
std::string listText(const std::vector<std::string>& items);

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

}  // namespace railwise
