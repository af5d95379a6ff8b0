// The seven versions of the net API behind one shape, so that one typed suite runs over all of them. Loads
// the built plugin with dlopen and dlsym, as NCCL does.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "logger.h"
#include "nccl/context_room.h"
#include "nccl/net_versions.h"
#include "tests/plugin/test_device.h"
#include "tests/wait.h"

namespace railwise::test {

// What a request must never keep when a call has written it.
inline void* const kStale = reinterpret_cast<void*>(0x5a5a5a5a);
inline constexpr int kUnwritten = 0x7a7a7a7a;

inline void* loadPlugin() {
  void* opened = dlopen(RAILWISE_PLUGIN_PATH, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  return opened;
}

inline void* openPlugin() {
  static void* const library = loadPlugin();
  return library;
}

template <int V>
class Api {
 public:
  static constexpr int kVersion = V;
  static constexpr bool kHasContext = V >= 11;
  using Net = typename Abi<V>::Net;
  using Properties = typename Abi<V>::Properties;

  // Looked up once: dlsym takes a lock of the loader, which would put threads in order.
  static const Net& table() {
    static const Net& found = table("ncclNetPlugin_v");
    return found;
  }
  static const Net& table(const char* prefix) {
    const std::string symbol = prefix + std::to_string(V);
    const void* found = dlsym(openPlugin(), symbol.c_str());
    EXPECT_NE(found, nullptr) << symbol;
    return *static_cast<const Net*>(found);
  }

  static ncclResult_t init(void** context) {
    if constexpr (V >= 11) {
      ncclNetCommConfig_v11_t config = {-1};
      return table().init(context, 42, &config, keepLog, nullptr);
    } else if constexpr (V >= 10) {
      return table().init(keepLog, nullptr);
    } else {
      return table().init(keepLog);
    }
  }

  static ncclResult_t finalize([[maybe_unused]] void* context) {
    if constexpr (V >= 11) return table().finalize(context);
    return ncclSuccess;
  }

  static ncclResult_t listen([[maybe_unused]] void* context, int device, void* handle, void** listener) {
    if constexpr (V >= 11) return table().listen(context, device, handle, listener);
    else return table().listen(device, handle, listener);
  }

  // Device handles null, as NCCL's out-of-band connections pass them; v10 with a config on the stack, or
  // null.
  static ncclResult_t connect([[maybe_unused]] void* context, int device, void* handle, void** send,
                              [[maybe_unused]] bool with_config = false) {
    if constexpr (V >= 11) {
      return table().connect(context, device, handle, send, nullptr);
    } else if constexpr (V == 10) {
      ncclNetCommConfig_v10_t config = {3};
      return table().connect(device, with_config ? &config : nullptr, handle, send, nullptr);
    } else if constexpr (V >= 7) {
      return table().connect(device, handle, send, nullptr);
    } else {
      return table().connect(device, handle, send);
    }
  }

  static ncclResult_t accept(void* listener, void** receive) {
    if constexpr (V >= 7) return table().accept(listener, receive, nullptr);
    else return table().accept(listener, receive);
  }

  static ncclResult_t regMr(void* comm, void* data, size_t bytes, void** handle, int type = NCCL_PTR_HOST) {
    if constexpr (V >= 8) return table().regMr(comm, data, bytes, type, handle);
    else return table().regMr(comm, data, static_cast<int>(bytes), type, handle);
  }

  static ncclResult_t isend(void* send, void* data, size_t bytes, int tag, void* handle, void** request) {
    if constexpr (V >= 10) return table().isend(send, data, bytes, tag, handle, nullptr, request);
    else if constexpr (V >= 9) return table().isend(send, data, bytes, tag, handle, request);
    else return table().isend(send, data, static_cast<int>(bytes), tag, handle, request);
  }

  struct Buffer {
    void* data;
    size_t bytes;
    int tag;
    void* handle;
  };
  static ncclResult_t irecv(void* receive, const std::vector<Buffer>& buffers, void** request) {
    const int n = static_cast<int>(buffers.size());
    std::vector<void*> data, handles;
    std::vector<std::conditional_t<(V >= 9), size_t, int>> sizes;
    std::vector<int> tags;
    for (const Buffer& buffer : buffers) {
      data.push_back(buffer.data);
      handles.push_back(buffer.handle);
      sizes.push_back(static_cast<typename decltype(sizes)::value_type>(buffer.bytes));
      tags.push_back(buffer.tag);
    }
    if constexpr (V >= 10) {
      return table().irecv(receive, n, data.data(), sizes.data(), tags.data(), handles.data(), nullptr,
                           request);
    } else {
      return table().irecv(receive, n, data.data(), sizes.data(), tags.data(), handles.data(), request);
    }
  }
};

template <typename A>
class ApiTest : public testing::Test {};

using AllVersions = testing::Types<Api<6>, Api<7>, Api<8>, Api<9>, Api<10>, Api<11>, Api<12>>;
using ContextVersions = testing::Types<Api<11>, Api<12>>;
// The plain number: what gtest_discover_tests of CMake 3.25 turns into a readable name.
struct VersionName {
  template <typename A>
  static std::string GetName(int) {
    return std::to_string(A::kVersion);
  }
};

// NCCL's 128-byte buffer, at an odd address: its alignment is that of a char array.
class Handle {
 public:
  void* bytes() { return storage_.data() + 1; }

 private:
  std::array<char, NCCL_NET_HANDLE_MAXSIZE + 1> storage_ = {};
};

// An initialised plugin. NCCL may store into the first bytes of the context (nccl/context_room.h): so it does
// in every test.
template <typename A>
class Session {
 public:
  // `software`: see useDevice().
  explicit Session(const std::string& software = "") {
    useDevice(software);
    clearLog();
    EXPECT_EQ(A::init(&context_), ncclSuccess) << warnings();
    if (context_ != nullptr) std::memset(context_, 0xff, sizeof(ncclContextRoom));
  }
  ~Session() { EXPECT_EQ(A::finalize(context_), ncclSuccess); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void* context() const { return context_; }

 private:
  void* context_ = nullptr;
};

// NCCL's own IB network reads it there, if NCCL hands the context to that network (nccl/context_room.h).
template <typename A>
void expectTrafficClassInContext() {
  useDevice();
  void* context = nullptr;
  ncclNetCommConfig_v11_t config = {.trafficClass = 5};
  ASSERT_EQ(A::table().init(&context, 42, &config, keepLog, nullptr), ncclSuccess) << warnings();
  EXPECT_EQ(static_cast<const ncclContextRoom*>(context)->traffic_class, 5);
  EXPECT_EQ(A::finalize(context), ncclSuccess);
}

// Attempts to connect that a test has begun and left alone. Versions 6 to 10 keep them until a minute after
// their time (Connector::abandoned()), later ones until finalize.
inline std::size_t g_forgotten_attempts = 0;

// Polls both ends until the connection stands, or one of them fails.
template <typename A>
void shakeHands(void* context, Handle& handle, void* listener, void** send, void** receive, int sender = 0) {
  for (Patience patience; *send == nullptr || *receive == nullptr; patience.again()) {
    if (*send == nullptr) {
      ASSERT_EQ(A::connect(context, sender, handle.bytes(), send), ncclSuccess) << warnings();
    }
    if (*receive == nullptr) {
      ASSERT_EQ(A::accept(listener, receive), ncclSuccess) << warnings();
    }
  }
}

// One connection, both ends in this process.
template <typename A>
class Pair {
 public:
  explicit Pair(const Session<A>& session, int sender = 0, int receiver = 0) {
    Handle handle;
    void* listener = nullptr;
    EXPECT_EQ(A::listen(session.context(), receiver, handle.bytes(), &listener), ncclSuccess) << warnings();
    shakeHands<A>(session.context(), handle, listener, &send_, &receive_, sender);
    EXPECT_NE(send_, nullptr) << warnings();
    EXPECT_NE(receive_, nullptr) << warnings();
    EXPECT_EQ(A::table().closeListen(listener), ncclSuccess);
  }
  // In a session of its own; `software`: see useDevice().
  explicit Pair(const std::string& software = "") : Pair(std::make_unique<const Session<A>>(software)) {}
  ~Pair() { close(); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void close(bool sender_first = true) {
    if (sender_first) EXPECT_EQ(A::table().closeSend(send_), ncclSuccess);
    EXPECT_EQ(A::table().closeRecv(receive_), ncclSuccess);
    if (!sender_first) EXPECT_EQ(A::table().closeSend(send_), ncclSuccess);
    send_ = receive_ = nullptr;
  }
  void* send() const { return send_; }
  void* receive() const { return receive_; }

 private:
  explicit Pair(std::unique_ptr<const Session<A>> own) : Pair(*own) { own_ = std::move(own); }

  std::unique_ptr<const Session<A>> own_;
  void* send_ = nullptr;
  void* receive_ = nullptr;
};

// Memory registered with one end of a connection.
template <typename A>
class Memory {
 public:
  Memory(void* comm, size_t bytes, int seed = 0, int type = NCCL_PTR_HOST) : comm_(comm), bytes_(bytes) {
    for (size_t i = 0; i < bytes; ++i) bytes_[i] = pattern(seed, i);
    EXPECT_EQ(A::regMr(comm, bytes_.data(), bytes, &handle_, type), ncclSuccess) << warnings();
  }
  ~Memory() { EXPECT_EQ(A::table().deregMr(comm_, handle_), ncclSuccess); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  static char pattern(int seed, size_t i) {
    return static_cast<char>(i * 31 + (i >> 8) * 7 + static_cast<size_t>(seed));
  }
  char* data() { return bytes_.data(); }
  void* handle() const { return handle_; }
  // How many of the first `count` bytes differ from the pattern of `seed`.
  size_t wrong(int seed, size_t count, size_t offset = 0) const {
    size_t found = 0;
    for (size_t i = 0; i < count; ++i) found += bytes_[offset + i] != pattern(seed, i);
    return found;
  }

 private:
  void* comm_;
  std::vector<char> bytes_;
  void* handle_ = nullptr;
};

// Tests `request` until it is done. Gives up, as a failure, after a number of polls no good run comes near.
template <typename A>
void finish(void* request, int* sizes = nullptr) {
  ASSERT_NE(request, nullptr);
  for (int polls = 0; polls < 100'000'000; ++polls) {
    int done = kUnwritten;
    ASSERT_EQ(A::table().test(request, &done, sizes), ncclSuccess) << warnings();
    ASSERT_NE(done, kUnwritten);
    if (done != 0) return;
  }
  FAIL() << "the request never completed";
}

// Posts a send, calling again while the receiver is not ready.
template <typename A>
void* startSend(void* send, void* data, size_t bytes, int tag, void* handle) {
  for (int calls = 0; calls < 100'000'000; ++calls) {
    void* request = kStale;
    EXPECT_EQ(A::isend(send, data, bytes, tag, handle, &request), ncclSuccess) << warnings();
    EXPECT_NE(request, kStale);
    if (request != nullptr || testing::Test::HasFailure()) return request;
  }
  ADD_FAILURE() << "the receiver never became ready";
  return nullptr;
}

// What isend finally says to a sender that cannot be served; the receive it is for may still be on its way.
template <typename A>
ncclResult_t sendUntilError(void* send, int tag, void* data = nullptr, size_t bytes = 0,
                            void* handle = nullptr) {
  ncclResult_t result = ncclSuccess;
  void* request = nullptr;
  for (Patience patience; result == ncclSuccess; patience.again()) {
    EXPECT_EQ(request, nullptr) << "it was sent";
    result = A::isend(send, data, bytes, tag, handle, &request);
    if (testing::Test::HasFailure()) break;
  }
  return result;
}

template <typename A>
void* startReceive(void* receive, const std::vector<typename A::Buffer>& buffers, void* on_entry = kStale) {
  void* request = on_entry;
  EXPECT_EQ(A::irecv(receive, buffers, &request), ncclSuccess) << warnings();
  EXPECT_NE(request, on_entry);
  return request;
}

}  // namespace railwise::test
