// The devices of this process, and which one a thread uses.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "api.h"
#include "description.h"
#include "stream.h"

namespace softgpu {

struct Device {
  int number = 0;  // CUDA's
  GpuDescription gpu;
  std::shared_ptr<Stream> legacy;  // stream 0
  std::atomic<size_t> used_bytes = 0;

  std::mutex mutex;                            // guards what follows
  std::vector<std::weak_ptr<Stream>> streams;  // all but stream 0
  std::set<int> peers;                         // devices that cudaDeviceEnablePeerAccess named

  // Counts memory that the device gives away. False: it has no more.
  bool takeMemory(size_t bytes);
  void addStream(const std::shared_ptr<Stream>& stream);
  std::vector<std::shared_ptr<Stream>> liveStreams();
  // Returns when all work is done that was submitted before.
  void synchronize();
};

const std::vector<std::unique_ptr<Device>>& devices();
// Null: no such device.
Device* findDevice(int number);
// The calling thread's device. Null: there is none, and `error` says why.
Device* currentDevice(cudaError_t* error);
void setCurrentDevice(int number);
int currentDeviceNumber();

}  // namespace softgpu
