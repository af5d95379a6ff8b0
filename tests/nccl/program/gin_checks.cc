// Checks of NCCL's GIN proxy, with the CPU as the kernel (gin_kernel.h). A check knows what each byte of its
// window, each signal and each counter must be. It looks when the last signal is there, and once more a while
// after all ranks have come to the end.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "checks.h"
#include "gin_kernel.h"
#include "traffic.h"
#include "window.h"

#ifdef HAS_GIN_KERNEL

namespace {

// What comes twice, or too late, comes within this time.
constexpr auto kWhile = std::chrono::milliseconds(200);
constexpr std::size_t kLargest = std::size_t{1} << 20;
// A signal is either added to or incremented.
constexpr uint32_t kAdded = 0;
constexpr uint32_t kIncremented = 1;

using Bytes = std::vector<unsigned char>;

// What a rank sends in a round, to whomever.
Bytes bytesOf(int rank, std::size_t round, std::size_t count) {
  return message(count, rank, 0, static_cast<uint32_t>(round));
}

// A communicator with a window and a kernel; and what bytes, signals and counters of this rank must be. The
// window is strictly ordered, so that its words can be signals.
class Gin {
 public:
  Gin(const std::string& name, std::size_t bytes, const GinKernel::Needs& needs)
      : on(name),
        window(on, bytes, NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING),
        kernel(on, needs),
        needs_(needs),
        bytes_(bytes, Window::kEmpty),
        signals_(static_cast<std::size_t>(needs.signals * needs.contexts)),
        counters_(static_cast<std::size_t>(needs.counters * needs.contexts)) {}

  const Communicator on;
  const Window window;
  const GinKernel kernel;

  GinPlace place(std::size_t offset) const { return {window.handle(), offset}; }
  int next() const { return (on.rank + 1) % on.ranks; }
  int previous() const { return (on.rank + on.ranks - 1) % on.ranks; }

