// Writes one JSON document into a string: begin/end pairs must match, key() before every value of an object.
// Numbers that JSON cannot hold (infinity, NaN) become null. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace railwise::tools {

class JsonWriter {
 public:
  JsonWriter& beginObject() { return open('{'); }
  JsonWriter& endObject() { return close('}'); }
  JsonWriter& beginArray() { return open('['); }
  JsonWriter& endArray() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(uint64_t number) { return raw(std::to_string(number)); }
  JsonWriter& value(int number) { return raw(std::to_string(number)); }
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }

  const std::string& text() const { return text_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& raw(std::string_view text);
  void separate();
  void newLine();

  std::string text_;
  int depth_ = 0;
  bool first_ = true;       // nothing stands in the current object or array yet
  bool after_key_ = false;  // the next value belongs to a key
};

}  // namespace railwise::tools
