// The border between NCCL and Railwise: no exception crosses it, every Status becomes a result code, and a
// null argument is refused with its name. What the calls of the progress thread do not find out: a connection
// that was closed before (docs/develop/decisions.md).
#pragma once

#include <exception>

#include "base/log.h"
#include "base/status.h"
#include "nccl/err.h"

namespace railwise::plugin {

inline ncclResult_t toNccl(Status status) {
  if (status.ok()) [[likely]]
    return ncclSuccess;
  switch (status.code) {
    case Code::kOk:
      return ncclSuccess;
    case Code::kInvalidArgument:
      return ncclInvalidArgument;
    case Code::kInvalidUsage:
      return ncclInvalidUsage;
    case Code::kNoDevice:
      return ncclSystemError;  // at init, NCCL then tries its next network
    case Code::kSystem:
      return ncclSystemError;
    case Code::kRemote:
      return ncclRemoteError;  // NCCL reports "remote process exited or network error"
    case Code::kRefused:
      return ncclSystemError;
    case Code::kInternal:
      return ncclInternalError;
  }
  return ncclInternalError;
}

// Runs `body`, which returns a Status.
template <typename Body>
[[gnu::always_inline]] inline ncclResult_t guarded(const char* function, Body&& body) noexcept {
  try {
    return toNccl(body());
  } catch (const std::exception& error) {  // in practice std::bad_alloc
    RAILWISE_WARN("%s: %s", function, error.what());
  } catch (...) {
    RAILWISE_WARN("%s: unknown exception", function);
  }
  return ncclInternalError;
}

inline Status refuseNull(const char* function, const char* argument) {
  RAILWISE_WARN("%s: %s is null", function, argument);
  return {Code::kInvalidArgument, 0};
}

}  // namespace railwise::plugin

// For functions that return Status: refuses a null argument.
#define RAILWISE_REQUIRE(function, argument) \
  if ((argument) == nullptr) return ::railwise::plugin::refuseNull(function, #argument)