  uint64_t& signal(int context, uint32_t index) {
    return signals_[static_cast<std::size_t>(context * needs_.signals) + index];
  }
  uint64_t& counter(int context, uint32_t index) {
    return counters_[static_cast<std::size_t>(context * needs_.counters) + index];
  }
  void expect(std::size_t offset, const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  void expectValue(std::size_t offset, uint64_t value, std::size_t bytes = sizeof(uint64_t)) {
    std::memcpy(bytes_.data() + offset, &value, bytes);
  }
  // This rank itself writes.
  void fill(std::size_t offset, const Bytes& bytes) {
    window.write(offset, bytes);
    expect(offset, bytes);
  }

  void waitForSignal(int context, uint32_t index) {
    const uint64_t least = signal(context, index);
    on.waitFor([&] { return kernel.readSignal(context, index) >= least; });
  }
  void waitForCounter(int context, uint32_t index) {
    const uint64_t least = counter(context, index);
    on.waitFor([&] { return kernel.readCounter(context, index) >= least; });
  }

  std::size_t wrongBytes() const {
    if (std::memcmp(window.at(), bytes_.data(), bytes_.size()) == 0) return 0;
    return differing(window.read(), bytes_);
  }
  std::size_t wrong() {
    std::size_t bad = wrongBytes();
    for (int context = 0; context < needs_.contexts; ++context) {
      for (uint32_t i = 0; i < static_cast<uint32_t>(needs_.signals); ++i)
        bad += kernel.readSignal(context, i) == signal(context, i) ? 0 : 1;
      for (uint32_t i = 0; i < static_cast<uint32_t>(needs_.counters); ++i)
        bad += kernel.readCounter(context, i) == counter(context, i) ? 0 : 1;
    }
    return bad;
  }
  std::size_t wrongNowAndLater() {
    const std::size_t now = wrong();
    barrier(on);
    std::this_thread::sleep_for(kWhile);
    return now + wrong();
  }

 private:
  GinKernel::Needs needs_;
  Bytes bytes_;
  std::vector<uint64_t> signals_;
  std::vector<uint64_t> counters_;
};

// A window has areas: one to send from, and one for each rank that sends.
std::size_t areaOf(int source, std::size_t bytes) { return (static_cast<std::size_t>(source) + 1) * bytes; }

// The kinds of signals; kAfter: a signal of its own, after a put without one.
enum class Kind { kAdd, kIncrement, kWeakAdd, kWeakIncrement, kWordAdd, kWordIncrement, kAfter };
constexpr Kind kKinds[] = {Kind::kAdd,     Kind::kIncrement,     Kind::kWeakAdd, Kind::kWeakIncrement,
                           Kind::kWordAdd, Kind::kWordIncrement, Kind::kAfter};

GinSignal signalOf(Kind kind, uint64_t value, GinPlace added, GinPlace incremented) {
  switch (kind) {
    case Kind::kIncrement:
      return ginIncrement(kIncremented);
    case Kind::kWeakAdd:
      return weak(ginAdd(value, kAdded));
    case Kind::kWeakIncrement:
      return weak(ginIncrement(kIncremented));
    case Kind::kWordAdd:
      return atWord(ginAdd(value), added);
    case Kind::kWordIncrement:
      return atWord(ginIncrement(), incremented);
    default:
      return ginAdd(value, kAdded);
  }
}

// Puts whose source is written again as soon as NCCL says that it may be: by a counter, or by a flush.
void checkSources(const std::string& title, const std::string& name, bool by_counter) {
  constexpr std::size_t kRounds = 8;
  constexpr std::size_t kBytes = 50001;
  beginCheck(title);
  const std::size_t area = kRounds * kBytes;
  const int counters = by_counter ? options.ranks : 0;
  Gin gin(name, areaOf(options.ranks, area), {.signals = 1, .counters = counters});
  std::size_t bad = 0;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::size_t to = round * kBytes;
    gin.fill(0, bytesOf(gin.on.rank, round, kBytes));
    for (int source = 0; source < gin.on.ranks; ++source)
      gin.expect(areaOf(source, area) + to, bytesOf(source, round, kBytes));
    for (int peer = 0; peer < gin.on.ranks; ++peer)
      gin.kernel.put(0, peer, gin.place(areaOf(gin.on.rank, area) + to), gin.place(0), kBytes, {},
                     by_counter ? peer : kNoGinCounter);
    if (!by_counter) gin.kernel.flush(0);
    for (uint32_t index = 0; index < static_cast<uint32_t>(counters); ++index) {
      uint64_t& count = ++gin.counter(0, index);
      gin.waitForCounter(0, index);
      if (round != kRounds / 2) continue;
      bad += gin.kernel.readCounter(0, index) == count ? 0 : 1;
      gin.kernel.resetCounter(0, index);
      count = 0;
    }
  }
  for (int peer = 0; peer < gin.on.ranks; ++peer) gin.kernel.signal(0, peer, ginAdd(1));
  gin.signal(0, kAdded) = static_cast<uint64_t>(gin.on.ranks);
  gin.waitForSignal(0, kAdded);
  endCheck(title, bad + gin.wrongNowAndLater());
}

// In each exchange several puts to every other rank, with a counter and every second one with a signal, and a
// get from there; an increment says that the rank has looked at what came.
class GinTraffic : public OneSidedTraffic {
 public:
  explicit GinTraffic(const std::string& name)
      : gin_(name, areaOf(2 * options.ranks, kPuts * options.max), {.signals = 2, .counters = 1}) {}

