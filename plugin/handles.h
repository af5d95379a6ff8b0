// Which handles NCCL holds: listeners and connections, each by its kind. accept and the close functions ask,
// so that a handle of another kind, or one that was closed before, is refused with a line. The calls of the
// progress thread do not ask: a connection knows its own direction. Thread-safe.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace railwise::plugin {

enum class HandleKind : uint8_t { kListener, kSend, kReceive };

// `context`: the communicator that the handle belongs to.
void addHandle(const void* handle, HandleKind kind, const void* context);
// An error is logged, with the name of the calling function.
Status checkHandle(const char* function, const void* handle, HandleKind kind);
// Checks the handle, and forgets it.
Status removeHandle(const char* function, const void* handle, HandleKind kind);
// Forgets all handles of the communicator.
void removeHandlesOf(const void* context);

}  // namespace railwise::plugin
