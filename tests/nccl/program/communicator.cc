#include "communicator.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

DeviceMemory::DeviceMemory(std::size_t bytes) { MUST(cudaMalloc(&at_, std::max<std::size_t>(bytes, 1))); }
DeviceMemory::~DeviceMemory() { (void)cudaFree(at_); }

ncclUniqueId meet(const std::string& name) {
  const std::string path = options.id + "." + name;
  ncclUniqueId id;
  if (options.rank == 0) {
    MUST(ncclGetUniqueId(&id));
    const std::string part = path + ".part";  // the file appears as a whole
    std::FILE* const file = std::fopen(part.c_str(), "w");
    if (file == nullptr || std::fwrite(&id, sizeof id, 1, file) != 1 || std::fclose(file) != 0 ||
        std::rename(part.c_str(), path.c_str()) != 0) {
      stop(1, "cannot write " + path);
    }
    return id;
  }
  for (;;) {
    if (std::FILE* const file = std::fopen(path.c_str(), "r"); file != nullptr) {
      const bool whole = std::fread(&id, sizeof id, 1, file) == 1;
      (void)std::fclose(file);
      if (whole) return id;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Communicator::Communicator(const std::string& name, ncclConfig_t* config) {
  const ncclUniqueId id = meet(name);
  MUST(ncclCommInitRankConfig(&comm, options.ranks, id, options.rank, config));
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

Communicator::Communicator(ncclComm_t other) : comm(other) {
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(ncclCommCount(comm, &ranks));
  MUST(ncclCommUserRank(comm, &rank));
}

Communicator::~Communicator() {
  (void)cudaStreamDestroy(stream);
  if (comm != nullptr) MUST(ncclCommDestroy(comm));
}

void Communicator::waitFor(const std::function<bool()>& condition) const {
  for (unsigned looks = 0; !condition(); ++looks) {
    ncclResult_t error = ncclSuccess;
    MUST(ncclCommGetAsyncError(comm, &error));
    must(error, "asynchronous error", comm);
    // Ranks share few cores with their proxy threads and, on the software GPU, with their kernels.
    if (looks < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(std::min(looks - 90, 500U)));
    }
  }
}

void Communicator::wait() const {
  cudaError_t state = cudaErrorNotReady;
  waitFor([&] { return (state = cudaStreamQuery(stream)) != cudaErrorNotReady; });
  must(state, "a stream");
}