  std::size_t exchange(std::size_t bytes, std::size_t round) override {
    const std::size_t area = kPuts * options.max;
    gin_.fill(0, bytesOf(gin_.on.rank, round, kPuts * bytes));
    for (int step = 1; step < gin_.on.ranks; ++step) {
      const int peer = (gin_.on.rank + step) % gin_.on.ranks;
      for (std::size_t i = 0; i < kPuts; ++i) {
        const uint64_t value = round << 32 | i;
        gin_.kernel.put(0, peer, gin_.place(areaOf(gin_.on.rank, area) + i * bytes), gin_.place(i * bytes),
                        bytes, i % 2 == 0 ? GinSignal{} : ginAdd(value, kAdded), 0);
        ++gin_.counter(0, 0);
        gin_.signal(0, kAdded) += i % 2 == 0 ? 0 : value;
      }
      gin_.expect(areaOf(peer, area), bytesOf(peer, round, kPuts * bytes));
    }
    gin_.waitForSignal(0, kAdded);
    gin_.waitForCounter(0, 0);
#if GIN_HAS_GET
    for (int step = 1; step < gin_.on.ranks; ++step) {
      const int peer = (gin_.on.rank + step) % gin_.on.ranks;
      const std::size_t to = areaOf(gin_.on.ranks + peer, area);
      gin_.kernel.get(0, peer, gin_.place(0), gin_.place(to), kPuts * bytes);
      gin_.expect(to, bytesOf(peer, round, kPuts * bytes));
    }
    gin_.kernel.flush(0);
#endif
    const std::size_t bad = gin_.wrongBytes();
    for (int step = 1; step < gin_.on.ranks; ++step) {
      gin_.kernel.signal(0, (gin_.on.rank + step) % gin_.on.ranks, ginIncrement(kIncremented));
      ++gin_.signal(0, kIncremented);
    }
    gin_.waitForSignal(0, kIncremented);
    return bad;
  }
  std::size_t surplus() override { return gin_.wrongNowAndLater(); }

 private:
  static constexpr std::size_t kPuts = 4;

  Gin gin_;
};

std::unique_ptr<OneSidedTraffic> makeGinTraffic(const Communicator& main, const std::string& name) {
  if (GinKernel::isPossible(main)) return std::make_unique<GinTraffic>(name);
  std::puts("info no GIN proxy here");
  return nullptr;
}

}  // namespace

void checkGinTraffic(const Communicator& main) { checkOneSidedTraffic(main, makeGinTraffic); }

// To all ranks, also to oneself: sizes, offsets, and kinds of signals.
void checkGinPut(const Communicator& main) {
  if (!GinKernel::isPossible(main)) return;
  beginCheck("GIN put and signals");
  const std::size_t area = kLargest + 64;
  const std::size_t added = areaOf(main.ranks, area);  // words behind the areas
  const std::size_t incremented = added + sizeof(uint64_t);
  Gin gin("gin_put", incremented + sizeof(uint64_t), {.signals = 2, .counters = 0});
  uint64_t word_added = 0;
  uint64_t word_incremented = 0;
  gin.fill(added, Bytes(2 * sizeof(uint64_t)));
  barrier(gin.on);
  std::size_t bad = 0;
  std::size_t round = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{63},
                                  std::size_t{4096}, std::size_t{65539}, kLargest}) {
    for (const Kind kind : kKinds) {
      ++round;
      const std::size_t from = round % 5;
      const std::size_t to = round * 7 % 64;
      const auto value = [&](int rank) { return round << 32 | static_cast<uint64_t>(rank + 1); };
      gin.fill(from, bytesOf(gin.on.rank, round, bytes));
      for (int step = 0; step < gin.on.ranks; ++step) {
        const int peer = (gin.on.rank + step) % gin.on.ranks;
        const GinSignal signal = signalOf(kind, value(gin.on.rank), gin.place(added), gin.place(incremented));
        gin.kernel.put(0, peer, gin.place(areaOf(gin.on.rank, area) + to), gin.place(from), bytes,
                       kind == Kind::kAfter ? GinSignal{} : signal);
        if (kind == Kind::kAfter) gin.kernel.signal(0, peer, signal);
      }
      for (int source = 0; source < gin.on.ranks; ++source) {
        gin.expect(areaOf(source, area) + to, bytesOf(source, round, bytes));
        if (kind == Kind::kWordAdd) word_added += value(source);
        else if (kind == Kind::kWordIncrement) ++word_incremented;
        else if (kind == Kind::kIncrement || kind == Kind::kWeakIncrement) ++gin.signal(0, kIncremented);
        else gin.signal(0, kAdded) += value(source);
      }
      gin.expectValue(added, word_added);
      gin.expectValue(incremented, word_incremented);
      gin.waitForSignal(0, kAdded);
      gin.waitForSignal(0, kIncremented);
      gin.on.waitFor([&] {
        return gin.kernel.readWord(gin.place(added)) >= word_added &&
               gin.kernel.readWord(gin.place(incremented)) >= word_incremented;
      });
      bad += gin.wrong();
      barrier(gin.on);
    }
  }
  endCheck("GIN put and signals", bad + gin.wrongNowAndLater());
}

