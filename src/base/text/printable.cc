#include "base/text/printable.h"

#include <algorithm>

namespace railwise {
namespace {

// The number of bytes of the UTF-8 character at the start of `text`. 0: `text` does not start with a UTF-8
// character.
std::size_t characterLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte(1);  // refuses over-long forms, surrogates, and values beyond U+10FFFF
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  return length;
}

}  // namespace

std::string cleanUtf8(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = characterLength(text);
    clean += length == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

std::string withoutControls(std::string_view text, std::string_view kept) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (c == 0xc2 && next >= 0x80 && next < 0xa0) {  // U+0080 to U+009F, of two bytes
      plain += '?';
      ++i;
    } else {
      const bool control = (c < 0x20 || c == 0x7f) && kept.find(text[i]) == std::string_view::npos;
      plain += control ? '?' : text[i];
    }
  }
  return plain;
}

std::string printableAscii(std::string_view text) {
  std::string plain(text);
  std::replace_if(
      plain.begin(), plain.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return plain;
}

std::string escapePrometheus(std::string_view text, bool quotes) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || (c == '"' && quotes)) result += '\\';
    if (c == '\n') result += "\\n";
    else result += c;
  }
  return result;
}

std::string escapeXml(std::string_view text) {
  std::string escaped;
  for (const char c : cleanUtf8(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      case '\n':
        escaped += "&#10;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 ? std::string("\xef\xbf\xbd") : std::string(1, c);
    }
    // U+FFFE and U+FFFF are UTF-8, and no characters of XML.
    if (escaped.ends_with("\xef\xbf\xbe") || escaped.ends_with("\xef\xbf\xbf")) escaped.back() = '\xbd';
  }
  return escaped;
}

}  // namespace railwise
