// Status and Result<T>: the result of every fallible call of Railwise, on hot and cold paths. They are
// trivially copyable, allocate nothing and carry no text. The place that detects an error logs it once
// (base/log.h) with device, queue pair, peer and what to do; callers only pass the code up. Thread-safe
// (plain values).
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>

namespace railwise {

enum class Code : int32_t {
  kOk = 0,
  kInvalidArgument,  // a value that a correct caller never passes
  kInvalidUsage,     // a correct value at a wrong time, or a wrong setting
  kNoDevice,         // no RDMA device, or none that can be used
  kSystem,           // a call of the operating system or of verbs failed; sys_errno has the errno
  kRemote,           // the peer failed, left, or does not speak Railwise's protocol
  kRefused,          // RAILWISE_STRICT refuses what would work, but slower than the machine can
  kInternal,         // an invariant of Railwise's own code is broken
};

struct [[nodiscard]] Status {
  Code code = Code::kOk;
  int32_t sys_errno = 0;  // positive errno; 0: none

  constexpr bool ok() const { return code == Code::kOk; }
  static constexpr Status success() { return {}; }
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(Status status) : status_(status) {
    assert(!status.ok());
  }                                              // NOLINT: implicit, so that `return status;` works
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit, so that `return value;` works

  bool ok() const { return status_.ok(); }
  Status status() const { return status_; }
  T& operator*() { return assert(ok()), *value_; }
  const T& operator*() const { return assert(ok()), *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace railwise

// Returns from the calling function with the Status if it is a failure: `RAILWISE_TRY(call());`.
#define RAILWISE_TRY(expression)                                          \
  do {                                                                    \
    if (::railwise::Status try_status = (expression); !try_status.ok()) { \
      return try_status;                                                  \
    }                                                                     \
  } while (0)
