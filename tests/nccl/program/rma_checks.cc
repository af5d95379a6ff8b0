// Checks of NCCL's host RMA: put, signal, wait. Every byte of a window is looked at, also those that nobody
// should have written. Every signal is counted: as many as were sent have come, and not one more, also a
// while later. What cannot be seen: a signal too many of a rank to itself, and one inside a host, where
// NCCL 2.30.7 stores a number instead of adding.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "checks.h"
#include "graph.h"
#include "traffic.h"
#include "window.h"

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 2)

namespace {

// For how long a signal too many is waited for.
constexpr auto kAWhile = std::chrono::milliseconds(100);
constexpr auto kAbortAfter = std::chrono::milliseconds(300);

// NCCL's calls on one communicator, and the two windows that they use. NCCL has a counter for each rank that
// signals another rank, and a second counter for signals of graphs. Nobody resets the first one.
class Rma {
 public:
  Rma(const Communicator& on, std::size_t bytes)
      : on_(on), from(on, bytes, NCCL_WIN_COLL_SYMMETRIC), to(on, bytes, NCCL_WIN_COLL_SYMMETRIC) {}

  void put(std::size_t at, std::size_t bytes, std::size_t to_at, int peer) const {
    MUST(
        ncclPutSignal(from.at(at), bytes, ncclInt8, peer, to.handle(), to_at, 0, 0, 0, on_.comm, on_.stream));
  }
  void signal(int peer) const { MUST(ncclSignal(peer, 0, 0, 0, on_.comm, on_.stream)); }
  // Waits in the stream for so many signals of each peer.
  void await(const std::vector<int>& peers, int count = 1) const {
    std::vector<ncclWaitSignalDesc_t> signals;
    for (const int peer : peers) signals.push_back({count, peer, 0, 0});
    MUST(ncclWaitSignal(static_cast<int>(signals.size()), signals.data(), on_.comm, on_.stream));
  }

 private:
  const Communicator& on_;

