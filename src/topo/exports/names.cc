#include "topo/exports/names.h"

#include <algorithm>

#include "base/text/printable.h"
#include "base/text/words.h"

namespace railwise::topo {
namespace {

bool isAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
}
bool isPlain(char c) { return isAlphanumeric(c) || c == '_' || c == '.' || c == '-'; }

// Cuts `text` to the length of a label of DNS, and removes what is neither a letter nor a digit from both
// ends.
std::string trimmed(std::string text) {
  text = text.substr(0, 63);
  while (!text.empty() && !isAlphanumeric(text.back())) text.pop_back();
  const auto first = std::find_if(text.begin(), text.end(), isAlphanumeric);
  return {first, text.end()};
}

}  // namespace

bool isDeviceName(std::string_view name) {
  return !name.empty() && name.front() != '-' && name.size() <= 63 &&
         std::all_of(name.begin(), name.end(), isPlain);
}

std::string dnsLabel(std::string_view text) {
  std::string label = lowerCase(text);
  for (char& c : label)
    if (!isAlphanumeric(c)) c = '-';
  return trimmed(std::move(label));
}

std::string slurmWord(std::string_view text) {
  std::string word = lowerCase(text);
  for (char& c : word)
    if (!isAlphanumeric(c) && c != '.' && c != '-') c = '_';
  return word;
}

std::string shellWord(const std::string& text) {
  const auto plain = [](char c) { return isPlain(c) || c == '/' || c == ':' || c == '=' || c == ','; };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string xmlText(std::string_view text) { return escapeXml(withoutControls(cleanUtf8(text))); }

}  // namespace railwise::topo
