// The versions of NCCL's one-sided tables behind one shape, so that one typed suite runs over all of them:
// ncclRmaPlugin_v13 to _v16, and ncclGinPlugin_v11, whose collComm is its only context. And groups of ranks
// that are all in this process.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "api.h"
#include "nccl/gin_v11.h"
#include "nccl/rma_v13.h"
#include "nccl/rma_v14.h"
#include "nccl/rma_v15.h"
#include "nccl/rma_v16.h"

namespace railwise::test {

template <int V>
struct RmaAbi;
template <>
struct RmaAbi<11> {
  using Table = ncclGin_v11_t;
  using Properties = ncclNetProperties_v11_t;
};
template <>
struct RmaAbi<13> {
  using Table = ncclRma_v13_t;
  using Properties = ncclNetProperties_v12_t;
};
template <>
struct RmaAbi<14> {
  using Table = ncclRma_v14_t;
  using Properties = ncclNetProperties_v12_t;
};
template <>
struct RmaAbi<15> {
  using Table = ncclRma_v15_t;
  using Properties = ncclNetProperties_v12_t;
};
template <>
struct RmaAbi<16> {
  using Table = ncclRma_v16_t;
  using Properties = ncclNetProperties_v12_t;
};

// A place in a window.
struct Place {
  void* window = nullptr;
  uint64_t offset = 0;
};

struct Signal {
  Place at;
  uint64_t value = 1;
  uint32_t operation = NCCL_NET_SIGNAL_OP_ADD;
};

template <int V>
class RmaApi {
 public:
  static constexpr int kVersion = V;
  static constexpr bool kGin = V == 11;
  // What the requests of one context and rank may number.
  static constexpr int kOutstanding = NCCL_NET_MAX_REQUESTS * 8;
  using Table = typename RmaAbi<V>::Table;
  using Properties = typename RmaAbi<V>::Properties;

  static const Table& table() {
    static const Table& found = lookUp();
    return found;
  }

  static ncclResult_t init(void** context) { return table().init(context, 42, keepLog); }

  static ncclResult_t createContext(void* group, int contexts, void** context) {
    if constexpr (kGin) {
      *context = group;
      return ncclSuccess;
    } else if constexpr (V == 13) {
      ncclGinConfig_v13_t config = {.nContexts = contexts, .trafficClass = -1};
      ncclNetDeviceHandle_v11_t* device = static_cast<ncclNetDeviceHandle_v11_t*>(kStale);
      const ncclResult_t result = table().createContext(group, &config, context, &device);
      EXPECT_EQ(device, nullptr);
      return result;
    } else {
      ncclRmaConfig_v14_t config = {.nContexts = contexts, .trafficClass = -1, .rankStride = 1};
      return table().createContext(group, &config, context);
    }
  }

  static ncclResult_t destroyContext([[maybe_unused]] void* context) {
    if constexpr (kGin) return ncclSuccess;
    else return table().destroyContext(context);
  }

  static ncclResult_t regMrSym(void* group, void* data, size_t bytes, void** window, uint64_t flags = 0,
                               int type = NCCL_PTR_HOST) {
    if constexpr (V <= 13) {
      void* gin = kStale;
      const ncclResult_t result = table().regMrSym(group, data, bytes, type, flags, window, &gin);
      EXPECT_EQ(gin, result == ncclSuccess ? *window : nullptr);
      return result;
    } else {
      return table().regMrSym(group, data, bytes, type, flags, window);
    }
  }

  static ncclResult_t regMrSymDmaBuf(void* group, void* data, size_t bytes, uint64_t offset, int fd,
                                     void** window, uint64_t flags = 0) {
    if constexpr (V <= 13)
      return table().regMrSymDmaBuf(group, data, bytes, NCCL_PTR_CUDA, offset, fd, flags, window, nullptr);
    else return table().regMrSymDmaBuf(group, data, bytes, NCCL_PTR_CUDA, offset, fd, flags, window);
  }