 public:
  Window from;
  Window to;
};

std::vector<int> others(const Communicator& on) {
  std::vector<int> all;
  for (int peer = 0; peer < on.ranks; ++peer) {
    if (peer != on.rank) all.push_back(peer);
  }
  return all;
}

// Makes windows ready for a round; returns what the own window `to` shall hold, which is nothing yet.
std::vector<unsigned char> begin(const Communicator& main, const Rma& rma) {
  rma.to.clear();
  barrier(main);
  return std::vector<unsigned char>(rma.to.bytes(), Window::kEmpty);
}

void expectAt(std::vector<unsigned char>& window, std::size_t at, const std::vector<unsigned char>& bytes) {
  std::copy(bytes.begin(), bytes.end(), window.begin() + static_cast<std::ptrdiff_t>(at));
}

// One message to the next rank, at addresses that no alignment helps.
std::size_t putToNext(const Communicator& main, const Communicator& on, const Rma& rma, std::size_t bytes,
                      uint32_t round) {
  constexpr std::size_t kFrom = 3, kTo = 5;
  const int next = (on.rank + 1) % on.ranks;
  const int previous = (on.rank + on.ranks - 1) % on.ranks;
  std::vector<unsigned char> expected = begin(main, rma);
  rma.from.write(kFrom, message(bytes, on.rank, next, round));
  rma.put(kFrom, bytes, kTo, next);
  rma.await({previous});
  on.wait();
  expectAt(expected, kTo, message(bytes, previous, on.rank, round));
  return differing(rma.to.read(), expected);
}

// Of putMany, and of putInAGroup.
constexpr std::size_t kMany = 600;
constexpr std::size_t kBytesOfMany = 24;
constexpr std::size_t kBytesOfGroup = 5000;

// The bytes of a window that has room for every check of so many ranks.
std::size_t windowFor(const Communicator& on, std::size_t largest) {
  return std::max(largest,
                  static_cast<std::size_t>(on.ranks) * std::max(kMany * kBytesOfMany, kBytesOfGroup)) +
         64;
}

// To every other rank many messages, each to a place of its own, more than NCCL has requests.
std::size_t putMany(const Communicator& main, const Communicator& on, const Rma& rma) {
  constexpr std::size_t kBytes = kBytesOfMany, kCount = kMany;
  const auto placeOf = [](int rank, std::size_t i) {
    return (static_cast<std::size_t>(rank) * kCount + i) * kBytes;
  };
  std::vector<unsigned char> expected = begin(main, rma);
  for (const int peer : others(on)) {
    for (std::size_t i = 0; i < kCount; ++i)
      rma.from.write(placeOf(peer, i), message(kBytes, on.rank, peer, static_cast<uint32_t>(i)));
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    for (const int peer : others(on)) rma.put(placeOf(peer, i), kBytes, placeOf(on.rank, i), peer);
  }
  rma.await(others(on), kCount);
  on.wait();
  for (const int peer : others(on)) {
    for (std::size_t i = 0; i < kCount; ++i)
      expectAt(expected, placeOf(peer, i), message(kBytes, peer, on.rank, static_cast<uint32_t>(i)));
  }
  return differing(rma.to.read(), expected);
}

// Messages to all ranks, the own one among them, and the wait for theirs, as one group.
std::size_t putInAGroup(const Communicator& main, const Communicator& on, const Rma& rma) {
  constexpr std::size_t kBytes = kBytesOfGroup;
  std::vector<unsigned char> expected = begin(main, rma);
  std::vector<int> all;
  for (int peer = 0; peer < on.ranks; ++peer) {
    all.push_back(peer);
    rma.from.write(static_cast<std::size_t>(peer) * kBytes, message(kBytes, on.rank, peer, 7));
    expectAt(expected, static_cast<std::size_t>(peer) * kBytes, message(kBytes, peer, on.rank, 7));
  }
  MUST(ncclGroupStart());
  for (const int peer : all)
    rma.put(static_cast<std::size_t>(peer) * kBytes, kBytes, static_cast<std::size_t>(on.rank) * kBytes,
            peer);
  MUST(ncclGroupEnd());
  rma.await(all);
  on.wait();
  return differing(rma.to.read(), expected);
}

// Whether rank `to` has a signal too many of rank `from`, after all signals were awaited: `to` waits for one
// more, and `from` sends it only after `to` has looked whether its wait has ended already.
template <typename Await, typename Signal>
bool hasSurplus(const Communicator& main, const Communicator& on, int to, int from, Await await,
                Signal signal) {
  bool early = false;
  if (on.rank == to) {
    await();
    std::this_thread::sleep_for(kAWhile);
    early = cudaStreamQuery(on.stream) != cudaErrorNotReady;
  }
  barrier(main);
  if (on.rank == from) signal();
  if (on.rank == from || on.rank == to) on.wait();
  return early;
}

// How many pairs of ranks have a signal too many.
std::size_t surplusSignals(const Communicator& main, const Communicator& on, const Rma& rma) {
  std::size_t bad = 0;
  for (int to = 0; to < on.ranks; ++to) {
    for (int from = 0; from < on.ranks; ++from) {
      if (from == to) continue;
      bad += hasSurplus(
                 main, on, to, from, [&] { rma.await({from}); }, [&] { rma.signal(to); })
                 ? 1
                 : 0;
    }
  }
  return bad;
}

// surplusSignals() counts them.
void sendSignalsAlone(const Communicator& on, const Rma& rma) {
  constexpr int kCount = 50;
  for (int i = 0; i < kCount; ++i) {
    for (const int peer : others(on)) rma.signal(peer);
  }
  rma.await(others(on), kCount);
  on.wait();
}

std::size_t everything(const Communicator& main, const Communicator& on, const Rma& rma,
                       std::size_t largest) {
  std::size_t bad = 0;
  uint32_t round = 0;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{65539}, largest}) {
    if (bytes <= largest) bad += putToNext(main, on, rma, bytes, ++round);
  }
  bad += putMany(main, on, rma) + putInAGroup(main, on, rma);
  sendSignalsAlone(on, rma);
  return bad + surplusSignals(main, on, rma);
}

