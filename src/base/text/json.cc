#include "base/text/json.h"

#include <cmath>
#include <cstdio>

namespace railwise {
void JsonWriter::newLine() { text_ += "\n" + std::string(static_cast<std::size_t>(depth_) * 2, ' '); }

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) text_ += inline_depth_ > 0 ? ", " : ",";
  if (depth_ > 0 && inline_depth_ == 0) newLine();
  first_ = false;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  ++depth_;
  if (inline_depth_ > 0) ++inline_depth_;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::openInline(char bracket) {
  open(bracket);
  if (inline_depth_ == 0) inline_depth_ = 1;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  --depth_;
  const bool was_inline = inline_depth_ > 0;
  if (was_inline) --inline_depth_;
  if (!first_ && !was_inline) newLine();
  text_ += bracket;
  first_ = false;
  if (depth_ == 0) text_ += '\n';
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  text_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  text_ += '"';
  for (const char c : cleanUtf8(text)) {
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      text_ += escaped;
    } else {
      text_ += c;
    }
  }
  text_ += '"';
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", number);
  return raw(text);
}

JsonWriter& JsonWriter::value(float number) {
  if (!std::isfinite(number)) return null();
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", static_cast<double>(number));
  return raw(text);
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  separate();
  text_ += text;
  return *this;
}

}  // namespace railwise