  static ncclResult_t put(void* context, int index, const Place& from, size_t bytes, const Place& to,
                          int rank, void** request, [[maybe_unused]] uint32_t flags = 0) {
    const auto target = static_cast<uint32_t>(rank);
    if constexpr (kGin)
      return table().iput(context, from.offset, from.window, bytes, to.offset, to.window, target, request);
    else if constexpr (V >= 15)
      return table().iput(context, index, from.offset, from.window, bytes, to.offset, to.window, target,
                          flags, request);
    else
      return table().iput(context, index, from.offset, from.window, bytes, to.offset, to.window, target,
                          request);
  }

  static ncclResult_t putSignal(void* context, int index, const Place& from, size_t bytes, const Place& to,
                                int rank, const Signal& signal, void** request,
                                [[maybe_unused]] uint32_t flags = 0) {
    const auto target = static_cast<uint32_t>(rank);
    if constexpr (kGin)
      return table().iputSignal(context, from.offset, from.window, bytes, to.offset, to.window, target,
                                signal.at.offset, signal.at.window, signal.value, signal.operation, request);
    else if constexpr (V == 13)
      return table().iputSignal(context, index, from.offset, from.window, bytes, to.offset, to.window, target,
                                signal.at.offset, signal.at.window, signal.value, signal.operation, request);
    else if constexpr (V == 14)
      return table().iputSignal(context, index, from.offset, from.window, bytes, to.offset, to.window, target,
                                signal.at.offset, signal.at.window, signal.value, signal.operation, true,
                                request);
    else
      return table().iputSignal(context, index, from.offset, from.window, bytes, to.offset, to.window, target,
                                signal.at.offset, signal.at.window, signal.value, signal.operation, true,
                                flags, request);
  }

  static ncclResult_t get(void* context, int index, const Place& from, size_t bytes, const Place& to,
                          int rank, void** request) {
    const auto target = static_cast<uint32_t>(rank);
    if constexpr (V >= 15)
      return table().iget(context, index, from.offset, from.window, bytes, to.offset, to.window, target, 0,
                          request);
    else
      return table().iget(context, index, from.offset, from.window, bytes, to.offset, to.window, target,
                          request);
  }

  static ncclResult_t progress(void* context) {
    if constexpr (V <= 13) return table().ginProgress(context);
    else return table().rmaProgress(context);
  }

 private:
  static const Table& lookUp() {
    const std::string symbol = (kGin ? "ncclGinPlugin_v" : "ncclRmaPlugin_v") + std::to_string(V);
    const void* found = dlsym(openPlugin(), symbol.c_str());
    EXPECT_NE(found, nullptr) << symbol;
    return *static_cast<const Table*>(found);
  }
};

using AllRmaVersions = testing::Types<RmaApi<11>, RmaApi<13>, RmaApi<14>, RmaApi<15>, RmaApi<16>>;
// Those with contexts, gets and flushes.
using ContextRmaVersions = testing::Types<RmaApi<13>, RmaApi<14>, RmaApi<15>, RmaApi<16>>;

// What connect() gets as its context: NCCL passes another network's. Whoever looks at it dies.
inline void* foreignContext() {
  static void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page;
}

// A rank's part of a window, which the rank's thread may read while signals arrive.
class WindowPart {
 public:
  WindowPart(size_t bytes, int seed) : words_((bytes + 7) / 8 + 1) {
    for (size_t i = 0; i < bytes; ++i) data()[i] = pattern(seed, i);
  }
  static char pattern(int seed, size_t i) {
    return static_cast<char>(i * 31 + (i >> 8) * 7 + static_cast<size_t>(seed) * 13);
  }
  char* data() { return reinterpret_cast<char*>(words_.data()); }
  // How many of `count` bytes from `at` on differ from the pattern of `seed` from `from` on.
  size_t wrong(int seed, size_t count, size_t at = 0, size_t from = 0) {
    size_t found = 0;
    for (size_t i = 0; i < count; ++i) found += data()[at + i] != pattern(seed, from + i);
    return found;
  }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }
  uint64_t signal(size_t number) { return std::atomic_ref(words_[number]).load(std::memory_order_acquire); }

