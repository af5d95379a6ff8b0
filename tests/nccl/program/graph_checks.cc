// Checks of CUDA graphs and of registered user buffers.
#include <vector>

#include "checks.h"
#include "collective.h"
#include "graph.h"

namespace {

constexpr uint32_t kReplays = 10;

void fill(void* to, std::size_t count, int rank, uint32_t salt) {
  std::vector<int32_t> host(count);
  for (std::size_t i = 0; i < count; ++i)
    host[i] = static_cast<int32_t>(inputOf(kElements[0], ncclSum, rank, i, salt));
  MUST(cudaMemcpy(to, host.data(), count * sizeof(int32_t), cudaMemcpyHostToDevice));
  MUST(cudaStreamSynchronize(nullptr));
}

// How many elements are not the sum over all ranks.
std::size_t wrongSums(const void* from, std::size_t count, int ranks, uint32_t salt) {
  std::vector<int32_t> host(count);
  MUST(cudaMemcpy(host.data(), from, count * sizeof(int32_t), cudaMemcpyDeviceToHost));
  std::size_t bad = 0;
  for (std::size_t i = 0; i < count; ++i)
    bad += host[i] == static_cast<int32_t>(reducedOf(kElements[0], ncclSum, ranks, i, salt)) ? 0 : 1;
  return bad;
}

void spoil(void* memory, std::size_t bytes) {
  MUST(cudaMemset(memory, 0xff, bytes));
  MUST(cudaStreamSynchronize(nullptr));
}

}  // namespace

void checkGraph(const Communicator& main) {
  beginCheck("graph replay");
  constexpr std::size_t kCount = 100000;
  const DeviceMemory from(kCount * sizeof(int32_t));
  const DeviceMemory to(kCount * sizeof(int32_t));
  std::size_t bad = 0;
  {
    const Graph graph(main.stream, [&] {
      MUST(ncclAllReduce(from.at(), to.at(), kCount, ncclInt32, ncclSum, main.comm, main.stream));
    });
    for (uint32_t replay = 0; replay < kReplays; ++replay) {
      fill(from.at(), kCount, main.rank, replay);
      spoil(to.at(), kCount * sizeof(int32_t));
      graph.launch(main.stream);
      main.wait();
      bad += wrongSums(to.at(), kCount, main.ranks, replay);
    }
  }
  endCheck("graph replay", bad);
}

void checkGraphsOfSendAndReceive(const Communicator& main) {
  beginCheck("graph replay of send and receive");
  constexpr std::size_t kCount = 20000;
  const DeviceMemory from(kCount * sizeof(int32_t));
  const DeviceMemory to(kCount * sizeof(int32_t));
  const int next = (main.rank + 1) % main.ranks;
  const int previous = (main.rank + main.ranks - 1) % main.ranks;
  std::size_t bad = 0;
  {
    const Graph graph(main.stream, [&] {
      MUST(ncclGroupStart());
      MUST(ncclSend(from.at(), kCount, ncclInt32, next, main.comm, main.stream));
      MUST(ncclRecv(to.at(), kCount, ncclInt32, previous, main.comm, main.stream));
      MUST(ncclGroupEnd());
    });
    for (uint32_t replay = 0; replay < kReplays; ++replay) {
      fill(from.at(), kCount, main.rank, replay);
      spoil(to.at(), kCount * sizeof(int32_t));
      graph.launch(main.stream);
      main.wait();
      std::vector<int32_t> host(kCount);
      MUST(cudaMemcpy(host.data(), to.at(), kCount * sizeof(int32_t), cudaMemcpyDeviceToHost));
      for (std::size_t i = 0; i < kCount; ++i)
        bad += host[i] == static_cast<int32_t>(inputOf(kElements[0], ncclSum, previous, i, replay)) ? 0 : 1;
    }
  }
  endCheck("graph replay of send and receive", bad);
}

// Buffers that the program registers: the NIC may read and write them itself.
void checkRegisteredBuffers(const Communicator& main) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
  beginCheck("registered buffers");
  constexpr std::size_t kCount = std::size_t{1} << 18;
  const std::size_t all = kCount * static_cast<std::size_t>(main.ranks);
  void* from = nullptr;
  void* to = nullptr;
  MUST(ncclMemAlloc(&from, all * sizeof(int32_t)));
  MUST(ncclMemAlloc(&to, all * sizeof(int32_t)));
  void* handles[2] = {};
  MUST(ncclCommRegister(main.comm, from, all * sizeof(int32_t), &handles[0]));
  MUST(ncclCommRegister(main.comm, to, all * sizeof(int32_t), &handles[1]));
  std::size_t bad = 0;
  for (uint32_t round = 0; round < 3; ++round) {
    fill(from, kCount, main.rank, round);
    spoil(to, all * sizeof(int32_t));
    MUST(ncclAllReduce(from, to, kCount, ncclInt32, ncclSum, main.comm, main.stream));
    main.wait();
    bad += wrongSums(to, kCount, main.ranks, round);

    spoil(to, all * sizeof(int32_t));
    MUST(ncclAllGather(from, to, kCount, ncclInt32, main.comm, main.stream));
    main.wait();
    std::vector<int32_t> host(all);
    MUST(cudaMemcpy(host.data(), to, all * sizeof(int32_t), cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < all; ++i) {
      bad += host[i] == static_cast<int32_t>(
                            inputOf(kElements[0], ncclSum, static_cast<int>(i / kCount), i % kCount, round))
                 ? 0
                 : 1;
    }

    spoil(to, all * sizeof(int32_t));
    const int previous = (main.rank + main.ranks - 1) % main.ranks;
    MUST(ncclGroupStart());
    MUST(ncclSend(from, kCount, ncclInt32, (main.rank + 1) % main.ranks, main.comm, main.stream));
    MUST(ncclRecv(to, kCount, ncclInt32, previous, main.comm, main.stream));
    MUST(ncclGroupEnd());
    main.wait();
    MUST(cudaMemcpy(host.data(), to, kCount * sizeof(int32_t), cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < kCount; ++i)
      bad += host[i] == static_cast<int32_t>(inputOf(kElements[0], ncclSum, previous, i, round)) ? 0 : 1;
  }
  for (void* const handle : handles) MUST(ncclCommDeregister(main.comm, handle));
  MUST(ncclMemFree(from));
  MUST(ncclMemFree(to));
  endCheck("registered buffers", bad);
#else
  (void)main;
#endif
}
