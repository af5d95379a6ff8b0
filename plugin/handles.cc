#include "plugin/handles.h"

#include <mutex>
#include <unordered_map>

#include "base/log.h"

namespace railwise::plugin {
namespace {

struct HandleOwner {
  HandleKind kind;
  const void* context;
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

constexpr const char* kHandleNames[] = {"a listener", "a sending connection", "a receiving connection"};

// The caller holds g_handle_mutex.
Status checkLocked(const char* function, const void* handle, HandleKind kind) {
  const char* wanted = kHandleNames[static_cast<int>(kind)];
  const auto found = g_handles != nullptr ? g_handles->find(handle) : HandleTable::iterator{};
  if (g_handles == nullptr || found == g_handles->end()) {
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

void removeHandlesOf(const void* context) {
  const std::lock_guard lock(g_handle_mutex);
  if (g_handles == nullptr) return;
  std::erase_if(*g_handles, [context](const auto& entry) { return entry.second.context == context; });
  dropIfEmpty();
}

}  // namespace railwise::plugin
