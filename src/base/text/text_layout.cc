#include "base/text/text_layout.h"

#include <algorithm>
#include <cstdio>

namespace railwise {
namespace {

// Bytes 10xxxxxx continue a character.
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

void appendWords(std::string& text, std::string_view words, std::size_t column, std::string_view other,
                 std::size_t columns) {
  constexpr std::string_view kBlanks = " \n";
  bool begins = true;  // no word is in this line yet
  while (true) {
    words.remove_prefix(std::min(words.find_first_not_of(kBlanks), words.size()));
    if (words.empty()) return;
    const std::string_view word = words.substr(0, words.find_first_of(kBlanks));
    words.remove_prefix(word.size());
    const std::size_t width = characters(word);
    if (!begins && column + 1 + width > columns) {
      text += '\n';
      text += other;
      column = characters(other);
      begins = true;
    }
    if (!begins) text += ' ', ++column;
    text += word;
    column += width;
    begins = false;
  }
}

std::string wrappedText(std::string_view words, std::string_view first, std::string_view other,
                        std::size_t columns) {
  std::string text(first);
  appendWords(text, words, characters(first), other, columns);
  return text + '\n';
}

std::string wrappedText(std::string_view words, std::string_view first, std::size_t columns) {
  return wrappedText(words, first, std::string(characters(first), ' '), columns);
}

std::string tableText(const std::vector<TextRow>& rows, std::size_t right_from) {
  std::vector<std::size_t> widths;
  for (const TextRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], characters(row[i]));
  }
  std::string text;
  for (const TextRow& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - characters(row[i]), ' ');
      line += (i > 0 ? "  " : "") + (i >= right_from ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string vformatText(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string text(static_cast<std::size_t>(std::max(length, 0)) + 1, '\0');
  std::vsnprintf(text.data(), text.size(), format, arguments);
  text.pop_back();
  return text;
}

std::string formatText(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = vformatText(format, arguments);
  va_end(arguments);
  return text;
}

}  // namespace railwise
