#include "base/text/escape_xml.h"

#include "base/text/printable.h"

namespace railwise {

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
  }
  return escaped;
}

}  // namespace railwise
