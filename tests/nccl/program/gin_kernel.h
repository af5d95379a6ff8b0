// What a kernel does with GIN, NCCL's communication from within kernels, done by the CPU: it puts operations
// into the queues of NCCL's GIN proxy and looks at signals and counters.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "communicator.h"

// Only on the software GPU, whose memory the CPU can reach: the kernel is made of NCCL's own device code (see
// ../library). Releases before 2.29.7 have another GIN.
#if defined(SOFTWARE_GPU) && NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
#define HAS_GIN_KERNEL 1
// What the releases have.
#define GIN_HAS_GET (NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 3))
#define GIN_HAS_WEAK_SIGNALS (NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 7))

// A place in a window, of one's own or of a peer.
struct GinPlace {
  ncclWindow_t window = nullptr;
  std::size_t offset = 0;
};

// What happens at the peer once the data are there.
struct GinSignal {
  enum class Action { kNone, kIncrement, kAdd };
  Action action = Action::kNone;
  uint64_t value = 1;
  uint32_t index = 0;
  // A strong signal says that all earlier puts of its context to that peer are there, too. Releases without
  // weak signals make a strong one.
  bool strong = true;
  // Where not the signal `index` but a word of a window counts ("VA signal").
  GinPlace word = {};
};

inline GinSignal ginAdd(uint64_t value, uint32_t index = 0) {
  return {GinSignal::Action::kAdd, value, index, true, {}};
}
inline GinSignal ginIncrement(uint32_t index = 0) {
  return {GinSignal::Action::kIncrement, 1, index, true, {}};
}
inline GinSignal weak(GinSignal signal) {
  signal.strong = false;
  return signal;
}
inline GinSignal atWord(GinSignal signal, GinPlace word) {
  signal.word = word;
  return signal;
}

constexpr int kNoGinCounter = -1;

// Collective: all ranks of the communicator make one, and end it before the communicator. Signals and
// counters are so many in each context.
class GinKernel {
 public:
  struct Needs {
    int signals = 1;
    int counters = 1;
    int contexts = 1;
  };

  GinKernel(const Communicator& on, const Needs& needs);
  ~GinKernel();
  GinKernel(const GinKernel&) = delete;
  GinKernel& operator=(const GinKernel&) = delete;

  // Whether NCCL has its GIN proxy for this communicator.
  static bool isPossible(const Communicator& on);

  // They return once the operation is in the queue, and wait for room there.
  void put(int context, int peer, GinPlace to, GinPlace from, std::size_t bytes, const GinSignal& signal = {},
           int counter = kNoGinCounter) const;
  void signal(int context, int peer, const GinSignal& signal) const;
  // The low `bytes` of the value: 1, 2, 4 or 8.
  void putValue(int context, int peer, GinPlace to, uint64_t value, std::size_t bytes,
                const GinSignal& signal = {}) const;
#if GIN_HAS_GET
  // The data are there after a flush.
  void get(int context, int peer, GinPlace from, GinPlace to, std::size_t bytes) const;
#endif

  // Waits until everything that was put has left its source, and everything that was got is there.
  void flush(int context) const;

  uint64_t readSignal(int context, uint32_t index) const;
  uint64_t readCounter(int context, uint32_t index) const;
  // Nobody may add meanwhile.
  void resetSignal(int context, uint32_t index) const;
  void resetCounter(int context, uint32_t index) const;
  uint64_t readWord(GinPlace word) const;
  void resetWord(int context, GinPlace word) const;

  // How many operations a queue (of one context, to one peer) has room for.
  std::size_t queueEntries() const;

 private:
  struct Device;
  std::unique_ptr<Device> device_;
};

#endif
