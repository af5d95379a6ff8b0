// Text in XML and HTML. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace railwise {

// Escapes `text` for XML text and for attribute values in double quotes. Characters that XML cannot hold
// become U+FFFD.
std::string escapeXml(std::string_view text);

}  // namespace railwise
