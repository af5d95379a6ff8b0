// The same for one-sided communication: two ranks of a group that put, signal and get, while a port goes down
// and comes up again.
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "plugin/rma_api.h"
#include "plugin/shortages/life.h"
#include "softdev/control/control.h"
#include "softdev/engine/attachment.h"

namespace railwise::test {
namespace {

using A = RmaApi<16>;

constexpr auto kPathBack = std::chrono::milliseconds(500);
constexpr std::size_t kBytes = 100'000;
constexpr std::size_t kSizes[] = {8, 0, kBytes};

// Of the first device, if the plugin has it.
void changeFirstPort(const std::string& change) {
  const auto fabric = softdev::joinFabric("test" + std::to_string(getpid()));
  if (!fabric.ok()) return;
  const auto ports = softdev::findPorts(**fabric, "soft0:1");
  if (ports.ok() && ports->size() == 1) (void)softdev::changePort(**fabric, ports->front(), change);
  softdev::detachFabric(*fabric);
}

class OneSidedLife : Living {
 public:
  Life run() {
    try {
      for (Rank& rank : ranks_) listen(rank);
      for (int i = 0; i < kRanks; ++i) connect(i);
      for (Rank& rank : ranks_) registerMemory(rank);
      for (round_ = 0; round_ < 3; ++round_) {
        if (round_ == 1) changeFirstPort("down");
        for (int from = 0; from < kRanks; ++from) exchange(from);
        if (round_ == 1) changeFirstPort("up");
      }
    } catch (const Failure&) {
    }
    changeFirstPort("up");
    end();
    return life_;
  }

 private:
  static constexpr int kRanks = 2;
  // Of a rank's memory: what it puts, what is put to it, what it reads.
  struct Rank {
    void* net = nullptr;
    void* listener = nullptr;
    void* group = nullptr;
    void* context = nullptr;
    Handle handle;
    std::vector<char> data = std::vector<char>(3 * kBytes);
    std::vector<uint64_t> signals = std::vector<uint64_t>(kRanks);
    void* data_window = nullptr;
    void* signal_window = nullptr;
    uint64_t put = 0;  // signals
  };

  void listen(Rank& rank) {
    call("init", A::init(&rank.net));
    if (device_ < 0) {
      int count = 0;
      call("devices", A::table().devices(&count));
      A::Properties properties;
      call("getProperties", A::table().getProperties(0, &properties));
      signal_kind_ = (properties.ptrSupport & NCCL_PTR_CUDA) != 0 ? NCCL_PTR_CUDA : NCCL_PTR_HOST;
      device_ = 0;
    }
    call("listen", A::table().listen(rank.net, device_, rank.handle.bytes(), &rank.listener));
  }
  void connect(int number) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    void* handles[kRanks];
    for (std::size_t i = 0; i < kRanks; ++i) handles[i] = ranks_[i].handle.bytes();
    call("connect", A::table().connect(nullptr, handles, kRanks, number, rank.listener, &rank.group));
    call("createContext", A::createContext(rank.group, 1, &rank.context));
  }
  void registerMemory(Rank& rank) {
    call("regMrSym", A::regMrSym(rank.group, rank.data.data(), rank.data.size(), &rank.data_window));
    call("regMrSym", A::regMrSym(rank.group, rank.signals.data(), rank.signals.size() * sizeof(uint64_t),
                                 &rank.signal_window, NCCL_NET_MR_FLAG_FORCE_SO, signal_kind_));
  }

  // Rank `from` puts to the other one, and reads back what it has put.
  void exchange(int from) {
    Rank& rank = ranks_[static_cast<std::size_t>(from)];
    const int to = 1 - from;
    Rank& other = ranks_[static_cast<std::size_t>(to)];
    int number = 0;
    for (const std::size_t bytes : kSizes) {
      const int seed = 10 * round_ + number++;
      for (std::size_t i = 0; i < bytes; ++i) rank.data[i] = WindowPart::pattern(seed, i);
      const Place source = {rank.data_window, 0}, target = {rank.data_window, kBytes};
      const std::size_t half = bytes / 2;
      if (half > 0)
        finish(rank, "iput",
               [&](void** request) { return A::put(rank.context, 0, source, half, target, to, request); });
      const Signal signal = {{rank.signal_window, static_cast<uint64_t>(from) * 8}, 3};
      finish(rank, "iputSignal", [&](void** request) {
        return A::putSignal(rank.context, 0, {source.window, half}, bytes - half,
                            {target.window, kBytes + half}, to, signal, request);
      });
      rank.put += 3;
      until("a signal", [&] {
        return __atomic_load_n(&other.signals[static_cast<std::size_t>(from)], __ATOMIC_ACQUIRE) >= rank.put;
      });
      if (other.signals[static_cast<std::size_t>(from)] != rank.put) wrong("a signal is wrong");
      if (bytes > 0)
        finish(rank, "iget", [&](void** request) {
          return A::get(rank.context, 0, target, bytes, {rank.data_window, 2 * kBytes}, to, request);
        });
      finish(other, "iflush", [&](void** request) {
        return A::table().iflush(other.context, 0, other.data_window, static_cast<uint32_t>(from), request);
      });
      for (std::size_t i = 0; i < bytes; ++i) {
        if (other.data[kBytes + i] != WindowPart::pattern(seed, i)) wrong("a byte that was put is wrong");
        if (rank.data[2 * kBytes + i] != WindowPart::pattern(seed, i)) wrong("a byte that was read is wrong");
      }
    }
  }
  template <typename Start>
  void finish(Rank& rank, const char* name, const Start& start) {
    void* request = nullptr;
    call(name, start(&request));
    if (request == nullptr) return;  // a flush of nothing
    int done = 0;
    until(name, [&] {
      call("test", A::table().test(rank.group, request, &done));
      return done != 0;
    });
  }
  void until(const char* what, const std::function<bool()>& done) {
    const auto begun = Clock::now();
    const auto limit = begun + kPatience;
    bool waits = true;
    while (!done()) {
      if (waits && Clock::now() > begun + kPathBack) {  // the other device may be missing for want of memory
        changeFirstPort("up");
        waits = false;
      }
      for (Rank& rank : ranks_) call("rmaProgress", A::progress(rank.context));
      if (Clock::now() > limit) wrong(std::string("no error and no end: ") + what);
    }
  }

  void end() {
    for (Rank& rank : ranks_) {
      if (rank.context != nullptr) must("destroyContext", A::destroyContext(rank.context));
      for (void* const window : {rank.data_window, rank.signal_window}) {
        if (window != nullptr) must("deregMrSym", A::table().deregMrSym(rank.group, window));
      }
      if (rank.group != nullptr) must("closeColl", A::table().closeColl(rank.group));
      if (rank.listener != nullptr) must("closeListen", A::table().closeListen(rank.listener));
      if (rank.net != nullptr) must("finalize", A::table().finalize(rank.net));
    }
  }

  int device_ = -1;
  int signal_kind_ = NCCL_PTR_HOST;
  int round_ = 0;
  std::array<Rank, kRanks> ranks_;
};

}  // namespace

Life liveOneSided() { return OneSidedLife().run(); }

}  // namespace railwise::test
