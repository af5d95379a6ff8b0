#include "topo/exports/names.h"

#include <algorithm>

#include "base/text/json.h"
#include "base/text/text_layout.h"

namespace railwise::topo {
namespace {

bool isLower(char c) { return c >= 'a' && c <= 'z'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isAlphanumeric(char c) { return isLower(c) || isDigit(c) || (c >= 'A' && c <= 'Z'); }

char lowerLetter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool isPlain(char c) { return isAlphanumeric(c) || c == '_' || c == '.' || c == '-'; }

// Cuts `text` to the length of a label of DNS, and removes what is neither a letter nor a digit from both
// ends.
std::string trimmed(std::string text) {
  text = text.substr(0, 63);
  while (!text.empty() && !isAlphanumeric(text.back())) text.pop_back();
  const auto first = std::find_if(text.begin(), text.end(), isAlphanumeric);
  return {first, text.end()};
}

bool isDnsLabel(std::string_view label) {
  return !label.empty() && label.size() <= 63 && label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), [](char c) { return isLower(c) || isDigit(c) || c == '-'; });
}

}  // namespace

std::string lowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = lowerLetter(c);
  return lower;
}

bool isDeviceName(std::string_view name) {
  return !name.empty() && name.front() != '-' && name.size() <= 63 &&
         std::all_of(name.begin(), name.end(), isPlain);
}

std::string dnsLabel(std::string_view text) {
  std::string label;
  for (const char c : text) label += isAlphanumeric(c) ? lowerLetter(c) : '-';
  return trimmed(std::move(label));
}

bool isDnsName(std::string_view name) {
  if (name.size() > 253) return false;
  for (;;) {
    const std::size_t dot = name.find('.');
    if (!isDnsLabel(name.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

std::string slurmWord(std::string_view text) {
  std::string word;
  for (const char c : text) word += isAlphanumeric(c) || c == '.' || c == '-' ? lowerLetter(c) : '_';
  return word;
}

std::string shellWord(const std::string& text) {
  const auto plain = [](char c) { return isPlain(c) || c == '/' || c == ':' || c == '=' || c == ','; };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string xmlText(std::string_view text) {
  std::string xml;
  for (const char c : commentText(cleanUtf8(text))) {
    switch (c) {
      case '&':
        xml += "&amp;";
        break;
      case '<':
        xml += "&lt;";
        break;
      case '>':
        xml += "&gt;";
        break;
      case '"':
        xml += "&quot;";
        break;
      default:
        xml += c;
    }
    // U+FFFE and U+FFFF are UTF-8, and no characters of XML.
    if (xml.ends_with("\xef\xbf\xbe") || xml.ends_with("\xef\xbf\xbf")) xml.back() = '\xbd';
  }
  return xml;
}

std::string commentText(std::string_view text) { return withoutControls(text); }

}  // namespace railwise::topo
