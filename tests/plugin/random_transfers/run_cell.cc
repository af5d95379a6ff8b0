#include "plugin/random_transfers/run_cell.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plugin/kernel_leaks.h"
#include "plugin/test_device.h"

namespace railwise::test {
namespace {

constexpr std::size_t kSlabBytes = 64 << 20;  // some groups of the largest messages
constexpr std::size_t kSmallestSlab = 4 << 20;
// Steps in a row that bring nothing, after which nothing ever will: some minutes.
constexpr uint64_t kPatience = 400'000'000;

// The same again after an odd number of bytes that no mistake is likely to be off by.
constexpr std::size_t kPeriod = 2'097'175;

void fillRandom(Pages& pages, softdev::Random& random) {
  for (std::size_t i = 0; i < kPeriod; i += sizeof(uint64_t)) {
    const uint64_t word = random.next();
    std::memcpy(pages.data() + i, &word, sizeof word);
  }
  for (std::size_t i = kPeriod; i < pages.bytes(); i += kPeriod)
    std::memcpy(pages.data() + i, pages.data(), std::min(kPeriod, pages.bytes() - i));
}

template <typename A>
class CellRun {
 public:
  CellRun(const Cell& cell, uint64_t seed, const Load& load, Counts& counts)
      : cell_(cell),
        load_(load),
        dice_(seed),
        counts_(counts),
        source_(std::max(2 * load.largest, 2 * kPeriod)),
        slab_(std::max<std::size_t>(kSlabBytes * load.largest / kMaxMessage, kSmallestSlab)) {
    fillRandom(source_, dice_);
  }

  void run() {
    // NCCL's two ranks of a process have a communicator each.
    must(A::init(&contexts_[0]), "init");
    must(A::init(&contexts_[1]), "init");
    makeDevices();
    // siw gives a process only a few queue pairs at a time (docs/develop/kernel-lab.md).
    const uint64_t count = onIwarp() ? 2 : 2 + dice_.below(2);
    for (uint64_t i = 0; i < count; ++i)
      connect(i, load_.messages / count + (i < load_.messages % count ? 1 : 0));
    transfer();
    for (auto& flow : flows_) flow->close(dice_.below(2) == 0);
    flows_.clear();
    must(A::finalize(contexts_[0]), "finalize");
    must(A::finalize(contexts_[1]), "finalize");
    if (anyWarning()) throw Wrong{"there were warnings"};
    checkKernel();
  }

  std::string state() const {
    std::string text;
    for (const auto& flow : flows_) text += "  connection: " + flow->state() + "\n";
    return text;
  }

 private:
  // But for the line that both ends are not alike: they are not. And on a machine that is busy enough
  // (sanitizers, other tests) a device may be silent for so long that a connection tries another way.
  static bool anyWarning() {
    constexpr std::array kNoFaults = {"the two ends of a connection differ",
                                      "nothing has come back for",
                                      "goes on over",
                                      "goes back",
                                      "not needed any more",
                                      "lose a path or go back"};
    std::istringstream lines(warnings());
    for (std::string line; std::getline(lines, line);) {
      const auto has = [&](const char* words) { return line.find(words) != std::string::npos; };
      if (std::none_of(kNoFaults.begin(), kNoFaults.end(), has)) return true;
    }
    return false;
  }
  // A device of all rails, and now and then one of fewer: the two ends of a connection need not be alike.
  void makeDevices() {
    int physical = 0;
    must(A::table().devices(&physical), "devices");
    if (physical != deviceCount(cell_.rails))
      throw Wrong{"there are " + std::to_string(physical) + " devices"};
    devices_ = physical;
    if (cell_.rails == 1) {
      wide_ = static_cast<int>(dice_.below(static_cast<uint64_t>(physical)));
      narrow_ = static_cast<int>(dice_.below(static_cast<uint64_t>(physical)));
    }
    if constexpr (A::kVersion >= 9) {
      if (cell_.rails < 2) return;
      wide_ = fuse(cell_.rails);
      const auto fewer = static_cast<int>(1 + dice_.below(static_cast<uint64_t>(cell_.rails)));
      narrow_ = fewer == 1 || fewer == cell_.rails ? physical - 1 : fuse(fewer);
    }
  }

  // When all is closed and finalized.
  void checkKernel() const {
    if (!onRealDevices()) return;
    const std::string left =
        leftBehind(kernelObjects(getpid()), {!A::kHasContext, static_cast<std::size_t>(devices_ + fused_)});
    if (!left.empty()) throw Wrong{left};
  }

