// The load of one-sided communication: a group of ranks in this process, each with its own context of the
// plugin. The first rank puts to all others, or gets from them, as the progress threads of NCCL 2.30.7 do.
#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <thread>

#include "benchmarks/bench/load/load.h"
#include "cli/options/message.h"
#include "cli/plugin/rma_api.h"

static bool progressAll(railwise::cli::RmaApi& api, const std::vector<void*>& contexts) {
  bool right = true;
  for (void* const context : contexts) right &= api.progress(context) == ncclSuccess;
  return right;
}

// callgrind finds this function by its name. Only runs that are counted call it.
extern "C" [[gnu::noinline]] bool railwiseBenchTargets(railwise::cli::RmaApi* api,
                                                       const std::vector<void*>* contexts) {
  return progressAll(*api, *contexts);
}

namespace railwise::cli {
namespace {

constexpr std::size_t kMostMemory = 64 << 20;  // of the first rank; large puts share places

// A rank of the group. Functions that return false leave the reason in error().
class OneSidedRank {
 public:
  OneSidedRank(RmaApi& api, int number, int device)
      : api_(api.another()), number_(number), device_(device), member_(*api_) {}

  bool listen(void* handle) {
    return check("init", api_->init(1, pluginLogger)) && member_.listen(device_, handle);
  }
  // Blocks until all ranks of the group call it.
  bool join(std::vector<void*> handles, std::size_t bytes) {
    data_ = allocatePages(bytes);
    signal_ = allocatePages(kPage);
    if (data_ == nullptr || signal_ == nullptr) return fail(textOf("no memory for %zu bytes", bytes));
    if (!member_.join(handles, number_)) return false;
    data_window_ = member_.add(data_.get(), bytes, 0);
    signal_window_ = member_.add(signal_.get(), kPage, kRmaSignalFlags);
    return data_window_ != nullptr && signal_window_ != nullptr;
  }
  // In NCCL's order.
  bool close() { return member_.close() && check("finalize", api_->finalize()); }

  bool progress() { return member_.progress(); }
  void* post(RmaKind kind, std::size_t bytes, uint64_t from, uint64_t to, uint32_t rank) {
    return member_.post(kind, {data_window_, from}, bytes, {data_window_, to}, rank, {{signal_window_, 0}});
  }
  bool test(void* request) { return member_.test(request); }

  std::byte* data() { return data_.get(); }
  // The first rank signals.
  uint64_t signal() {
    return std::atomic_ref(*reinterpret_cast<uint64_t*>(signal_.get())).load(std::memory_order_acquire);
  }
  void* context() const { return member_.context(); }
  bool failed() const { return member_.failed() || !error_.empty(); }
  std::string error() const { return error_.empty() ? member_.error() : error_; }

 private:
  bool check(const char* call, ncclResult_t result) {
    return result == ncclSuccess || fail(textOf("%s failed: %s", call, resultText(result).c_str()));
  }
  bool fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }

  const std::unique_ptr<RmaApi> api_;
  const int number_;
  const int device_;
  RmaMember member_;
  void* data_window_ = nullptr;
  void* signal_window_ = nullptr;
  PageMemory data_;
  PageMemory signal_;
  std::string error_;
};

// What the first rank does with another rank.
class OneSidedPeer {
 public:
  // `from`: where the places of this peer begin in the first rank's data.
  OneSidedPeer(OneSidedRank& first, OneSidedRank& other, uint32_t rank, const BenchShape& shape,
               uint64_t places, uint64_t from)
      : first_(first),
        other_(other),
        rank_(rank),
        shape_(shape),
        places_(places),
        window_(static_cast<uint64_t>(shape.window)),
        steps_(static_cast<uint64_t>(shape.steps)),
        from_(from),
        requests_(window_) {}

  void begin(uint64_t messages, bool verify) {
    end_ = posted_ + messages;
    verify_ = verify;
    // A place that is checked takes no message before that.
    most_ = verify ? std::min(window_, places_) : window_;
    verified_ = posted_;
  }
  // All operations are done, and all signals are there.
  bool over() const { return done_ == end_ && other_.signal() == signals_; }
  bool tooManySignals() const { return other_.signal() > signals_; }

