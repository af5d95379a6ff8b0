// Outcome<T>: how the topology library answers a call that can fail: a value, or an Error whose text says in
// one or a few sentences what is wrong, where (file, line, column, device) and what to do. Plain values;
// thread-safe. base/status.h serves the hot path and carries no text; here the text is the product.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace railwise::topo {

struct Error {
  std::string text;
};

template <typename T>
class [[nodiscard]] Outcome {
 public:
  Outcome(Error error) : error_(std::move(error)) {}  // NOLINT: implicit, so that `return Error{...};` works
  Outcome(T value) : value_(std::move(value)) {}      // NOLINT: implicit, so that `return value;` works

  bool ok() const { return value_.has_value(); }
  const std::string& error() const { return error_.text; }
  T& operator*() { return assert(ok()), *value_; }
  const T& operator*() const { return assert(ok()), *value_; }
  T* operator->() { return assert(ok()), &*value_; }
  const T* operator->() const { return assert(ok()), &*value_; }

 private:
  Error error_;
  std::optional<T> value_;
};

}  // namespace railwise::topo