// When a strong signal is there, all earlier puts are: large ones too, and those that had no signal.
void checkGinOrder(const Communicator& main) {
  if (!GinKernel::isPossible(main)) return;
  beginCheck("GIN order of strong signals");
  constexpr std::size_t kRounds = 40;
  constexpr std::size_t kSizes[] = {262144, 3, 65537, 300, 8, 1, 131072, 17, 4096, 5};
  std::size_t area = 0;
  for (const std::size_t bytes : kSizes) area += bytes;
  Gin gin("gin_order", 2 * area, {.signals = 2, .counters = 0});
  std::size_t bad = 0;
  for (std::size_t round = 0; round < kRounds; ++round) {
    gin.fill(0, bytesOf(gin.on.rank, round, area));
    gin.expect(area, bytesOf(gin.previous(), round, area));
    const bool with_last = round % 2 == 0;  // or alone
    std::size_t offset = 0;
    for (const std::size_t bytes : kSizes) {
      const bool last = offset + bytes == area;
      gin.kernel.put(0, gin.next(), gin.place(area + offset), gin.place(offset), bytes,
                     last && with_last ? ginAdd(1, kAdded) : GinSignal{});
      offset += bytes;
    }
    if (!with_last) gin.kernel.signal(0, gin.next(), ginAdd(1, kAdded));
    ++gin.signal(0, kAdded);
    gin.waitForSignal(0, kAdded);
    bad += gin.wrongBytes();
    // The sender may go on.
    gin.kernel.signal(0, gin.previous(), ginIncrement(kIncremented));
    ++gin.signal(0, kIncremented);
    gin.waitForSignal(0, kIncremented);
  }
  endCheck("GIN order of strong signals", bad + gin.wrongNowAndLater());
}

void checkGinCounters(const Communicator& main) {
  if (GinKernel::isPossible(main)) checkSources("GIN counters", "gin_counters", true);
}

void checkGinFlush(const Communicator& main) {
  if (GinKernel::isPossible(main)) checkSources("GIN flush", "gin_flush", false);
}

#if GIN_HAS_GET
void checkGinGet(const Communicator& main) {
  if (!GinKernel::isPossible(main)) return;
  beginCheck("GIN get");
  const std::size_t area = kLargest + 64;
  Gin gin("gin_get", areaOf(main.ranks, area), {.signals = 1, .counters = 0});
  std::size_t bad = 0;
  std::size_t round = 0;
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{8}, std::size_t{63}, std::size_t{4096}, std::size_t{65539}, kLargest}) {
    ++round;
    const std::size_t from = round % 5;
    const std::size_t to = round * 7 % 64;
    gin.fill(from, bytesOf(gin.on.rank, round, bytes));
    for (int peer = 0; peer < gin.on.ranks; ++peer)
      gin.expect(areaOf(peer, area) + to, bytesOf(peer, round, bytes));
    barrier(gin.on);
    for (int peer = 0; peer < gin.on.ranks; ++peer)
      gin.kernel.get(0, peer, gin.place(from), gin.place(areaOf(peer, area) + to), bytes);
    gin.kernel.flush(0);
    bad += gin.wrong();
    barrier(gin.on);
  }
  endCheck("GIN get", bad + gin.wrongNowAndLater());
}
#endif

