// Which handles NCCL holds: listeners, connections and what one-sided communication has, each by its kind.
// accept, the calls that set one-sided communication up and the close functions ask, so that a handle of
// another kind, or one that was closed before, is refused with a line. The calls of the progress threads do
// not ask: a connection knows its own direction. Thread-safe.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace railwise::plugin {

enum class HandleKind : uint8_t {
  kListener,
  kSend,
  kReceive,
  kRmaListener,
  kRmaGroup,
  kRmaContext,
  kRmaWindow,
  kGinGroup,  // of the GIN table, which has no contexts
};

// `context`: the communicator that the handle belongs to.
void addHandle(const void* handle, HandleKind kind, const void* context);
// An error is logged, with the name of the calling function.
Status checkHandle(const char* function, const void* handle, HandleKind kind);
// Checks the handle, and forgets it.
Status removeHandle(const char* function, const void* handle, HandleKind kind);

// Contexts and windows belong to a group. NCCL may close the group before them: it is then freed with the
// last of them, or by finalize.
//
// Makes `child` a handle of the group's communicator. The group is of this kind, and not closed.
Status addToGroup(const char* function, const void* child, HandleKind kind, const void* group,
                  HandleKind group_kind);
// Forgets the child. *closed_group receives the group if the caller has to free it now, else null. `group`
// null: whichever group the child belongs to.
Status removeFromGroup(const char* function, const void* child, HandleKind kind, const void* group,
                       void** closed_group);
// Closes the group. *free_now: nothing belongs to it any more, and it is forgotten; the caller frees it.
Status closeGroup(const char* function, const void* group, HandleKind kind, bool* free_now);
// The communicator of a handle of this kind.
Result<const void*> ownerOfHandle(const char* function, const void* handle, HandleKind kind);

// Forgets all handles of the communicator.
void removeHandlesOf(const void* context);

}  // namespace railwise::plugin
