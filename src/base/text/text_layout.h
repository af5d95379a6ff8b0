// Words and tables in lines that fit a terminal. Pure; thread-safe.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace railwise {

// What every text of the command fits into.
inline constexpr std::size_t kTextColumns = 80;
// For words that shall not be broken.
inline constexpr std::size_t kOneLine = static_cast<std::size_t>(-1);

// Adds `words` to `text`, whose last line has `column` characters, broken at blanks so that no line is wider
// than `columns`. `other` stands before all lines but the first.
void appendWords(std::string& text, std::string_view words, std::size_t column, std::string_view other,
                 std::size_t columns = kTextColumns);
// `words`, broken at blanks so that no line is wider than `columns` characters (UTF-8); a longer word has a
// line of its own. `first` stands before the first line, and `other` before all others. Ends with a line
// feed.
std::string wrappedText(std::string_view words, std::string_view first, std::string_view other,
                        std::size_t columns = kTextColumns);
// The same; the other lines begin below the first word.
std::string wrappedText(std::string_view words, std::string_view first = {},
                        std::size_t columns = kTextColumns);

using TextRow = std::vector<std::string>;
// Columns that are as wide as their widest text, two blanks apart. Rows may differ in length. Columns from
// `right_from` on are set to the right.
std::string tableText(const std::vector<TextRow>& rows, std::size_t right_from = kOneLine);

// Formats into a string, like printf.
[[gnu::format(printf, 1, 2)]] std::string formatText(const char* format, ...);
[[gnu::format(printf, 1, 0)]] std::string vformatText(const char* format, va_list arguments);

}  // namespace railwise
