// isend, irecv, iflush, test: what NCCL's progress thread does, both ends in one process.
#include <thread>

#include "api.h"
#include "tests/ok.h"

namespace railwise::test {
namespace {

template <typename A>
class TransferTest : public ApiTest<A> {};
TYPED_TEST_SUITE(TransferTest, AllVersions, VersionName);

TYPED_TEST(TransferTest, EverySizeArrives) {
  Pair<TypeParam> pair;
  constexpr size_t kLargest = 9 << 20;
  Memory<TypeParam> from(pair.send(), kLargest, 1);
  Memory<TypeParam> to(pair.receive(), kLargest + 64);
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{4096}, size_t{65537}, kLargest}) {
    std::memset(to.data(), 0x55, kLargest + 64);
    void* receive = startReceive<TypeParam>(pair.receive(), {{to.data(), kLargest, 5, to.handle()}});
    void* send = startSend<TypeParam>(pair.send(), from.data(), bytes, 5, from.handle());
    int sent = kUnwritten, received = kUnwritten;
    finish<TypeParam>(send, &sent);
    finish<TypeParam>(receive, &received);
    EXPECT_EQ(sent, static_cast<int>(bytes));
    EXPECT_EQ(received, static_cast<int>(bytes));
    EXPECT_EQ(to.wrong(1, bytes), 0U);
    EXPECT_EQ(to.data()[bytes], 0x55) << "wrote beyond the message";
  }
}