// All ranks add to one signal of rank 0.
void checkGinManyWriters(const Communicator& main) {
  if (!GinKernel::isPossible(main)) return;
  beginCheck("GIN many writers");
  constexpr uint64_t kTimes = 400;
  constexpr std::size_t kBytes = 24;
  Gin gin("gin_many_writers", areaOf(main.ranks, kBytes), {.signals = 2, .counters = 0});
  // The low word of the sum carries into the high one.
  const auto value = [](int rank) { return 0x1'0000'0000U * static_cast<uint64_t>(rank + 1) + 0xf000'0001U; };
  gin.fill(0, bytesOf(gin.on.rank, 1, kBytes));
  for (uint64_t time = 0; time < kTimes; ++time) {
    const GinSignal add = ginAdd(value(gin.on.rank), kAdded);
    if (time % 4 == 0) {
      gin.kernel.put(0, 0, gin.place(areaOf(gin.on.rank, kBytes)), gin.place(0), kBytes, add);
    } else {
      gin.kernel.signal(0, 0, time % 4 == 1 ? weak(add) : add);
    }
    gin.kernel.signal(0, 0, ginIncrement(kIncremented));
  }
  for (int source = 0; gin.on.rank == 0 && source < gin.on.ranks; ++source) {
    gin.expect(areaOf(source, kBytes), bytesOf(source, 1, kBytes));
    gin.signal(0, kAdded) += kTimes * value(source);
    gin.signal(0, kIncremented) += kTimes;
  }
  gin.waitForSignal(0, kAdded);
  gin.waitForSignal(0, kIncremented);
  endCheck("GIN many writers", gin.wrongNowAndLater());
}

// Signals begin at 0 again: the kernel's own, and words of a window.
void checkGinReset(const Communicator& main) {
  if (!GinKernel::isPossible(main)) return;
  beginCheck("GIN reset of signals");
  constexpr std::size_t kRounds = 6;
  Gin gin("gin_reset", sizeof(uint64_t), {.signals = 2, .counters = 0});
  const GinPlace word = gin.place(0);
  gin.fill(0, Bytes(sizeof(uint64_t)));
  barrier(gin.on);
  std::size_t bad = 0;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    const uint64_t times = round % 3 + 1;
    for (uint64_t time = 0; time < times; ++time) {
      gin.kernel.signal(0, gin.next(), ginAdd(round * 1000, kAdded));
      gin.kernel.signal(0, gin.next(), ginIncrement(kIncremented));
      const GinSignal at_word = atWord(round % 2 == 0 ? ginAdd(round) : ginIncrement(), word);
      gin.kernel.signal(0, gin.next(), time % 2 == 0 ? at_word : weak(at_word));
    }
    const uint64_t sum = times * (round % 2 == 0 ? round : 1);
    gin.signal(0, kAdded) = times * round * 1000;
    gin.signal(0, kIncremented) = times;
    gin.expectValue(0, sum);
    gin.waitForSignal(0, kAdded);
    gin.waitForSignal(0, kIncremented);
    gin.on.waitFor([&] { return gin.kernel.readWord(word) >= sum; });
    bad += gin.wrong();
    gin.kernel.resetSignal(0, kAdded);
    gin.kernel.resetSignal(0, kIncremented);
    gin.kernel.resetWord(0, word);
    gin.signal(0, kAdded) = 0;
    gin.signal(0, kIncremented) = 0;
    gin.expectValue(0, 0);
    bad += gin.wrong();
    barrier(gin.on);
  }
  endCheck("GIN reset of signals", bad + gin.wrongNowAndLater());
}

