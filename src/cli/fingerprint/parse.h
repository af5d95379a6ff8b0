// Reads what `railwise fingerprint --json` has written, perhaps on another node by another version of
// Railwise. Everything comes from outside. Pure, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
#include "cli/fingerprint/fingerprint.h"

namespace railwise::cli {

struct ParsedFingerprint {
  Fingerprint node;
  int line = 0;  // in the text, from 1
};

// `text` has one JSON object or several, one behind the other or in arrays. `name` is the file's name for the
// error, which says what is wrong, where, and what to do. A field that is missing is not known.
Outcome<std::vector<ParsedFingerprint>> parseFingerprints(std::string_view text, const std::string& name);

}  // namespace railwise::cli
