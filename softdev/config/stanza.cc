#include "softdev/config/stanza.h"

#include <algorithm>

#include "base/log.h"
#include "softdev/config/machines.h"

namespace railwise::softdev {
namespace {

std::string where(const Source& source) {
  if (source.file.empty()) return {};
  if (source.line == 0) return " (" + source.file + ")";
  return " (" + source.file + " line " + std::to_string(source.line) + ")";
}

}  // namespace

Status refuse(const Source& source, std::string_view key, std::string_view value,
              const std::string& accepted) {
  RAILWISE_WARN("software device: bad value \"%.*s\" for key \"%.*s\"%s: expected %s",
                static_cast<int>(value.size()), value.data(), static_cast<int>(key.size()), key.data(),
                where(source).c_str(), accepted.c_str());
  return {Code::kInvalidUsage, 0};
}

Status unknownKey(std::string_view key, const std::string& known, const Source& source) {
  RAILWISE_WARN("software device: unknown key \"%.*s\"%s: known keys are %s", static_cast<int>(key.size()),
                key.data(), where(source).c_str(), known.c_str());
  return {Code::kInvalidUsage, 0};
}

Status notAPair(const Source& source, std::string_view word) {
  const std::string text(word);
  const std::string meant =
      findMachine(text) != nullptr ? "; the machine of that name is software:@" + text : "";
  RAILWISE_WARN("software device: \"%s\"%s: expected key=value%s", text.c_str(), where(source).c_str(),
                meant.c_str());
  return {Code::kInvalidUsage, 0};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

std::string_view nextWord(std::string_view& text, std::string_view separators) {
  text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
  const std::string_view word = text.substr(0, std::min(text.find_first_of(separators), text.size()));
  text.remove_prefix(word.size());
  return word;
}

}  // namespace railwise::softdev