// Contexts have signals and counters of their own.
void checkGinContexts(const Communicator& main) {
  if (!GinKernel::isPossible(main)) return;
  beginCheck("GIN contexts");
  constexpr int kContexts = 4;
  constexpr uint64_t kRounds = 20;
  constexpr std::size_t kBytes = 3000;
  const std::size_t area = kContexts * kRounds * kBytes;
  Gin gin("gin_contexts", 2 * area, {.signals = 3, .counters = 2, .contexts = kContexts});
  gin.fill(0, bytesOf(gin.on.rank, 1, area));
  gin.expect(area, bytesOf(gin.previous(), 1, area));
  std::size_t offset = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (int context = 0; context < kContexts; ++context) {
      const auto index = static_cast<uint32_t>((round + static_cast<uint64_t>(context)) % 3);
      const uint64_t value = round * 10 + static_cast<uint64_t>(context);
      const int counter = static_cast<int>(round % 2);
      gin.kernel.put(context, gin.next(), gin.place(area + offset), gin.place(offset), kBytes,
                     ginAdd(value, index), counter);
      gin.signal(context, index) += value;
      ++gin.counter(context, static_cast<uint32_t>(counter));
      offset += kBytes;
    }
  }
  for (int context = 0; context < kContexts; ++context) {
    for (const uint32_t index : {0U, 1U, 2U}) gin.waitForSignal(context, index);
    for (const uint32_t index : {0U, 1U}) gin.waitForCounter(context, index);
  }
  endCheck("GIN contexts", gin.wrongNowAndLater());
}

// More operations than a queue has entries, without a wait between them.
void checkGinQueue(const Communicator& main) {
  if (!GinKernel::isPossible(main)) return;
  beginCheck("GIN full queues");
  constexpr std::size_t kMost = 4096;
  constexpr std::size_t kBytes = 5;
  const std::size_t area = kMost * kBytes;
  Gin gin("gin_queue", areaOf(main.ranks, area), {.signals = 2, .counters = 1});
  const std::size_t times = 3 * gin.kernel.queueEntries() + 7;
  if (times > kMost) stop(1, "the queues of GIN are longer than this check expects");
  gin.fill(0, bytesOf(gin.on.rank, 1, times * kBytes));
  for (std::size_t time = 0; time < times; ++time) {
    for (int peer = 0; peer < gin.on.ranks; ++peer)
      gin.kernel.put(0, peer, gin.place(areaOf(gin.on.rank, area) + time * kBytes), gin.place(time * kBytes),
                     kBytes, time % 3 == 0 ? ginAdd(time) : GinSignal{}, 0);
  }
  for (int peer = 0; peer < gin.on.ranks; ++peer) {
    gin.kernel.signal(0, peer, ginIncrement(kIncremented));
    gin.expect(areaOf(peer, area), bytesOf(peer, 1, times * kBytes));
    for (std::size_t time = 0; time < times; time += 3) gin.signal(0, kAdded) += time;
    ++gin.signal(0, kIncremented);
    gin.counter(0, 0) += times;
  }
  gin.waitForSignal(0, kAdded);
  gin.waitForSignal(0, kIncremented);
  gin.waitForCounter(0, 0);
  endCheck("GIN full queues", gin.wrongNowAndLater());
}

// Values that lie in the queue itself.
void checkGinValues(const Communicator& main) {
  if (!GinKernel::isPossible(main)) return;
  beginCheck("GIN values");
  constexpr std::size_t kRounds = 20;
  constexpr std::size_t kRoom = 24;  // a value has bytes on both sides that nobody may touch
  const std::size_t area = kRounds * kRoom;
  Gin gin("gin_values", areaOf(main.ranks, area), {.signals = 1, .counters = 0});
  const auto value = [](int rank, std::size_t round) {
    return 0x8182'8384'8586'8788U + round * 0x0101'0101'0101'0101U + static_cast<uint64_t>(rank);
  };
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::size_t bytes = std::size_t{1} << round % 4;
    const std::size_t offset = round * kRoom + 8 + round % 3;
    for (int peer = 0; peer < gin.on.ranks; ++peer) {
      gin.kernel.putValue(0, peer, gin.place(areaOf(gin.on.rank, area) + offset), value(gin.on.rank, round),
                          bytes, round % 2 == 0 ? GinSignal{} : ginAdd(round));
      gin.expectValue(areaOf(peer, area) + offset, value(peer, round), bytes);
      if (round % 2 != 0) gin.signal(0, kAdded) += round;
    }
  }
  gin.waitForSignal(0, kAdded);
  endCheck("GIN values", gin.wrongNowAndLater());
}

#endif
