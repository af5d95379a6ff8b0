// Checks of communicators: a rank has several, splits and shrinks them, ends them and makes new ones.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "checks.h"
#include "collective.h"

namespace {

constexpr auto kAbortAfter = std::chrono::seconds(1);

Call call(std::size_t count, uint32_t salt, bool in_place = false) {
  Call made;
  made.count = count;
  made.salt = salt;
  made.in_place = in_place;
  return made;
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1)
// Halves of two ranks or more, in another order.
std::size_t split(const Communicator& main, std::size_t count) {
  const int colors = std::max(main.ranks / 2, 1);
  ncclComm_t half = nullptr;
  MUST(ncclCommSplit(main.comm, main.rank % colors, main.ranks - main.rank, &half, nullptr));
  const Communicator made(half);
  return allReduce(made, call(count, 5)) + allToAll(made, call(3000, 6));
}
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
// The last rank is left out.
std::size_t shrink(const Communicator& main, std::size_t count) {
  int left_out = main.ranks - 1;
  if (main.rank == left_out) return 0;
  ncclComm_t smaller = nullptr;
  MUST(ncclCommShrink(main.comm, &left_out, 1, &smaller, nullptr, NCCL_SHRINK_DEFAULT));
  const Communicator made(smaller);
  return allReduce(made, call(count, 7)) + (made.ranks == main.ranks - 1 ? 0 : 1);
}
#endif

// Every rank aborts while a collective is under way. How far the collective has come depends on the machine.
std::size_t abortAtOnce(const Communicator& main, const std::string& name, std::size_t count) {
  Communicator doomed(name);
  std::size_t bad = allReduce(doomed, call(count, 8, true));
  // A rank whose stream has ended may still have data for others, which an abort drops. So all wait until all
  // have ended.
  bad += allReduce(main, call(1, 11));
  const DeviceMemory memory(count * sizeof(int32_t));
  MUST(ncclAllReduce(memory.at(), memory.at(), count, ncclInt32, ncclSum, doomed.comm, doomed.stream));
  MUST(ncclCommAbort(doomed.comm));
  doomed.comm = nullptr;
  MUST(cudaStreamSynchronize(doomed.stream));
  return bad;
}

}  // namespace

std::size_t makeUseAndEnd(const Communicator& main, std::size_t round) {
  constexpr std::size_t kCount = 40000;
  const std::string name = "churn" + std::to_string(round);
  switch (round % 5) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1)
    case 1:
      return split(main, kCount);
#endif
    case 2:
      return abortAtOnce(main, name, kCount);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    case 3:
      return main.ranks < 3 ? 0 : shrink(main, kCount);
#endif
    case 4: {
      const Communicator on(name);
      const std::size_t bad = allToAll(on, call(kCount, 9));
      MUST(ncclCommFinalize(on.comm));
      return bad;
    }
    default: {
      const Communicator on(name);
      return allReduce(on, call(kCount, 10));
    }
  }
}

void checkSeveralCommunicators(const Communicator& main) {
  beginCheck("several communicators");
  const Communicator second("second");
  const Communicator third("third");
  std::size_t bad = 0;
  for (uint32_t round = 0; round < 4; ++round) {
    uint32_t salt = 3 * round;
    for (const Communicator* on : {&main, &second, &third}) bad += allReduce(*on, call(50001, ++salt));
  }
  endCheck("several communicators", bad);
}

