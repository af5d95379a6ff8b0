// Splits a stanza into words and pairs, and reports mistakes in them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "softdev/config/keys.h"

namespace railwise::softdev {

// Where a piece of text came from, for messages.
struct Source {
  std::string file;  // "" for inline text
  int line = 0;      // 0: the file as a whole
};

// These log the WARN for a bad value, for an unknown key, and for what is no pair.
Status refuse(const Source& source, std::string_view key, std::string_view value,
              const std::string& accepted);
Status unknownKey(std::string_view key, const std::string& known, const Source& source);
// A word without "=", which may be the name of a machine without its "@".
Status notAPair(const Source& source, std::string_view word);

std::string_view trimmed(std::string_view text);
// Removes the next word from `text` and returns it; "" at the end.
std::string_view nextWord(std::string_view& text, std::string_view separators);

// Calls `take` with each key and value of a stanza.
template <typename Take>
Status eachPair(std::string_view text, std::string_view separators, const Source& source, Take&& take) {
  while (true) {
    const std::string_view pair = nextWord(text, separators);
    if (pair.empty()) return Status::success();
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return notAPair(source, pair);
    RAILWISE_TRY(take(pair.substr(0, equals), pair.substr(equals + 1)));
  }
}

// Applies the key with this name to `subject`. Returns nothing if the table has no such key.
template <typename Subject>
std::optional<Status> applyKey(std::span<const Key<Subject>> keys, Subject& subject, std::string_view name,
                               std::string_view value, const Source& source) {
  const Key<Subject>* key = findKey(keys, name);
  if (key == nullptr) return std::nullopt;
  return key->apply(subject, value) ? Status::success() : refuse(source, name, value, key->accepted);
}

}  // namespace railwise::softdev