// In each exchange several puts to every other rank, each with its signal; a signal alone says that the rank
// has looked at what came.
class RmaTraffic : public OneSidedTraffic {
 public:
  RmaTraffic(const Communicator& main, const std::string& name)
      : main_(main),
        on_(name),
        rma_(on_, placeOf(on_.ranks, 0)),
        expected_(rma_.to.bytes(), Window::kEmpty) {}

  bool isPossible() const { return isSymmetric(rma_.to); }

  std::size_t exchange(std::size_t bytes, std::size_t round) override {
    const auto messageOf = [&](int from, int to, int i) {
      return message(bytes, from, to, static_cast<uint32_t>(round) * kPuts + static_cast<uint32_t>(i));
    };
    for (const int peer : others(on_)) {
      for (int i = 0; i < kPuts; ++i) {
        rma_.from.write(placeOf(peer, i), messageOf(on_.rank, peer, i));
        expectAt(expected_, placeOf(peer, i), messageOf(peer, on_.rank, i));
      }
    }
    for (int i = 0; i < kPuts; ++i) {
      for (const int peer : others(on_)) rma_.put(placeOf(peer, i), bytes, placeOf(on_.rank, i), peer);
    }
    rma_.await(others(on_), kPuts);
    on_.wait();
    const std::size_t bad = differing(rma_.to.read(), expected_);
    for (const int peer : others(on_)) rma_.signal(peer);
    rma_.await(others(on_));
    on_.wait();
    return bad;
  }
  std::size_t surplus() override { return surplusSignals(main_, on_, rma_); }

 private:
  static constexpr int kPuts = 4;
  static std::size_t placeOf(int rank, int put) {
    return static_cast<std::size_t>(rank * kPuts + put) * (options.max + 8) + 3;
  }

  const Communicator& main_;
  const Communicator on_;
  const Rma rma_;
  std::vector<unsigned char> expected_;
};

std::unique_ptr<OneSidedTraffic> makeRmaTraffic(const Communicator& main, const std::string& name) {
  auto made = std::make_unique<RmaTraffic>(main, name);
  return made->isPossible() ? std::move(made) : nullptr;
}

}  // namespace

void checkRmaTraffic(const Communicator& main) { checkOneSidedTraffic(main, makeRmaTraffic); }

void checkRma(const Communicator& main) {
  beginCheck("RMA");
  const Communicator on("rma");
  const Rma rma(on, windowFor(on, options.max));
  if (isSymmetric(rma.to)) endCheck("RMA", everything(main, on, rma, options.max));
}

// More than NCCL hands to the network at once.
void checkLargeRma(const Communicator& main) {
  beginCheck("RMA of more than 1 GiB");
  const Communicator on("large_rma");
  constexpr std::size_t kBytes = (std::size_t{1} << 30) + 12345;
  const Rma rma(on, kBytes + 64);
  if (!isSymmetric(rma.to)) return;
  const std::size_t bad = putToNext(main, on, rma, kBytes, 1);
  endCheck("RMA of more than 1 GiB", bad + surplusSignals(main, on, rma));
}

