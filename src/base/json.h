// Writes one JSON document into a string: begin/end pairs must match, key() before every value of an object.
// Every element stands on a line of its own, but all that is inside a row (beginRow) stands on one.
// Numbers that JSON cannot hold (infinity, NaN) become null, bytes that are not UTF-8 the replacement
// character. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace railwise {

class JsonWriter {
 public:
  JsonWriter& beginObject() { return open('{'); }
  JsonWriter& endObject() { return close('}'); }
  JsonWriter& beginArray() { return open('['); }
  JsonWriter& endArray() { return close(']'); }
  // An array or object on one line, with all that is nested in it: [1, ["a", "b"]]. Ended by the same kind of
  // end.
  JsonWriter& beginRow() { return openInline('['); }
  JsonWriter& endRow() { return close(']'); }
  JsonWriter& beginInlineObject() { return openInline('{'); }
  JsonWriter& endInlineObject() { return close('}'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(float number);  // six digits: a float has no more
  JsonWriter& value(uint64_t number) { return raw(std::to_string(number)); }
  JsonWriter& value(int number) { return raw(std::to_string(number)); }
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }

  const std::string& text() const { return text_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& openInline(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& raw(std::string_view text);
  void separate();
  void newLine();

  std::string text_;
  int depth_ = 0;
  int inline_depth_ = 0;    // how many of the open brackets stand on one line
  bool first_ = true;       // nothing stands in the current object or array yet
  bool after_key_ = false;  // the next value belongs to a key
};

// `text` with U+FFFD for every byte that is not part of a UTF-8 character.
std::string cleanUtf8(std::string_view text);

}  // namespace railwise