  void* window = nullptr;  // NCCL's mhandle

 private:
  std::vector<uint64_t> words_;
};

// A rank of a group: it has a context, a listener, a group and an rmaCtx of its own, as a process has.
template <typename A>
class RmaRank {
 public:
  RmaRank() { EXPECT_EQ(A::init(&net_), ncclSuccess) << warnings(); }
  ~RmaRank() { end(); }
  RmaRank(const RmaRank&) = delete;
  RmaRank& operator=(const RmaRank&) = delete;

  void listen(Handle& handle, int device = 0) {
    ASSERT_EQ(A::table().listen(net_, device, handle.bytes(), &listener_), ncclSuccess) << warnings();
    ASSERT_NE(listener_, nullptr);
  }

  void connect(std::vector<void*> handles, int rank, int contexts = 1) {
    ASSERT_EQ(A::table().connect(foreignContext(), handles.data(), static_cast<int>(handles.size()), rank,
                                 listener_, &group_),
              ncclSuccess)
        << warnings();
    ASSERT_NE(group_, nullptr);
    EXPECT_EQ(A::table().closeListen(listener_), ncclSuccess);  // as NCCL does, at once
    listener_ = nullptr;
    ASSERT_EQ(A::createContext(group_, contexts, &context_), ncclSuccess) << warnings();
    ASSERT_NE(context_, nullptr);
  }

  // Registers this rank's part of the next window.
  void add(size_t bytes, int seed, uint64_t flags = 0) {
    auto& part = parts_.emplace_back(std::make_unique<WindowPart>(bytes, seed));
    ASSERT_EQ(A::regMrSym(group_, part->data(), bytes, &part->window, flags), ncclSuccess) << warnings();
    ASSERT_NE(part->window, nullptr);
  }

  // In NCCL's order.
  void end() {
    if (net_ == nullptr) return;
    if (context_ != nullptr) EXPECT_EQ(A::destroyContext(context_), ncclSuccess) << warnings();
    for (auto& part : parts_)
      EXPECT_EQ(A::table().deregMrSym(group_, part->window), ncclSuccess) << warnings();
    parts_.clear();
    EXPECT_EQ(A::table().closeColl(group_), ncclSuccess) << warnings();
    EXPECT_EQ(A::table().closeListen(listener_), ncclSuccess) << warnings();
    EXPECT_EQ(A::table().finalize(net_), ncclSuccess);
    net_ = listener_ = group_ = context_ = nullptr;
  }

  void progress() { ASSERT_EQ(A::progress(context_), ncclSuccess) << warnings(); }
  bool done(void* request) {
    int done = kUnwritten;
    EXPECT_EQ(A::table().test(group_, request, &done), ncclSuccess) << warnings();
    EXPECT_TRUE(done == 0 || done == 1) << done;
    return done != 0 || testing::Test::HasFailure();
  }

  // Begins a put, with a signal if there is one; returns its request.
  void* put(int window, uint64_t from, size_t bytes, uint64_t to, int rank, const Signal* signal = nullptr,
            int index = 0, uint32_t flags = 0) {
    void* request = kStale;
    void* const memory = part(window).window;
    const ncclResult_t result = signal != nullptr ? A::putSignal(context_, index, {memory, from}, bytes,
                                                                 {memory, to}, rank, *signal, &request, flags)
                                                  : A::put(context_, index, {memory, from}, bytes,
                                                           {memory, to}, rank, &request, flags);
    EXPECT_EQ(result, ncclSuccess) << warnings();
    EXPECT_NE(request, kStale);
    EXPECT_NE(request, nullptr) << "null is an error to NCCL";
    return request;
  }
  // A signal without data.
  void* signal(const Signal& signal, int rank, int index = 0) {
    void* request = kStale;
    EXPECT_EQ(A::putSignal(context_, index, {}, 0, {}, rank, signal, &request), ncclSuccess) << warnings();
    EXPECT_NE(request, nullptr) << "null is an error to NCCL";
    return request;
  }

