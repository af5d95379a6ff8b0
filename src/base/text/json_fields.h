// The fields of a struct as JSON, stated once for writing and for reading: a describe function calls the
// functions of its first argument, a FieldWriter or a FieldReader, with the name and the place of each field:
//
//   constexpr auto describeNic = [](auto& fields, auto& nic) {
//     fields.text("name", nic.name);
//     fields.index("numa", nic.numa);
//   };
//
// A field that is missing or null keeps its value, but those of within(), measure(), code() and bytes() must
// be there. One thread at a time. Whoever includes this compiles nlohmann's JSON.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text/json.h"

namespace railwise {

class FieldWriter {
 public:
  explicit FieldWriter(JsonWriter& json) : json_(json) {}

  // "" is null.
  void text(const char* name, const std::string& value) { json_.key(name).known(value); }
  // Below zero: unknown, null.
  void index(const char* name, int value) { json_.key(name).known(value); }
  // Zero: unknown, null.
  template <typename Number>
  void positive(const char* name, Number value) {
    json_.key(name);
    value > 0 ? json_.value(value) : json_.null();
  }
  template <typename Value>
  void optional(const char* name, const std::optional<Value>& value) {
    json_.key(name).known(value);
  }
  void truth(const char* name, bool value) { json_.key(name).value(value); }
  void number(const char* name, double value) { json_.key(name).value(value); }
  // A whole number from `least` to `most`.
  template <typename Integer>
  void within(const char* name, Integer value, Integer /*least*/, Integer /*most*/) {
    if constexpr (std::is_signed_v<Integer>) json_.key(name).value(static_cast<int64_t>(value));
    else json_.key(name).value(static_cast<uint64_t>(value));
  }
  // A finite number from 0 to `most`.
  void measure(const char* name, double value, double /*most*/) { json_.key(name).value(value); }
  // A value of an enum up to `last`, as its word or as its number.
  template <typename Enum>
  void choice(const char* name, Enum value, Enum /*last*/, const char* (*word)(Enum)) {
    json_.key(name).value(word(value));
  }
  template <typename Enum>
  void code(const char* name, Enum value, Enum /*last*/) {
    json_.key(name).value(static_cast<int>(value));
  }
  void bytes(const char* name, std::span<const uint8_t> value) {
    json_.key(name).row(value, [](uint8_t byte) { return static_cast<int>(byte); });
  }
  template <typename Value, typename Describe>
  void object(const char* name, const Value& value, Describe describe) {
    json_.key(name).beginInlineObject();
    describe(*this, value);
    json_.endInlineObject();
  }
  void map(const char* name, const std::map<std::string, std::string>& values) {
    json_.key(name).beginInlineObject();
    for (const auto& [key, value] : values) text(key.c_str(), value);
    json_.endInlineObject();
  }
  // The first `most` elements, each on one line.
  template <typename Element, typename Describe>
  void list(const char* name, const std::vector<Element>& values, std::size_t most, Describe describe) {
    json_.key(name).beginArray();
    for (std::size_t i = 0; i < std::min(values.size(), most); ++i) {
      json_.beginInlineObject();
      describe(*this, values[i]);
      json_.endInlineObject();
    }
    json_.endArray();
  }
  void texts(const char* name, const std::vector<std::string>& values, std::size_t most) {
    json_.key(name).beginArray();
    for (std::size_t i = 0; i < std::min(values.size(), most); ++i) json_.value(values[i]);
    json_.endArray();
  }
  void numbers(const char* name, const std::vector<int64_t>& values, std::size_t /*most*/) {
    json_.key(name).row(values);
  }

 private:
  JsonWriter& json_;
};

class FieldReader {
 public:
  // Makes a text from outside fit for what it is used for.
  using Clean = std::string (*)(const std::string&);

  // `place`: of the object, for messages ("gpus[3]"); "": the whole document. `error` gets the first mistake,
  // and no field is read behind it.
  FieldReader(const nlohmann::json& object, std::string place, std::string& error, Clean clean = nullptr)
      : object_(object), place_(std::move(place)), error_(error), clean_(clean) {
    if (!object_.is_object()) fail("", "is not an object");
  }

