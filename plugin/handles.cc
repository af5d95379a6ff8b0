#include "plugin/handles.h"

#include <mutex>
#include <unordered_map>

#include "base/log.h"

namespace railwise::plugin {
namespace {

struct HandleOwner {
  HandleKind kind;
  const void* context;
  const void* group = nullptr;  // that the handle belongs to, if there is one
  uint32_t members = 0;         // of a group
  bool closed = false;          // a group that NCCL has closed, and that has members
};
using HandleTable = std::unordered_map<const void*, HandleOwner>;

std::mutex g_handle_mutex;
// Null while there are no handles: nothing is left when NCCL unloads the plugin, and nothing is destroyed
// under a thread that still calls while the process ends.
HandleTable* g_handles = nullptr;

void dropIfEmpty() {
  if (!g_handles->empty()) return;
  delete g_handles;
  g_handles = nullptr;
}

constexpr const char* kHandleNames[] = {"a listener",
                                        "a sending connection",
                                        "a receiving connection",
                                        "a listener of one-sided communication",
                                        "a group of one-sided communication",
                                        "a context of one-sided communication",
                                        "a window",
                                        "a group of GIN"};

// The caller holds g_handle_mutex.
Status checkLocked(const char* function, const void* handle, HandleKind kind) {
  const char* wanted = kHandleNames[static_cast<int>(kind)];
  const auto found = g_handles != nullptr ? g_handles->find(handle) : HandleTable::iterator{};
  if (g_handles == nullptr || found == g_handles->end() || found->second.closed) {
    RAILWISE_WARN("%s: the handle is not %s, or it was closed before", function, wanted);
    return {Code::kInvalidArgument, 0};
  }
  if (found->second.kind == kind) return Status::success();
  RAILWISE_WARN("%s: the handle is %s, and %s is needed", function,
                kHandleNames[static_cast<int>(found->second.kind)], wanted);
  return {Code::kInvalidArgument, 0};
}

}  // namespace

void addHandle(const void* handle, HandleKind kind, const void* context) {
  const std::lock_guard lock(g_handle_mutex);
  if (g_handles == nullptr) g_handles = new HandleTable;
  (*g_handles)[handle] = {kind, context};
}

Status checkHandle(const char* function, const void* handle, HandleKind kind) {
  const std::lock_guard lock(g_handle_mutex);
  return checkLocked(function, handle, kind);
}

Status removeHandle(const char* function, const void* handle, HandleKind kind) {
  const std::lock_guard lock(g_handle_mutex);
  RAILWISE_TRY(checkLocked(function, handle, kind));
  g_handles->erase(handle);
  dropIfEmpty();
  return Status::success();
}

Status addToGroup(const char* function, const void* child, HandleKind kind, const void* group,
                  HandleKind group_kind) {
  const std::lock_guard lock(g_handle_mutex);
  RAILWISE_TRY(checkLocked(function, group, group_kind));
  const void* const context = g_handles->at(group).context;
  (*g_handles)[child] = {kind, context, group};
  ++g_handles->at(group).members;
  return Status::success();
}

Status removeFromGroup(const char* function, const void* child, HandleKind kind, const void* group,
                       void** closed_group) {
  *closed_group = nullptr;
  const std::lock_guard lock(g_handle_mutex);
  RAILWISE_TRY(checkLocked(function, child, kind));
  const void* const owner = g_handles->at(child).group;
  if (group != nullptr && group != owner) {
    RAILWISE_WARN("%s: the handle is %s of another group", function, kHandleNames[static_cast<int>(kind)]);
    return {Code::kInvalidArgument, 0};
  }
  g_handles->erase(child);
  HandleOwner& its = g_handles->at(owner);
  if (--its.members == 0 && its.closed) {
    g_handles->erase(owner);
    *closed_group = const_cast<void*>(owner);
  }
  dropIfEmpty();
  return Status::success();
}

Status closeGroup(const char* function, const void* group, HandleKind kind, bool* free_now) {
  const std::lock_guard lock(g_handle_mutex);
  RAILWISE_TRY(checkLocked(function, group, kind));
  HandleOwner& its = g_handles->at(group);
  *free_now = its.members == 0;
  its.closed = true;
  if (*free_now) g_handles->erase(group);
  dropIfEmpty();
  return Status::success();
}

Result<const void*> ownerOfHandle(const char* function, const void* handle, HandleKind kind) {
  const std::lock_guard lock(g_handle_mutex);
  RAILWISE_TRY(checkLocked(function, handle, kind));
  return g_handles->at(handle).context;
}

void removeHandlesOf(const void* context) {
  const std::lock_guard lock(g_handle_mutex);
  if (g_handles == nullptr) return;
  std::erase_if(*g_handles, [context](const auto& entry) { return entry.second.context == context; });
  dropIfEmpty();
}

}  // namespace railwise::plugin
