// Text from outside, made fit for terminals and files. A terminal obeys control characters, and a file of
// text is UTF-8. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace railwise {

// Each control character (C0 and DEL, and C1 in UTF-8) becomes '?', but those in `kept`. The text does not
// get longer.
std::string withoutControls(std::string_view text, std::string_view kept = {});

// Copies `text` and replaces every byte that is not part of a UTF-8 character by U+FFFD.
std::string cleanUtf8(std::string_view text);

// Every byte that is not printable ASCII becomes '?'.
std::string printableAscii(std::string_view text);

// Text for Prometheus: a backslash and a new line are escaped, and a double quote in the value of a label
// (`quotes`), but not in a help text.
std::string escapePrometheus(std::string_view text, bool quotes);

// Text in XML and HTML. Pure; thread-safe.

// Escapes `text` for XML text and for attribute values in double quotes. Characters that XML cannot hold
// become U+FFFD.
std::string escapeXml(std::string_view text);

}  // namespace railwise