// A put and a wait that were captured, replayed with other data each time. At the end each rank waits for a
// signal more, as surplusSignals() has it.
void checkGraphOfRma(const Communicator& main) {
  beginCheck("graph replay of RMA");
  const Communicator on("graph_of_rma");
  constexpr std::size_t kBytes = 30000;
  constexpr uint32_t kReplays = 20;
  const Rma rma(on, kBytes);
  if (!isSymmetric(rma.to)) return;
  const int next = (on.rank + 1) % on.ranks;
  const int previous = (on.rank + on.ranks - 1) % on.ranks;
  std::size_t bad = 0;
  {
    const Graph graph(on.stream, [&] {
      rma.put(0, kBytes, 0, next);
      rma.await({previous});
    });
    const Graph signal(on.stream, [&] { rma.signal(next); });
    const Graph wait(on.stream, [&] { rma.await({previous}); });
    for (uint32_t replay = 0; replay < kReplays; ++replay) {
      (void)begin(main, rma);
      rma.from.write(0, message(kBytes, on.rank, next, replay));
      graph.launch(on.stream);
      on.wait();
      bad += differing(rma.to.read(), message(kBytes, previous, on.rank, replay));
    }
    for (int to = 0; to < on.ranks; ++to) {
      const int from = (to + on.ranks - 1) % on.ranks;
      bad += hasSurplus(
                 main, on, to, from, [&] { wait.launch(on.stream); }, [&] { signal.launch(on.stream); })
                 ? 1
                 : 0;
    }
  }
  endCheck("graph replay of RMA", bad);
}

// Children of a split, with resources of their own and with their parent's. NCCL has no host RMA in the
// latter (its src/rma.cc, ncclRmaInitFromParent): it must say so, and the window must do no harm.
void checkRmaOfChildren(const Communicator& main) {
  for (const int shared : {0, 1}) {
    const std::string name = shared ? "RMA of a child with shared resources" : "RMA of a child";
    beginCheck(name);
    const Communicator parent(shared ? "parent_that_shares" : "parent");
    const Rma before(parent, 4096);
    if (!isSymmetric(before.to)) return;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.splitShare = shared;
    ncclComm_t child = nullptr;
    MUST(ncclCommSplit(parent.comm, 0, parent.ranks - parent.rank, &child, &config));
    const Communicator on(child);
    const Rma rma(on, windowFor(on, 1 << 18));
    std::size_t bad = 0;
    const ncclResult_t signalled = ncclSignal((on.rank + 1) % on.ranks, 0, 0, 0, on.comm, on.stream);
    if (signalled == ncclSuccess) {
      rma.await({(on.rank + on.ranks - 1) % on.ranks});
      bad += putToNext(main, on, rma, 10000, 3) + putInAGroup(main, on, rma) + surplusSignals(main, on, rma);
    } else {
      std::printf("info %s: none\n", name.c_str());
      bad += shared && signalled == ncclInvalidArgument ? 0 : 1;
    }
    endCheck(name, bad);
  }
}

// Communicators end in all ways while windows are there; the next one works.
void checkEndOfRma(const Communicator& main) {
  beginCheck("end of RMA");
  std::size_t bad = 0;
  {
    Communicator on("destroyed_with_windows");
    Rma rma(on, 1 << 18);
    if (!isSymmetric(rma.to)) return;
    bad += putToNext(main, on, rma, 1000, 1);
    MUST(ncclCommDestroy(on.comm));
    on.comm = nullptr;
    rma.from.forgetCommunicator();
    rma.to.forgetCommunicator();
  }
  {
    Communicator on("aborted_with_windows");
    Rma rma(on, 1 << 20);
    bad += putToNext(main, on, rma, 1000, 2);
    // In the middle of a collective that rank 0 never joins. (In the middle of a put or a wait NCCL hangs:
    // its abort waits for the stream, which waits for the put or the signal.)
    const DeviceMemory memory(1 << 20);
    const auto allReduce = [&] {
      MUST(ncclAllReduce(memory.at(), memory.at(), 1 << 20, ncclInt8, ncclSum, on.comm, on.stream));
    };
    allReduce();  // NCCL connects at the first one, with all ranks
    on.wait();
    if (on.rank != 0) allReduce();
    std::this_thread::sleep_for(kAbortAfter);
    MUST(ncclCommAbort(on.comm));
    on.comm = nullptr;
    rma.from.forgetCommunicator();
    rma.to.forgetCommunicator();
  }
  barrier(main);
  const Communicator on("after_windows");
  const Rma rma(on, windowFor(on, 1 << 16));
  endCheck("end of RMA", bad + everything(main, on, rma, 1 << 16));
}
#endif