  void* net() const { return net_; }
  void* group() const { return group_; }
  void* context() const { return context_; }
  void* listener() const { return listener_; }
  WindowPart& part(int window) { return *parts_[static_cast<size_t>(window)]; }

 private:
  void* net_ = nullptr;
  void* listener_ = nullptr;
  void* group_ = nullptr;
  void* context_ = nullptr;
  std::vector<std::unique_ptr<WindowPart>> parts_;
};

// Ranks in this process. One thread drives all of them.
template <typename A>
class RmaRanks {
 public:
  explicit RmaRanks(int count, int contexts = 1) : RmaRanks(count, contexts, std::vector<int>()) {}
  // `devices`: of each rank; empty: all have device 0.
  RmaRanks(int count, int contexts, const std::vector<int>& devices) {
    std::vector<Handle> handles(static_cast<size_t>(count));
    std::vector<void*> bytes;
    for (Handle& handle : handles) bytes.push_back(handle.bytes());
    for (int i = 0; i < count; ++i) {
      ranks_.push_back(std::make_unique<RmaRank<A>>());
      (*this)[i].listen(handles[static_cast<size_t>(i)],
                        devices.empty() ? 0 : devices[static_cast<size_t>(i)]);
    }
    for (int i = 0; i < count; ++i) (*this)[i].connect(bytes, i, contexts);
  }

  // A window of equal parts. The seed of a rank's part is its number.
  int add(size_t bytes, uint64_t flags = 0) {
    for (int i = 0; i < size(); ++i) (*this)[i].add(bytes, i, flags);
    return windows_++;
  }
  int add(const std::vector<size_t>& bytes, uint64_t flags = 0) {
    for (int i = 0; i < size(); ++i) (*this)[i].add(bytes[static_cast<size_t>(i)], i, flags);
    return windows_++;
  }
  // A window of signals, all 0, that nobody resets.
  int addSignals(size_t count) {
    for (int i = 0; i < size(); ++i) {
      (*this)[i].add(count * 8, i, NCCL_NET_MR_FLAG_FORCE_SO | NCCL_NET_MR_FLAG_SIGNAL_NEVER_RESET);
      (*this)[i].part(windows_).clear();
    }
    return windows_++;
  }
  // Signal `number` of the window, as rank `source` names it.
  Signal signalOf(int source, int window, size_t number, uint64_t value = 1,
                  uint32_t operation = NCCL_NET_SIGNAL_OP_ADD) {
    return {{(*this)[source].part(window).window, 8 * number}, value, operation};
  }

  void progress() {
    for (auto& rank : ranks_) rank->progress();
  }
  void finish(int rank, void* request) {
    if (testing::Test::HasFailure()) return;
    for (Patience patience; !(*this)[rank].done(request); patience.again()) progress();
  }
  // Waits until the signal is at least `value`, and then a while: more must not come.
  void expectSignal(int rank, int window, size_t number, uint64_t value) {
    if (testing::Test::HasFailure()) return;
    WindowPart& part = (*this)[rank].part(window);
    for (Patience patience; part.signal(number) < value; patience.again()) progress();
    for (int i = 0; i < 200; ++i) progress();
    EXPECT_EQ(part.signal(number), value) << "rank " << rank << ", signal " << number;
  }

  RmaRank<A>& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks_.size()); }

 private:
  std::vector<std::unique_ptr<RmaRank<A>>> ranks_;
  int windows_ = 0;
};

}  // namespace railwise::test
