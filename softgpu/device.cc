#include "device.h"

#include <pthread.h>

#include <cstdlib>

namespace softgpu {
namespace {

thread_local int current = 0;
std::atomic<bool> forked = false;

std::vector<std::unique_ptr<Device>> makeDevices() {
  // A forked child has the parent's devices but none of its threads. CUDA refuses calls there, and so do we.
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
  const std::vector<GpuDescription>& all = describedGpus();
  std::vector<std::unique_ptr<Device>> made;
  for (const size_t index : visibleGpus(std::getenv("CUDA_VISIBLE_DEVICES"), all.size())) {
    auto device = std::make_unique<Device>();
    device->number = static_cast<int>(made.size());
    device->gpu = all[index];
    device->legacy = std::make_shared<Stream>(*device, StreamKind::kLegacy, 0);
    made.push_back(std::move(device));
  }
  return made;
}

}  // namespace

const std::vector<std::unique_ptr<Device>>& devices() {
  static const auto& all = *new std::vector<std::unique_ptr<Device>>(makeDevices());
  return all;
}

Device* findDevice(int number) {
  const auto& all = devices();
  return number >= 0 && static_cast<size_t>(number) < all.size() ? all[static_cast<size_t>(number)].get()
                                                                 : nullptr;
}

Device* currentDevice(cudaError_t* error) {
  Device* const device = findDevice(current);
  *error = cudaSuccess;
  if (device == nullptr) *error = cudaErrorNoDevice;
  if (forked.load(std::memory_order_relaxed)) {
    *error = cudaErrorInitializationError;
    return nullptr;
  }
  return device;
}

void setCurrentDevice(int number) { current = number; }
int currentDeviceNumber() { return current; }

bool Device::takeMemory(size_t bytes) {
  if (used_bytes.fetch_add(bytes) + bytes <= gpu.memory_bytes) return true;
  used_bytes -= bytes;
  return false;
}

void Device::addStream(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(mutex);
  std::erase_if(streams, [](const std::weak_ptr<Stream>& other) { return other.expired(); });
  streams.push_back(stream);
}

std::vector<std::shared_ptr<Stream>> Device::liveStreams() {
  const std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<Stream>> live;
  for (const auto& weak : streams) {
    if (auto stream = weak.lock(); stream != nullptr) live.push_back(std::move(stream));
  }
  return live;
}

void Device::synchronize() {
  std::vector<std::shared_ptr<Stream>> all = liveStreams();
  all.push_back(legacy);
  for (const auto& stream : all) stream->wait(stream->submitted());
}

}  // namespace softgpu
