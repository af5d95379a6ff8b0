// Communicators and device memory of one rank.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <functional>
#include <string>

#include "rank.h"

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  char* at(std::size_t byte = 0) const { return static_cast<char*>(at_) + byte; }

 private:
  void* at_ = nullptr;
};

// A communicator with a stream of its own.
class Communicator {
 public:
  // Of all ranks. They meet by `name`, which is used once in a job.
  explicit Communicator(const std::string& name, ncclConfig_t* config = nullptr);
  // Takes over a communicator that NCCL has made from another.
  explicit Communicator(ncclComm_t other);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Waits until `condition`. An error of the network ends neither a kernel nor a stream, so NCCL's
  // asynchronous error is asked for meanwhile; it ends the process.
  void waitFor(const std::function<bool()>& condition) const;
  // Waits for the stream.
  void wait() const;

  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int ranks = options.ranks;
  int rank = options.rank;
};

// The unique id that rank 0 makes and all others read, through a file beside options.id.
ncclUniqueId meet(const std::string& name);
