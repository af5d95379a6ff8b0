// Outcome<T> is the result of a call whose failure is reported to a person. It holds a value, or an Error
// whose text says in one or a few sentences what is wrong, where (file, line, column, device) and what to do.
// Outcome<void> has no value. Plain values; thread-safe. The hot path uses base/status.h instead, which
// carries no text.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/status.h"

namespace railwise {

struct Error {
  std::string text;
  Code code = Code::kSystem;  // for a caller that reacts to the kind of error
};

template <typename T>
class [[nodiscard]] Outcome {
 public:
  Outcome(Error error) : error_(std::move(error)) {}  // NOLINT: implicit, so that `return Error{...};` works
  Outcome(T value) : value_(std::move(value)) {}      // NOLINT: implicit, so that `return value;` works

  bool ok() const { return value_.has_value(); }
  const std::string& error() const { return error_.text; }
  // The whole error, for passing it on to the caller's caller.
  const Error& failure() const { return error_; }
  T& operator*() { return assert(ok()), *value_; }
  const T& operator*() const { return assert(ok()), *value_; }
  T* operator->() { return assert(ok()), &*value_; }
  const T* operator->() const { return assert(ok()), &*value_; }

 private:
  Error error_;
  std::optional<T> value_;
};

template <>
class [[nodiscard]] Outcome<void> : public Outcome<std::monostate> {
 public:
  using Outcome<std::monostate>::Outcome;
  Outcome() : Outcome<std::monostate>(std::monostate{}) {}
};

}  // namespace railwise