  // Posts one operation if the window has room.
  bool post() {
    if (posted_ == end_ || posted_ - (verify_ ? verified_ : done_) >= most_) return false;
    const uint64_t place = post_place_ * stride(shape_);
    std::byte* const filled =
        shape_.pattern == BenchPattern::kGet ? other_.data() + place : first_.data() + from_ + place;
    for (std::size_t i = 0; verify_ && i < shape_.size; ++i) filled[i] = checkedByte(posted_, i);
    const bool signals =
        shape_.pattern != BenchPattern::kGet && (shape_.pattern != BenchPattern::kGin || ++step_ == steps_);
    if (signals) step_ = 0;
    const RmaKind kind = shape_.pattern == BenchPattern::kGet ? RmaKind::kGet
                         : signals                            ? RmaKind::kPutSignal
                                                              : RmaKind::kPut;
    void* const request = first_.post(kind, shape_.size, from_ + place, place, rank_);
    if (request == nullptr) return false;
    requests_[post_slot_] = request;
    ++posted_;
    signals_ += signals;
    advanceSlot(post_slot_, 1, window_);
    advanceSlot(post_place_, 1, places_);
    return true;
  }
  // Tests the oldest operation.
  bool testOldest() {
    if (done_ == posted_ || !first_.test(requests_[test_slot_])) return false;
    ++done_;
    advanceSlot(test_slot_, 1, window_);
    return true;
  }
  // Tests all operations that are under way.
  bool testAll() {
    bool any = false;
    uint64_t slot = test_slot_;
    for (uint64_t i = done_; i < posted_; ++i) {
      void*& request = requests_[slot];
      if (request != nullptr && first_.test(request)) request = nullptr;
      if (request == nullptr && i == done_) {
        any = true;
        ++done_;
        advanceSlot(test_slot_, 1, window_);
      }
      advanceSlot(slot, 1, window_);
    }
    return any;
  }

  // Checks what has arrived; empty: it is right.
  std::string verify() {
    // The last message of an operation has the signal.
    const uint64_t unit = shape_.pattern == BenchPattern::kGin ? steps_ : 1;
    const uint64_t arrived =
        shape_.pattern == BenchPattern::kGet ? done_ : std::min(other_.signal() * unit, posted_);
    for (; verified_ < arrived; ++verified_) {
      const uint64_t place = verified_ % places_ * stride(shape_);
      const std::byte* const data =
          shape_.pattern == BenchPattern::kGet ? first_.data() + from_ + place : other_.data() + place;
      for (std::size_t i = 0; i < shape_.size; ++i) {
        if (data[i] != checkedByte(verified_, i))
          return textOf("wrong data: byte %zu of a message of %zu bytes", i, shape_.size);
      }
    }
    return "";
  }

  static std::size_t stride(const BenchShape& shape) {
    return roundUp(std::max<std::size_t>(shape.size, 1), kCacheLine);
  }

 private:
  OneSidedRank& first_;
  OneSidedRank& other_;
  const uint32_t rank_;
  const BenchShape shape_;
  const uint64_t places_;
  const uint64_t window_;
  const uint64_t steps_;
  const uint64_t from_;
  std::vector<void*> requests_;                                  // by slot
  uint64_t posted_ = 0, done_ = 0, verified_ = 0, signals_ = 0;  // since the beginning
  uint64_t end_ = 0;
  uint64_t post_slot_ = 0, test_slot_ = 0, post_place_ = 0, step_ = 0;
  uint64_t most_ = 0;
  bool verify_ = false;
};

class OneSided : public BenchLoad {
 public:
  explicit OneSided(BenchTask task) : task_(std::move(task)) {}

  bool start() override {
    settleDevices();
    auto loaded = loadRma(optionsOf(task_));
    if (!loaded.ok()) return fail(loaded.error());
    plugin_.emplace(std::move(*loaded));
    origin_ = originOf(*plugin_);
    return listenAll() && joinAll();
  }

  bool check() override { return move(roundUp(checkedMessages(task_), task_.shape.unit()), true); }

  std::optional<BenchRan> run(uint64_t messages) override {
    const BenchClock clock;
    if (!move(messages, false)) return std::nullopt;
    return clock.ran();
  }

  bool close() override {
    return std::all_of(ranks_.begin(), ranks_.end(), [](auto& rank) { return rank.close(); }) || failed();
  }

 private:
  bool failed() {
    for (const OneSidedRank& rank : ranks_) {
      if (rank.failed()) return fail(rank.error());
    }
    return false;
  }

  bool listenAll() {
    const BenchShape& shape = task_.shape;
    RmaApi& api = *plugin_->api;
    OneSidedRank& first = ranks_.emplace_back(api, 0, task_.device);
    handles_.resize(static_cast<std::size_t>(shape.connections) + 1);
    if (!first.listen(handles_[0].bytes)) return failed();
    if (const char* const missing = api.missingFunction())
      return fail(textOf("the plugin has no %s", missing));
    int devices = 0;
    NetProperties properties;
    if (api.devices(&devices) != ncclSuccess || devices <= task_.device ||
        api.getProperties(task_.device, &properties) != ncclSuccess)
      return fail(textOf("the plugin has %d devices: no device %d", devices, task_.device));
    const int most = NCCL_NET_MAX_REQUESTS * properties.max_recvs;
    if (shape.window > most) return fail(textOf("the plugin takes %d operations at once", most));
    // The other ranks have a device of their own, so that it counts for itself.
    const int other = std::min(task_.device + 1, devices - 1);
    for (int i = 1; i <= shape.connections; ++i) {
      OneSidedRank& rank = ranks_.emplace_back(api, i, other);
      if (!rank.listen(handles_[static_cast<std::size_t>(i)].bytes)) return failed();
    }
    return true;
  }