TYPED_TEST(TransferTest, MessagesBeyondThePortsLimitTravelInPieces) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("a port that takes messages of 4 KiB at most (max_msg)");
  Pair<TypeParam> pair("max_msg=4096");
  Memory<TypeParam> from(pair.send(), 100'000, 3);
  Memory<TypeParam> to(pair.receive(), 100'000);
  for (const size_t bytes : {4095, 4096, 4097, 8192, 100'000}) {
    std::memset(to.data(), 0, 100'000);
    void* receive = startReceive<TypeParam>(pair.receive(), {{to.data(), 100'000, 0, to.handle()}});
    finish<TypeParam>(startSend<TypeParam>(pair.send(), from.data(), bytes, 0, from.handle()));
    int received = kUnwritten;
    finish<TypeParam>(receive, &received);
    EXPECT_EQ(received, static_cast<int>(bytes));
    EXPECT_EQ(to.wrong(3, bytes), 0U);
  }
}

TYPED_TEST(TransferTest, SizesTooLargeForTheImmediateTravelInTheRecord) {
  Pair<TypeParam> pair;
  constexpr size_t kLimit = 32 << 20;  // the immediate holds sizes below
  std::vector<char> from(kLimit + 1, 'f'), to(kLimit + 1);
  void *from_handle = nullptr, *to_handle = nullptr;
  ASSERT_EQ(TypeParam::regMr(pair.send(), from.data(), from.size(), &from_handle), ncclSuccess);
  ASSERT_EQ(TypeParam::regMr(pair.receive(), to.data(), to.size(), &to_handle), ncclSuccess);
  for (const size_t bytes : {kLimit - 1, kLimit, kLimit + 1}) {
    from[bytes - 1] = static_cast<char>(bytes);
    void* receive = startReceive<TypeParam>(pair.receive(), {{to.data(), to.size(), 0, to_handle}});
    finish<TypeParam>(startSend<TypeParam>(pair.send(), from.data(), bytes, 0, from_handle));
    int received = kUnwritten;
    finish<TypeParam>(receive, &received);
    EXPECT_EQ(received, static_cast<int>(bytes));
    EXPECT_EQ(std::memcmp(from.data(), to.data(), bytes), 0);
  }
  EXPECT_EQ(TypeParam::table().deregMr(pair.send(), from_handle), ncclSuccess);
  EXPECT_EQ(TypeParam::table().deregMr(pair.receive(), to_handle), ncclSuccess);
}

// Without inline everything travels from registered memory; with small pieces the send queue overflows and
// waits.
TYPED_TEST(TransferTest, GroupsOverfillTheSendQueueAndWait) {
  std::vector<std::string> devices = {"max_inline=0", "max_inline=0,max_msg=4096", "max_msg=4096"};
  if (!TypeParam::kHasContext) devices = {devices[1]};  // one init only
  if (onRealDevices()) devices = {""};                  // which have limits of their own
  for (const std::string& device : devices) {
    Pair<TypeParam> pair(device);
    constexpr int kGroups = 12, kGroup = 8;
    constexpr size_t kRoom = 60'000;
    Memory<TypeParam> from(pair.send(), kGroups * kGroup * kRoom, 3);
    Memory<TypeParam> to(pair.receive(), kGroups * kGroup * kRoom);
    const auto sizeOf = [](int message) { return kRoom - static_cast<size_t>(message % 7); };
    std::vector<void*> receives, sends;
    for (int k = 0; k < kGroups; ++k) {
      std::vector<typename TypeParam::Buffer> buffers;
      for (int i = 0; i < kGroup; ++i)
        buffers.push_back({to.data() + (k * kGroup + i) * kRoom, kRoom, i, to.handle()});
      receives.push_back(startReceive<TypeParam>(pair.receive(), buffers));
    }
    for (int m = 0; m < kGroups * kGroup; ++m) {
      sends.push_back(
          startSend<TypeParam>(pair.send(), from.data() + m * kRoom, sizeOf(m), m % kGroup, from.handle()));
    }
    for (void* send : sends) finish<TypeParam>(send);
    for (int k = 0; k < kGroups; ++k) {
      std::array<int, kGroup> sizes = {};
      finish<TypeParam>(receives[k], sizes.data());
      for (int i = 0; i < kGroup; ++i) EXPECT_EQ(sizes[i], static_cast<int>(sizeOf(k * kGroup + i)));
    }
    for (int m = 0; m < kGroups * kGroup; ++m) {
      EXPECT_EQ(std::memcmp(to.data() + m * kRoom, from.data() + m * kRoom, sizeOf(m)), 0) << "message " << m;
    }
  }
}

// The receiver is done with a slot before the sender has looked at its own completions.
TYPED_TEST(TransferTest, SendsMayBeTestedLate) {
  Pair<TypeParam> pair;
  std::vector<void*> sends;
  for (int i = 0; i < 200; ++i) {
    void* receive = startReceive<TypeParam>(pair.receive(), {{nullptr, 0, i, nullptr}});
    sends.push_back(startSend<TypeParam>(pair.send(), nullptr, 0, i, nullptr));
    finish<TypeParam>(receive);
  }
  for (void* send : sends) finish<TypeParam>(send);
}

TYPED_TEST(TransferTest, NegativeSizesAreRefused) {
  if constexpr (TypeParam::kVersion <= 8) {
    Pair<TypeParam> pair;
    Memory<TypeParam> memory(pair.receive(), 1 << 16);
    void *request = kStale, *handle = kStale;
    const auto negative = static_cast<size_t>(-5);
    EXPECT_EQ(TypeParam::irecv(pair.receive(), {{memory.data(), negative, 0, memory.handle()}}, &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(TypeParam::regMr(pair.receive(), memory.data() + 8192, negative, &handle), ncclInvalidArgument);
    EXPECT_EQ(handle, nullptr);
    startReceive<TypeParam>(pair.receive(), {{memory.data(), 8, 0, memory.handle()}});
    EXPECT_EQ(TypeParam::isend(pair.send(), memory.data(), negative, 0, memory.handle(), &request),
              ncclInvalidArgument);
  }
}

TYPED_TEST(TransferTest, NullArraysAreRefused) {
  Pair<TypeParam> pair;
  Memory<TypeParam> to(pair.receive(), 8);
  const auto& table = TypeParam::table();
  for (int missing = 0; missing < 4; ++missing) {
    void *data = to.data(), *handle = to.handle(), *request = kStale;
    std::conditional_t<(TypeParam::kVersion >= 9), size_t, int> room = 8;
    int tag = 0, bytes = 8;
    void** const all_data = missing == 0 ? nullptr : &data;
    auto* const sizes = missing == 1 ? nullptr : &room;
    int* const tags = missing == 2 ? nullptr : &tag;
    void** const handles = missing == 3 ? nullptr : &handle;
    const auto irecv = [&](auto... profilers) {
      return table.irecv(pair.receive(), 1, all_data, sizes, tags, handles, profilers..., &request);
    };
    if constexpr (TypeParam::kVersion >= 10) EXPECT_EQ(irecv(nullptr), ncclInvalidArgument);
    else EXPECT_EQ(irecv(), ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    if (missing == 2) continue;  // iflush has no tags
    request = kStale;
    EXPECT_EQ(table.iflush(pair.receive(), 1, all_data, missing == 1 ? nullptr : &bytes, handles, &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
  }
  EXPECT_HAS(warnings(), "irecv: an array is null");
  EXPECT_HAS(warnings(), "iflush: an array is null");
}

TYPED_TEST(TransferTest, SendWaitsForItsReceive) {
  Pair<TypeParam> pair;
  Memory<TypeParam> from(pair.send(), 8, 1);
  Memory<TypeParam> to(pair.receive(), 8);
  void* request = kStale;
  ASSERT_EQ(TypeParam::isend(pair.send(), from.data(), 8, 0, from.handle(), &request), ncclSuccess);
  EXPECT_EQ(request, nullptr);
  void* receive = startReceive<TypeParam>(pair.receive(), {{to.data(), 8, 0, to.handle()}});
  int done = kUnwritten;
  ASSERT_EQ(TypeParam::table().test(receive, &done, nullptr), ncclSuccess);
  EXPECT_EQ(done, 0);
  finish<TypeParam>(startSend<TypeParam>(pair.send(), from.data(), 8, 0, from.handle()));
  finish<TypeParam>(receive);
}

TYPED_TEST(TransferTest, SendWithAnotherTagWaits) {
  Pair<TypeParam> pair;
  Memory<TypeParam> from(pair.send(), 8, 1);
  Memory<TypeParam> to(pair.receive(), 8);
  void* receive = startReceive<TypeParam>(pair.receive(), {{to.data(), 8, 7, to.handle()}});
  for (int i = 0; i < 100; ++i) {
    void* request = kStale;
    ASSERT_EQ(TypeParam::isend(pair.send(), from.data(), 8, 8, from.handle(), &request), ncclSuccess);
    ASSERT_EQ(request, nullptr);
  }
  finish<TypeParam>(startSend<TypeParam>(pair.send(), from.data(), 8, 7, from.handle()));
  finish<TypeParam>(receive);
}

TYPED_TEST(TransferTest, ZeroByteMessagesNeedNoMemory) {
  Pair<TypeParam> pair;
  for (int i = 0; i < 100; ++i) {
    void* receive = startReceive<TypeParam>(pair.receive(), {{nullptr, 0, 0, nullptr}});
    finish<TypeParam>(startSend<TypeParam>(pair.send(), nullptr, 0, 0, nullptr));
    int size = kUnwritten;
    finish<TypeParam>(receive, &size);
    EXPECT_EQ(size, 0);
  }
}

TYPED_TEST(TransferTest, GroupedReceivesTakeTheirTags) {
  Pair<TypeParam> pair;
  constexpr size_t kRoom = 1024;
  Memory<TypeParam> from(pair.send(), 8 * kRoom, 0);
  Memory<TypeParam> to(pair.receive(), 8 * kRoom);
  for (int n = 1; n <= 8; ++n) {
    std::memset(to.data(), 0, 8 * kRoom);
    std::vector<typename TypeParam::Buffer> buffers;
    for (int i = 0; i < n; ++i) buffers.push_back({to.data() + i * kRoom, kRoom, 100 + i, to.handle()});
    void* receive = startReceive<TypeParam>(pair.receive(), buffers);
    std::vector<void*> sends;
    for (int i = n - 1; i >= 0; --i) {  // in the opposite order; sizes 0, 100, 200 ...
      const size_t bytes = static_cast<size_t>(i) * 100;
      sends.push_back(startSend<TypeParam>(pair.send(), from.data() + i, bytes, 100 + i, from.handle()));
    }
    for (void* send : sends) finish<TypeParam>(send);
    std::array<int, 9> sizes;
    sizes.fill(kUnwritten);
    finish<TypeParam>(receive, sizes.data());
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(sizes[i], i * 100);
      EXPECT_EQ(std::memcmp(to.data() + i * kRoom, from.data() + i, static_cast<size_t>(i) * 100), 0);
    }
    EXPECT_EQ(sizes[n], kUnwritten) << "test wrote more sizes than receives";
  }
}

// All calls in the order of the buffers, as NCCL makes them, and a call between them that is refused.
TYPED_TEST(TransferTest, GroupsOfOneSizeArriveAndABadBufferLeavesNothingBehind) {
  Pair<TypeParam> pair;
  constexpr size_t kRoom = 1 << 16;
  Memory<TypeParam> from(pair.send(), 8 * kRoom, 0);
  Memory<TypeParam> to(pair.receive(), 8 * kRoom);
  for (const size_t bytes : {size_t{8}, size_t{1000}, kRoom}) {
    for (int n = 2; n <= 8; ++n) {
      std::memset(to.data(), 0, 8 * kRoom);
      std::vector<typename TypeParam::Buffer> buffers;
      for (int i = 0; i < n; ++i) buffers.push_back({to.data() + i * kRoom, kRoom, i, to.handle()});
      auto bad = buffers;
      bad.back() = {from.data(), kRoom, 77, nullptr};
      void* request = kStale;
      EXPECT_EQ(TypeParam::irecv(pair.receive(), bad, &request), ncclInvalidArgument);
      EXPECT_EQ(request, nullptr);
      void* receive = startReceive<TypeParam>(pair.receive(), buffers);
      std::vector<void*> sends;
      for (int i = 0; i < n; ++i)
        sends.push_back(startSend<TypeParam>(pair.send(), from.data() + i * kRoom, bytes, i, from.handle()));
      for (void* send : sends) finish<TypeParam>(send);
      std::array<int, 9> sizes;
      sizes.fill(kUnwritten);
      finish<TypeParam>(receive, sizes.data());
      for (int i = 0; i < n; ++i) {
        EXPECT_EQ(sizes[i], static_cast<int>(bytes));
        EXPECT_EQ(std::memcmp(to.data() + i * kRoom, from.data() + i * kRoom, bytes), 0);
      }
      EXPECT_EQ(sizes[n], kUnwritten) << "test wrote more sizes than receives";
    }
  }
}

TYPED_TEST(TransferTest, ATagMayStandTwiceInAGroup) {
  Pair<TypeParam> pair;
  Memory<TypeParam> from(pair.send(), 64, 0);
  Memory<TypeParam> to(pair.receive(), 64);
  void* receive = startReceive<TypeParam>(
      pair.receive(), {{to.data(), 16, 4, to.handle()}, {to.data() + 16, 16, 4, to.handle()}});
  void* first = startSend<TypeParam>(pair.send(), from.data() + 3, 10, 4, from.handle());
  void* second = startSend<TypeParam>(pair.send(), from.data() + 40, 11, 4, from.handle());
  finish<TypeParam>(first);
  finish<TypeParam>(second);
  std::array<int, 2> sizes = {};
  finish<TypeParam>(receive, sizes.data());
  EXPECT_EQ(sizes[0], 10);
  EXPECT_EQ(sizes[1], 11);
  EXPECT_EQ(std::memcmp(to.data(), from.data() + 3, 10), 0);
  EXPECT_EQ(std::memcmp(to.data() + 16, from.data() + 40, 11), 0);
}

TYPED_TEST(TransferTest, AllOutstandingAtOnce) {
  Pair<TypeParam> pair;
  constexpr int kReceives = 32, kGroup = 8;
  constexpr size_t kRoom = 64;
  Memory<TypeParam> from(pair.send(), kReceives * kGroup * kRoom, 2);
  Memory<TypeParam> to(pair.receive(), kReceives * kGroup * kRoom);
  for (int round = 0; round < 3; ++round) {
    std::memset(to.data(), 0, kReceives * kGroup * kRoom);
    std::vector<void*> receives, sends;
    for (int k = 0; k < kReceives; ++k) {
      std::vector<typename TypeParam::Buffer> buffers;
      for (int i = 0; i < kGroup; ++i) {
        buffers.push_back({to.data() + (k * kGroup + i) * kRoom, kRoom, i, to.handle()});
      }
      receives.push_back(startReceive<TypeParam>(pair.receive(), buffers));
      ASSERT_NE(receives.back(), nullptr);
    }
    EXPECT_EQ(startReceive<TypeParam>(pair.receive(), {{to.data(), kRoom, 0, to.handle()}}), nullptr);
    for (int k = 0; k < kReceives * kGroup; ++k) {
      sends.push_back(
          startSend<TypeParam>(pair.send(), from.data() + k * kRoom, kRoom, k % kGroup, from.handle()));
      ASSERT_NE(sends.back(), nullptr);
    }
    for (void* send : sends) finish<TypeParam>(send);
    for (auto receive = receives.rbegin(); receive != receives.rend(); ++receive) finish<TypeParam>(*receive);
    EXPECT_EQ(std::memcmp(to.data(), from.data(), kReceives * kGroup * kRoom), 0);
  }
}

TYPED_TEST(TransferTest, OptionalCompletionOnEntryStillGivesARequest) {
  Pair<TypeParam> pair;
  Memory<TypeParam> from(pair.send(), 8, 1);
  Memory<TypeParam> to(pair.receive(), 8);
  void* const optional = reinterpret_cast<void*>(NCCL_NET_OPTIONAL_RECV_COMPLETION);
  void* receive = startReceive<TypeParam>(pair.receive(), {{to.data(), 8, 0, to.handle()}}, optional);
  finish<TypeParam>(startSend<TypeParam>(pair.send(), from.data(), 8, 0, from.handle()));
  finish<TypeParam>(receive);
  EXPECT_EQ(to.wrong(1, 8), 0U);
}

TYPED_TEST(TransferTest, FlushCompletesAndNothingToFlushIsNull) {
  RAILWISE_NEEDS_FLUSHES();
  Pair<TypeParam> pair;
  Memory<TypeParam> to(pair.receive(), 64, 0, NCCL_PTR_CUDA);
  Memory<TypeParam> host(pair.receive(), 64);
  std::array<void*, 2> data = {to.data(), to.data() + 32};
  std::array<void*, 2> handles = {to.handle(), to.handle()};
  std::array<int, 2> none = {0, 0};
  std::array<int, 2> one = {0, 5};
  void* request = kStale;
  ASSERT_EQ(TypeParam::table().iflush(pair.receive(), 2, data.data(), none.data(), handles.data(), &request),
            ncclSuccess);
  EXPECT_EQ(request, nullptr);
  request = kStale;
  void* host_data = host.data();
  void* host_handle = host.handle();
  ASSERT_EQ(TypeParam::table().iflush(pair.receive(), 1, &host_data, &one[1], &host_handle, &request),
            ncclSuccess);
  EXPECT_EQ(request, nullptr) << "host memory needs no flush";
  std::vector<void*> flushes;
  for (int i = 0; i < 32; ++i) {  // as many as receives: a flush cannot be tried later
    request = kStale;
    ASSERT_EQ(TypeParam::table().iflush(pair.receive(), 2, data.data(), one.data(), handles.data(), &request),
              ncclSuccess);
    ASSERT_NE(request, nullptr);
    flushes.push_back(request);
  }
  for (void* flush : flushes) finish<TypeParam>(flush);
}

TYPED_TEST(TransferTest, TooLongForTheReceiveIsAnErrorThatStays) {
  Pair<TypeParam> pair;
  Memory<TypeParam> from(pair.send(), 64, 1);
  Memory<TypeParam> to(pair.receive(), 64);
  void* receive = startReceive<TypeParam>(pair.receive(), {{to.data(), 8, 0, to.handle()}});
  ASSERT_NE(receive, nullptr);
  EXPECT_EQ(sendUntilError<TypeParam>(pair.send(), 0, from.data(), 9, from.handle()), ncclInvalidArgument);
  EXPECT_HAS(warnings(), "a send of 9 bytes does not fit 8 bytes");
  void* request = kStale;
  EXPECT_EQ(TypeParam::isend(pair.send(), from.data(), 8, 0, from.handle(), &request), ncclInvalidArgument);
  EXPECT_EQ(request, nullptr);
}

TYPED_TEST(TransferTest, WrongDirectionAndGroupSizeAreRefused) {
  Pair<TypeParam> pair;
  Memory<TypeParam> memory(pair.send(), 64, 1);
  void* request = kStale;
  EXPECT_EQ(TypeParam::isend(pair.receive(), memory.data(), 8, 0, memory.handle(), &request),
            ncclInvalidArgument);
  EXPECT_EQ(request, nullptr);
  request = kStale;
  EXPECT_EQ(TypeParam::irecv(pair.send(), {{memory.data(), 8, 0, memory.handle()}}, &request),
            ncclInvalidArgument);
  EXPECT_EQ(request, nullptr);
  const std::vector<typename TypeParam::Buffer> nine(9, {memory.data(), 8, 0, memory.handle()});
  EXPECT_EQ(TypeParam::irecv(pair.receive(), nine, &request), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::irecv(pair.receive(), {}, &request), ncclInvalidArgument);
}

TYPED_TEST(TransferTest, ARequestIsTestedOnceItIsDoneNoMore) {
  Pair<TypeParam> pair;
  void* receive = startReceive<TypeParam>(pair.receive(), {{nullptr, 0, 0, nullptr}});
  finish<TypeParam>(startSend<TypeParam>(pair.send(), nullptr, 0, 0, nullptr));
  finish<TypeParam>(receive);
  int done = kUnwritten;
  EXPECT_EQ(TypeParam::table().test(receive, &done, nullptr), ncclInvalidUsage);
  EXPECT_EQ(done, 0);
}

TYPED_TEST(TransferTest, RegistrationRunsBesideTheDataPath) {
  Pair<TypeParam> pair;
  Memory<TypeParam> from(pair.send(), 4096, 1);
  Memory<TypeParam> to(pair.receive(), 4096);
  std::thread service([&] {  // NCCL registers user buffers while its progress thread sends
    std::vector<char> buffer(1 << 16);
    for (int i = 0; i < 300; ++i) {
      void *mine = nullptr, *other = nullptr;
      EXPECT_EQ(TypeParam::regMr(pair.send(), buffer.data(), buffer.size(), &mine), ncclSuccess);
      EXPECT_EQ(TypeParam::regMr(pair.receive(), buffer.data() + 100, 1000, &other), ncclSuccess);
      EXPECT_EQ(TypeParam::table().deregMr(pair.send(), mine), ncclSuccess);
      EXPECT_EQ(TypeParam::table().deregMr(pair.receive(), other), ncclSuccess);
    }
  });
  for (int i = 0; i < 300; ++i) {
    void* receive = startReceive<TypeParam>(pair.receive(), {{to.data(), 2048, 0, to.handle()}});
    finish<TypeParam>(startSend<TypeParam>(pair.send(), from.data() + i, 2048, 0, from.handle()));
    finish<TypeParam>(receive);
    EXPECT_EQ(std::memcmp(to.data(), from.data() + i, 2048), 0) << "message " << i;
  }
  service.join();
}

TYPED_TEST(TransferTest, TwoThreadsOneForEachEnd) {
  Pair<TypeParam> pair;
  constexpr int kMessages = 2000;
  constexpr size_t kBytes = 512;
  Memory<TypeParam> from(pair.send(), kBytes + kMessages, 1);  // message i begins at byte i
  Memory<TypeParam> to(pair.receive(), kBytes);
  std::thread sender([&] {
    for (int i = 0; i < kMessages; ++i) {
      finish<TypeParam>(startSend<TypeParam>(pair.send(), from.data() + i, kBytes, i, from.handle()));
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    int size = 0;
    finish<TypeParam>(startReceive<TypeParam>(pair.receive(), {{to.data(), kBytes, i, to.handle()}}), &size);
    ASSERT_EQ(size, static_cast<int>(kBytes));
    ASSERT_EQ(std::memcmp(to.data(), from.data() + i, kBytes), 0) << "message " << i;
  }
  sender.join();
}

TYPED_TEST(TransferTest, TwoThreadsWithGroups) {
  Pair<TypeParam> pair;
  constexpr int kGroups = 300, kGroup = 8;
  constexpr size_t kBytes = 96;
  Memory<TypeParam> from(pair.send(), kGroup * kBytes, 1);
  Memory<TypeParam> to(pair.receive(), kGroup * kBytes);
  std::thread sender([&] {
    for (int group = 0; group < kGroups; ++group) {
      std::array<void*, kGroup> sends;  // none completes before all are there
      for (int i = 0; i < kGroup; ++i) {
        sends[i] = startSend<TypeParam>(pair.send(), from.data() + i * kBytes, kBytes, i, from.handle());
      }
      for (void* send : sends) finish<TypeParam>(send);
    }
  });
  std::vector<typename TypeParam::Buffer> buffers;
  for (int i = 0; i < kGroup; ++i) buffers.push_back({to.data() + i * kBytes, kBytes, i, to.handle()});
  for (int i = 0; i < kGroups; ++i) finish<TypeParam>(startReceive<TypeParam>(pair.receive(), buffers));
  sender.join();
  EXPECT_EQ(to.wrong(1, kGroup * kBytes), 0U);
}

TYPED_TEST(TransferTest, ManyConnectionsAcrossDevices) {
  Session<TypeParam> session("count=3");
  const int devices = deviceCount(3);
  std::vector<std::unique_ptr<Pair<TypeParam>>> pairs;
  // Of siw a process has no more than some nine at a time (docs/develop/kernel-lab.md).
  const int connections = onIwarp() ? 8 : 60;
  for (int i = 0; i < connections; ++i)
    pairs.push_back(std::make_unique<Pair<TypeParam>>(session, i % devices, (i / devices) % devices));
  std::vector<std::unique_ptr<Memory<TypeParam>>> memory;
  std::vector<void*> requests;
  for (int i = 0; i < connections; ++i) {
    Pair<TypeParam>& pair = *pairs[i];
    memory.push_back(std::make_unique<Memory<TypeParam>>(pair.send(), 100, i));
    memory.push_back(std::make_unique<Memory<TypeParam>>(pair.receive(), 100, 0));
    Memory<TypeParam>& from = *memory[memory.size() - 2];
    Memory<TypeParam>& to = *memory.back();
    requests.push_back(startReceive<TypeParam>(pair.receive(), {{to.data(), 100, i, to.handle()}}));
    requests.push_back(startSend<TypeParam>(pair.send(), from.data(), 100, i, from.handle()));
  }
  for (void* request : requests) finish<TypeParam>(request);
  for (int i = 0; i < connections; ++i) {
    Memory<TypeParam>& to = *memory[2 * i + 1];
    EXPECT_EQ(to.wrong(i, 100), 0U) << "connection " << i << " at " << static_cast<void*>(to.data())
                                    << (to.wrong(0, 100) == 0 ? ", nothing came" : "");
  }
}

}  // namespace
}  // namespace railwise::test
