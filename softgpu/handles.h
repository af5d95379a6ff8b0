// Which handles of a kind are alive, so that a call with a destroyed handle answers an error. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace softgpu {

template <typename Handle, typename T>
class HandleTable {
 public:
  Handle add(std::shared_ptr<T> object) {
    const auto handle = reinterpret_cast<Handle>(object.get());
    const std::lock_guard lock(mutex_);
    live_[handle] = std::move(object);
    return handle;
  }
  // Null: no such handle.
  std::shared_ptr<T> find(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(handle);
    return found != live_.end() ? found->second : nullptr;
  }
  std::shared_ptr<T> remove(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(handle);
    if (found == live_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    live_.erase(found);
    return object;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Handle, std::shared_ptr<T>> live_;
};

}  // namespace softgpu