  // Connecting blocks, so each rank has a thread for it.
  bool joinAll() {
    const BenchShape& shape = task_.shape;
    const std::size_t stride = OneSidedPeer::stride(shape);
    const auto peers = static_cast<std::size_t>(shape.connections);
    const std::size_t places =
        std::clamp<std::size_t>(kMostMemory / (stride * peers), static_cast<std::size_t>(shape.steps),
                                static_cast<std::size_t>(shape.window));
    std::vector<void*> handles;
    for (Handle& handle : handles_) handles.push_back(handle.bytes);
    std::vector<std::thread> threads;
    std::atomic<bool> right = true;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      threads.emplace_back([&, i] {
        if (!ranks_[i].join(handles, places * stride * (i == 0 ? peers : 1))) right = false;
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (!right) return failed();
    for (std::size_t i = 0; i < peers; ++i) {
      peers_.emplace_back(ranks_[0], ranks_[i + 1], static_cast<uint32_t>(i + 1), shape, places,
                          i * places * stride);
      targets_.push_back(ranks_[i + 1].context());
    }
    return true;
  }

  // One pass of the first rank's thread. False: nothing moved.
  bool pass() {
    bool moved = false;
    (void)ranks_[0].progress();
    switch (task_.shape.pattern) {
      case BenchPattern::kPutSignal:
        for (OneSidedPeer& peer : peers_) {
          while (peer.testOldest()) moved = true;
          while (peer.post()) moved = true;
        }
        break;
      case BenchPattern::kGroup:
        for (OneSidedPeer& peer : peers_) moved |= peer.testAll();
        for (OneSidedPeer& peer : peers_) {
          while (peer.post()) moved = true;
        }
        break;
      default:
        for (OneSidedPeer& peer : peers_) moved |= peer.testAll();
        for (OneSidedPeer& peer : peers_) moved |= peer.post();
    }
    return moved;
  }

  // `messages`: with each peer.
  bool moveAll(uint64_t messages, bool verify) {
    for (OneSidedPeer& peer : peers_) peer.begin(messages, verify);
    Patience patience;
    for (bool over = false; !over;) {
      const bool moved = pass();
      if (!moved) std::this_thread::yield();  // as NCCL's threads do: threads of the plugin may have work
      RmaApi& api = *plugin_->api;
      if (!(counted_ ? railwiseBenchTargets(&api, &targets_) : progressAll(api, targets_)))
        return fail("rmaProgress failed at a rank that is put to");
      if (ranks_[0].failed()) return failed();
      for (OneSidedPeer& peer : peers_) {
        if (!verify) break;
        if (const std::string wrong = peer.verify(); !wrong.empty()) return fail(wrong);
      }
      over = std::all_of(peers_.begin(), peers_.end(), [](auto& peer) { return peer.over(); });
      if (!over && patience.lost(moved)) return fail("nothing moves any more");
    }
    return true;
  }

  // A group is complete on all peers before the next one begins.
  bool move(uint64_t messages, bool verify) {
    const uint64_t of_each = messages / peers_.size();
    const uint64_t length =
        task_.shape.pattern == BenchPattern::kGroup ? static_cast<uint64_t>(task_.shape.steps) : of_each;
    for (uint64_t moved = 0; moved < of_each; moved += length) {
      if (!moveAll(length, verify)) return false;
    }
    for (OneSidedPeer& peer : peers_) {
      if (peer.tooManySignals()) return fail("more signals than were sent");
    }
    return true;
  }

  struct Handle {
    alignas(8) char bytes[NCCL_NET_HANDLE_MAXSIZE] = {};
  };

  BenchTask task_;
  std::optional<LoadedRma> plugin_;
  std::vector<Handle> handles_;
  std::deque<OneSidedRank> ranks_;
  std::deque<OneSidedPeer> peers_;
  std::vector<void*> targets_;  // the contexts of the ranks that are put to
};

}  // namespace

std::unique_ptr<BenchLoad> makeOneSided(const BenchTask& task) { return std::make_unique<OneSided>(task); }

}  // namespace railwise::cli