// Operations of three communicators under way at once, each on its own stream.
void checkSideBySide(const Communicator&) {
  beginCheck("communicators side by side");
  constexpr std::size_t kCount = 60000;
  constexpr int kCommunicators = 3;
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::unique_ptr<DeviceMemory>> buffers;
  for (int i = 0; i < kCommunicators; ++i) {
    communicators.push_back(std::make_unique<Communicator>("side" + std::to_string(i)));
    buffers.push_back(std::make_unique<DeviceMemory>(kCount * sizeof(int32_t)));
    const std::vector<int32_t> ones(kCount, i + 1);
    MUST(cudaMemcpy(buffers.back()->at(), ones.data(), kCount * sizeof(int32_t), cudaMemcpyHostToDevice));
  }
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kCommunicators; ++i) {
      char* const buffer = buffers[static_cast<std::size_t>(i)]->at();
      const Communicator& on = *communicators[static_cast<std::size_t>(i)];
      MUST(ncclAllReduce(buffer, buffer, kCount, ncclInt32, ncclSum, on.comm, on.stream));
    }
  }
  std::size_t bad = 0;
  for (int i = 0; i < kCommunicators; ++i) {
    communicators[static_cast<std::size_t>(i)]->wait();
    std::vector<int32_t> result(kCount);
    MUST(cudaMemcpy(result.data(), buffers[static_cast<std::size_t>(i)]->at(), kCount * sizeof(int32_t),
                    cudaMemcpyDeviceToHost));
    uint32_t expected = static_cast<uint32_t>(i) + 1;
    for (int round = 0; round < kRounds; ++round)
      expected *= static_cast<uint32_t>(options.ranks);  // modulo 2^32, as the sum is
    for (const int32_t value : result) bad += static_cast<uint32_t>(value) == expected ? 0 : 1;
  }
  endCheck("communicators side by side", bad);
}

void checkSplit(const Communicator& main) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1)
  beginCheck("split");
  endCheck("split", split(main, 70000));
#else
  (void)main;
#endif
}

void checkShrink(const Communicator& main) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  if (main.ranks < 3) return;
  beginCheck("shrink");
  endCheck("shrink", shrink(main, 70000));
#else
  (void)main;
#endif
}

void checkInitAgain(const Communicator&) {
  beginCheck("init again");
  std::size_t bad = 0;
  for (uint32_t round = 0; round < 3; ++round) {
    const Communicator on("again" + std::to_string(round));
    bad += allReduce(on, call(9999, round)) + allToAll(on, call(99, round));
  }
  endCheck("init again", bad);
}

// ncclCommFinalize waits for what is under way; ncclCommDestroy follows.
void checkFinalize(const Communicator&) {
  beginCheck("finalize");
  const Communicator on("finalize");
  constexpr std::size_t kCount = 100000;
  const DeviceMemory memory(kCount * sizeof(int32_t));
  const std::vector<int32_t> ones(kCount, 1);
  MUST(cudaMemcpy(memory.at(), ones.data(), kCount * sizeof(int32_t), cudaMemcpyHostToDevice));
  MUST(ncclAllReduce(memory.at(), memory.at(), kCount, ncclInt32, ncclSum, on.comm, on.stream));
  MUST(ncclCommFinalize(on.comm));
  on.wait();
  std::vector<int32_t> result(kCount);
  MUST(cudaMemcpy(result.data(), memory.at(), kCount * sizeof(int32_t), cudaMemcpyDeviceToHost));
  std::size_t bad = 0;
  for (const int32_t value : result) bad += value == on.ranks ? 0 : 1;
  endCheck("finalize", bad);
}

// Rank 0 does not come; the others give up in the middle of a collective. Then all begin again.
void checkAbort(const Communicator&) {
  beginCheck("abort in the middle");
  {
    // The same collective before: NCCL connects what it needs at the first, with all ranks.
    constexpr std::size_t kCount = std::size_t{1} << 20;
    Communicator doomed("doomed");
    const std::size_t before = allReduce(doomed, call(kCount, 1, true));
    const DeviceMemory memory(kCount * sizeof(int32_t));
    if (doomed.rank != 0)
      MUST(ncclAllReduce(memory.at(), memory.at(), kCount, ncclInt32, ncclSum, doomed.comm, doomed.stream));
    std::this_thread::sleep_for(kAbortAfter);
    const bool stuck = doomed.rank == 0 || cudaStreamQuery(doomed.stream) == cudaErrorNotReady;
    MUST(ncclCommAbort(doomed.comm));
    doomed.comm = nullptr;
    MUST(cudaStreamSynchronize(doomed.stream));
    if (!stuck) stop(1, "abort in the middle: the collective ended without rank 0");
    if (before != 0) stop(1, "abort in the middle: wrong before it");
  }
  const Communicator again("after_abort");
  endCheck("abort in the middle", allReduce(again, call(70000, 2)));
}
