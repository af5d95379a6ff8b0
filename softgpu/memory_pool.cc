// Memory pools. What a program sets is kept; allocations come from the device's memory all the same.
#include <map>
#include <memory>

#include "device.h"
#include "errors.h"
#include "handles.h"

namespace softgpu {
namespace {

struct MemoryPool {
  std::mutex mutex;
  std::map<cudaMemPoolAttr, uint64_t> attributes;
};

HandleTable<cudaMemPool_t, MemoryPool>& pools() {
  static auto& table = *new HandleTable<cudaMemPool_t, MemoryPool>;
  return table;
}

// The attributes that are an int in CUDA's interface; the others have 64 bits.
bool isInt(cudaMemPoolAttr attribute) {
  return attribute == cudaMemPoolReuseFollowEventDependencies ||
         attribute == cudaMemPoolReuseAllowOpportunistic ||
         attribute == cudaMemPoolReuseAllowInternalDependencies;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (pool == nullptr || properties == nullptr) return answer(cudaErrorInvalidValue);
  if (properties->handleTypes != cudaMemHandleTypeNone)
    return answer(notSupported("cudaMemPoolCreate with handles to share"));
  *pool = pools().add(std::make_shared<MemoryPool>());
  return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return answer(pools().remove(pool) != nullptr ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  const auto pool = pools().find(handle);
  if (pool == nullptr || value == nullptr) return answer(cudaErrorInvalidValue);
  const std::lock_guard lock(pool->mutex);
  pool->attributes[attribute] =
      isInt(attribute) ? static_cast<uint64_t>(*static_cast<int*>(value)) : *static_cast<uint64_t*>(value);
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  const auto pool = pools().find(handle);
  if (pool == nullptr || value == nullptr) return answer(cudaErrorInvalidValue);
  const std::lock_guard lock(pool->mutex);
  if (isInt(attribute)) {
    *static_cast<int*>(value) = static_cast<int>(pool->attributes[attribute]);
  } else {
    *static_cast<uint64_t*>(value) = pool->attributes[attribute];
  }
  return cudaSuccess;
}
