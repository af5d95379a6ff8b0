// Writes one JSON document into a string. Each begin call needs its matching end call, and key() comes before
// every value of an object. Every element gets its own line, except that a row (beginRow) with all its
// contents is one line. A number that JSON cannot hold (infinity, NaN) becomes null. A byte that is not UTF-8
// becomes the replacement character. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/printable.h"

namespace railwise {

class JsonWriter {
 public:
  JsonWriter& beginObject() { return open('{'); }
  JsonWriter& endObject() { return close('}'); }
  JsonWriter& beginArray() { return open('['); }
  JsonWriter& endArray() { return close(']'); }
  // An array or object on one line, with everything nested in it: [1, ["a", "b"]]. endRow() closes
  // beginRow(), and endInlineObject() closes beginInlineObject().
  JsonWriter& beginRow() { return openInline('['); }
  JsonWriter& endRow() { return close(']'); }
  JsonWriter& beginInlineObject() { return openInline('{'); }
  JsonWriter& endInlineObject() { return close('}'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(float number);  // writes six digits, as many as a float holds
  JsonWriter& value(uint64_t number) { return raw(std::to_string(number)); }
  JsonWriter& value(int64_t number) { return raw(std::to_string(number)); }
  JsonWriter& value(int number) { return raw(std::to_string(number)); }
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }

  // What is not known is null: an empty text, a number below zero, an empty optional.
  JsonWriter& known(const std::string& text) { return text.empty() ? null() : value(text); }
  JsonWriter& known(int number) { return number < 0 ? null() : value(number); }
  template <typename Value>
  JsonWriter& known(const std::optional<Value>& held) {
    return held ? value(*held) : null();
  }

  // The items, or what `value_of` makes of each, as a row or as an array.
  template <typename Items, typename ValueOf = std::identity>
  JsonWriter& row(const Items& items, const ValueOf& value_of = {}) {
    beginRow();
    for (const auto& item : items) value(std::invoke(value_of, item));
    return endRow();
  }
  template <typename Items, typename ValueOf = std::identity>
  JsonWriter& array(const Items& items, const ValueOf& value_of = {}) {
    beginArray();
    for (const auto& item : items) value(std::invoke(value_of, item));
    return endArray();
  }
  // An array of what `write_item` writes of each item.
  template <typename Items, typename WriteItem>
  JsonWriter& arrayOf(const Items& items, const WriteItem& write_item) {
    beginArray();
    for (const auto& item : items) write_item(item);
    return endArray();
  }

  // An array of objects, or of objects or rows on one line each: `write` writes the contents of an item's.
  template <typename Items, typename Write>
  JsonWriter& objects(const Items& items, const Write& write) {
    return each(items, write, &JsonWriter::beginObject, &JsonWriter::endObject);
  }
  template <typename Items, typename Write>
  JsonWriter& inlineObjects(const Items& items, const Write& write) {
    return each(items, write, &JsonWriter::beginInlineObject, &JsonWriter::endInlineObject);
  }
  template <typename Items, typename Write>
  JsonWriter& rows(const Items& items, const Write& write) {
    return each(items, write, &JsonWriter::beginRow, &JsonWriter::endRow);
  }

  const std::string& text() const { return text_; }

 private:
  using Bracket = JsonWriter& (JsonWriter::*)();
  template <typename Items, typename Write>
  JsonWriter& each(const Items& items, const Write& write, Bracket begin, Bracket end) {
    beginArray();
    for (const auto& item : items) {
      (this->*begin)();
      write(item);
      (this->*end)();
    }
    return endArray();
  }

  JsonWriter& open(char bracket);
  JsonWriter& openInline(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& raw(std::string_view text);
  void separate();
  void newLine();

  std::string text_;
  int depth_ = 0;
  int inline_depth_ = 0;    // number of open brackets that belong to the current one-line row
  bool first_ = true;       // the current object or array is still empty
  bool after_key_ = false;  // a key was written, and its value comes next
};

}  // namespace railwise