  void text(const char* name, std::string& value) {
    if (const auto* found = find(name))
      found->is_string() ? void(value = cleaned(*found)) : fail(name, "is not a text");
  }
  void index(const char* name, int& value) { integer(name, value); }
  template <typename Integer>
  void positive(const char* name, Integer& value) {
    integer(name, value);
  }
  void positive(const char* name, double& value) { number(name, value); }
  template <typename Value>
  void optional(const char* name, std::optional<Value>& value) {
    if (find(name) == nullptr) return;
    Value read = {};
    if constexpr (std::is_same_v<Value, bool>) truth(name, read);
    else integer(name, read);
    value = read;
  }
  void truth(const char* name, bool& value) {
    if (const auto* found = find(name))
      found->is_boolean() ? void(value = found->get<bool>()) : fail(name, "is neither true nor false");
  }
  void number(const char* name, double& value) {
    if (const auto* found = find(name))
      found->is_number() ? void(value = found->get<double>()) : fail(name, "is not a number");
  }
  template <typename Integer>
  void within(const char* name, Integer& value, Integer least, Integer most) {
    if (!required(name)) return;
    Integer read = {};
    integer(name, read);
    if (read < least || read > most)
      fail(name, "is no number from " + std::to_string(least) + " to " + std::to_string(most));
    else value = read;
  }
  void measure(const char* name, double& value, double most) {
    if (!required(name)) return;
    number(name, value);
    if (!std::isfinite(value) || value < 0 || value > most) fail(name, "is out of its range");
  }
  template <typename Enum>
  void choice(const char* name, Enum& value, Enum last, const char* (*word)(Enum)) {
    const auto* found = find(name);
    if (found == nullptr) return;
    const std::string* text = found->template get_ptr<const std::string*>();
    for (int i = 0; text != nullptr && i <= static_cast<int>(last); ++i) {
      if (*text == word(static_cast<Enum>(i))) return void(value = static_cast<Enum>(i));
    }
    fail(name, "is none of the words for it");
  }
  template <typename Enum>
  void code(const char* name, Enum& value, Enum last) {
    int number = 0;
    within(name, number, 0, static_cast<int>(last));
    value = static_cast<Enum>(number);
  }
  void bytes(const char* name, std::span<uint8_t> value) {
    const auto* found = required(name) ? find(name) : nullptr;
    if (found == nullptr) return;
    const auto is_byte = [](const nlohmann::json& each) {
      return each.is_number_unsigned() && each.get<uint64_t>() <= UINT8_MAX;
    };
    if (!found->is_array() || found->size() != value.size() ||
        !std::all_of(found->begin(), found->end(), is_byte))
      return fail(name, "is no list of " + std::to_string(value.size()) + " bytes");
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = (*found)[i].template get<uint8_t>();
  }
  template <typename Value, typename Describe>
  void object(const char* name, Value& value, Describe describe) {
    const auto* found = find(name);
    if (found == nullptr) return;
    FieldReader inner(*found, placeOf(name), error_, clean_);
    if (error_.empty()) describe(inner, value);
  }
  void map(const char* name, std::map<std::string, std::string>& values) {
    const auto* found = find(name);
    if (found == nullptr) return;
    FieldReader inner(*found, placeOf(name), error_, clean_);
    for (const auto& each : found->items()) inner.text(each.key().c_str(), values[cleaned(each.key())]);
  }
  template <typename Element, typename Describe>
  void list(const char* name, std::vector<Element>& values, std::size_t most, Describe describe) {
    const auto* found = findList(name, most);
    for (std::size_t i = 0; found != nullptr && i < found->size() && error_.empty(); ++i) {
      FieldReader inner((*found)[i], placeOf(name) + "[" + std::to_string(i) + "]", error_, clean_);
      if (error_.empty()) describe(inner, values.emplace_back());
    }
  }
  void texts(const char* name, std::vector<std::string>& values, std::size_t most) {
    const auto* found = findList(name, most);
    for (std::size_t i = 0; found != nullptr && i < found->size() && error_.empty(); ++i) {
      if ((*found)[i].is_string()) values.push_back(cleaned((*found)[i]));
      else fail(name, "has something that is not a text");
    }
  }
  void numbers(const char* name, std::vector<int64_t>& values, std::size_t most) {
    const auto* found = findList(name, most);
    for (std::size_t i = 0; found != nullptr && i < found->size() && error_.empty(); ++i) {
      if ((*found)[i].is_number_integer()) values.push_back((*found)[i].get<int64_t>());
      else fail(name, "has something that is no whole number");
    }
  }

 private:
  std::string placeOf(const std::string& name) const {
    return place_ + (place_.empty() || name.empty() ? "" : ".") + name;
  }
  std::string cleaned(const std::string& text) const { return clean_ == nullptr ? text : clean_(text); }
  std::string cleaned(const nlohmann::json& text) const {
    return cleaned(text.template get_ref<const std::string&>());
  }
  const nlohmann::json* find(const char* name) const {
    if (!error_.empty()) return nullptr;
    const auto at = object_.find(name);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  bool required(const char* name) {
    if (find(name) == nullptr) fail(name, "is missing");
    return error_.empty();
  }
  const nlohmann::json* findList(const char* name, std::size_t most) {
    const auto* found = find(name);
    if (found == nullptr) return nullptr;
    if (!found->is_array()) fail(name, "is not a list");
    else if (found->size() > most) fail(name, "has more than " + std::to_string(most) + " elements");
    return error_.empty() ? found : nullptr;
  }
  template <typename Integer>
  void integer(const char* name, Integer& value) {
    const auto* found = find(name);
    if (found == nullptr) return;
    const bool fits =
        found->is_number_unsigned()
            ? std::in_range<Integer>(found->template get<uint64_t>())
            : found->is_number_integer() && std::in_range<Integer>(found->template get<int64_t>());
    fits ? void(value = found->template get<Integer>()) : fail(name, "is no whole number of its size");
  }
  void fail(const std::string& name, const std::string& what) {
    if (error_.empty()) error_ = placeOf(name) + " " + what;
  }

  const nlohmann::json& object_;
  const std::string place_;
  std::string& error_;
  const Clean clean_;
};

}  // namespace railwise