  int fuse(int rails) {
    int index = -1;
    if constexpr (A::kVersion >= 9) {
      std::conditional_t<A::kVersion == 12, ncclNetVDeviceProps_v12_t, ncclNetVDeviceProps_v9_t> props = {};
      props.ndevs = rails;
      // Beginning anywhere: rail numbers of the two ends differ.
      const auto first = static_cast<int>(dice_.below(static_cast<uint64_t>(devices_)));
      for (int i = 0; i < rails; ++i) props.devs[i] = (first + i) % devices_;
      must(A::table().makeVDevice(&index, &props), "makeVDevice");
      ++fused_;
    }
    return index;
  }

  void connect(uint64_t number, uint64_t messages) {
    void* const sender = contexts_[number % 2];
    void* const receiver = contexts_[1 - number % 2];
    const int from = dice_.below(4) == 0 ? narrow_ : wide_;
    const int to = dice_.below(4) == 0 ? narrow_ : wide_;
    Handle handle;
    void* listener = nullptr;
    must(A::listen(receiver, to, handle.bytes(), &listener), "listen");
    void* send = nullptr;
    void* receive = nullptr;
    uint64_t fruitless = 0;
    while (send == nullptr || receive == nullptr) {
      if (send == nullptr) must(A::connect(sender, from, handle.bytes(), &send), "connect");
      if (receive == nullptr) must(A::accept(listener, &receive), "accept");
      if (++fruitless % 64 == 0) sched_yield();
      if (fruitless > kPatience) throw Wrong{"a connection never came up"};
    }
    must(A::table().closeListen(listener), "closeListen");
    const Abilities abilities = {A::kVersion >= 9, cell_.link != "iwarp", load_.largest};
    const typename Flow<A>::Shared shared = {source_, slab_, counts_, abilities};
    flows_.push_back(std::make_unique<Flow<A>>(shared, send, receive, dice_.next(), messages));
  }

  void transfer() {
    uint64_t fruitless = 0;
    for (std::size_t left = flows_.size(); left > 0;) {
      Flow<A>& flow = *flows_[dice_.below(flows_.size())];
      if (flow.finished()) {
        left = 0;
        for (const auto& each : flows_) left += each->finished() ? 0 : 1;
      } else if (flow.step(dice_)) {
        fruitless = 0;
      } else {
        if (++fruitless % 1024 == 0) sched_yield();  // an engine may need the processor
        if (fruitless > kPatience) throw Wrong{"nothing moves any more"};
      }
    }
  }

  const Cell& cell_;
  const Load load_;
  softdev::Random dice_;
  Counts& counts_;
  Pages source_;
  Slab slab_;
  void* contexts_[2] = {};
  int devices_ = 0;  // physical
  int fused_ = 0;
  int wide_ = 0;
  int narrow_ = 0;
  std::vector<std::unique_ptr<Flow<A>>> flows_;
};

template <int V>
bool runVersion(const Cell& cell, uint64_t seed, const Load& load, Counts& counts) {
  const std::string environment = setEnvironment(cell, seed);
  std::unique_ptr<CellRun<Api<V>>> cell_run;
  try {
    cell_run = std::make_unique<CellRun<Api<V>>>(cell, seed, load, counts);
    cell_run->run();
    return true;
  } catch (const Wrong& wrong) {
    std::printf(
        "WRONG: %s\n%s%s  again: plugin_random_transfers --cell %s --cell-seed %llu --messages %llu "
        "--largest %llu\n  %s\n",
        wrong.what.c_str(), cell_run != nullptr ? cell_run->state().c_str() : "", warnings().c_str(),
        cellName(cell).c_str(), static_cast<unsigned long long>(seed),
        static_cast<unsigned long long>(load.messages), static_cast<unsigned long long>(load.largest),
        environment.c_str());
    std::fflush(stdout);
    (void)cell_run.release();  // something may still write into its memory
  }
  return false;
}

}  // namespace

bool runCell(const Cell& cell, uint64_t seed, const Load& load, Counts& counts) {
  switch (cell.version) {
    case 6:
      return runVersion<6>(cell, seed, load, counts);
    case 7:
      return runVersion<7>(cell, seed, load, counts);
    case 8:
      return runVersion<8>(cell, seed, load, counts);
    case 9:
      return runVersion<9>(cell, seed, load, counts);
    case 10:
      return runVersion<10>(cell, seed, load, counts);
    case 11:
      return runVersion<11>(cell, seed, load, counts);
    default:
      return runVersion<12>(cell, seed, load, counts);
  }
}

}  // namespace railwise::test
