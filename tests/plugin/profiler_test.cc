// Events of NCCL's profiler: what the callback of init hears of sends and receives that come with a handle.
#include "railwise/profiler.h"

#include <map>
#include <set>

#include "api.h"
#include "tests/wait.h"

namespace railwise::test {
namespace {

using Event = railwise_profiler_event_v1;

struct Started {
  void* parent;
  int64_t id;
  Event event;
  bool updated = false;
  Event update = {};
  int stops = 0;
};

// What NCCL and a profiler would have of it: an event's handle is the address of its record.
struct Recorder {
  std::vector<std::unique_ptr<Started>> events;
  bool wanted = true;
  int calls = 0;

  std::vector<Started*> below(const void* parent) const {
    std::vector<Started*> found;
    for (const auto& event : events) {
      if (event->parent == parent) found.push_back(event.get());
    }
    return found;
  }
  int open() const {
    int count = 0;
    for (const auto& event : events) count += event->stops == 0;
    return count;
  }
};
Recorder g_recorder;

ncclResult_t record(void** handle, int type, void* parent, int64_t id, void* data) {
  ++g_recorder.calls;
  if (type == ncclProfilerNetEventStart) {
    EXPECT_NE(parent, nullptr) << "NCCL would crash";
    EXPECT_EQ(*handle, nullptr);
    if (!g_recorder.wanted) return ncclSuccess;
    Started* started =
        g_recorder.events.emplace_back(new Started{parent, id, *static_cast<Event*>(data)}).get();
    *handle = started;
    return ncclSuccess;
  }
  auto* const started = static_cast<Started*>(*handle);
  EXPECT_NE(started, nullptr);
  if (started == nullptr) return ncclSuccess;
  EXPECT_EQ(started->stops, 0) << "it has ended";
  if (type == ncclProfilerNetEventUpdate || type == ncclProfilerNetEventUpdateAndStop) {
    started->update = *static_cast<Event*>(data);
    started->updated = true;
  }
  if (type != ncclProfilerNetEventUpdate) ++started->stops;
  return ncclInternalError;  // a profiler's trouble is its own
}

template <typename A>
class ProfilerTest : public testing::Test {
 protected:
  ProfilerTest() { g_recorder = {}; }
};
using ProfilerVersions = testing::Types<Api<10>, Api<11>, Api<12>>;
TYPED_TEST_SUITE(ProfilerTest, ProfilerVersions, VersionName);

// A session that init gave the callback, with a connection on its device `device`.
template <typename A>
class Profiled {
 public:
  explicit Profiled(const std::string& devices = "", int rails = 1) : session_(devices) {
    if constexpr (A::kHasContext) {
      ncclNetCommConfig_v11_t config = {-1};
      EXPECT_EQ(A::table().init(&second_, 43, &config, keepLog, record), ncclSuccess);
    } else {
      EXPECT_EQ(A::table().init(keepLog, record), ncclSuccess);
    }
    int device = 0;
    if (rails > 1) {
      typename std::remove_cvref_t<decltype(typename A::Properties{}.vProps)> members = {};
      members.ndevs = rails;
      for (int i = 0; i < rails; ++i) members.devs[i] = i;
      EXPECT_EQ(A::table().makeVDevice(&device, &members), ncclSuccess) << warnings();
    }
    device_ = device;
    pair_ = std::make_unique<Pair<A>>(session_, device, device);
  }
  ~Profiled() {
    pair_.reset();
    if constexpr (A::kHasContext) EXPECT_EQ(A::finalize(second_), ncclSuccess);
  }

  Pair<A>& pair() { return *pair_; }
  int device() const { return device_; }

  // Sends `bytes` into one receive of `room`; waits for both.
  void transfer(std::size_t bytes, std::size_t room, void* send_handle, void* receive_handle) {
    Memory<A> from(pair_->send(), std::max<std::size_t>(bytes, 1));
    Memory<A> to(pair_->receive(), room);
    void* data = to.data();
    std::size_t size = room;
    int tag = 7;
    void* memory = to.handle();
    void* receive = nullptr;
    EXPECT_EQ(A::table().irecv(pair_->receive(), 1, &data, &size, &tag, &memory, &receive_handle, &receive),
              ncclSuccess);
    void* send = nullptr;
    for (Patience patience; send == nullptr; patience.again()) {
      ASSERT_EQ(A::table().isend(pair_->send(), from.data(), bytes, tag, from.handle(), send_handle, &send),
                ncclSuccess)
          << warnings();
    }
    finish<A>(send);
    int got = 0;
    finish<A>(receive, &got);
    EXPECT_EQ(static_cast<std::size_t>(got), bytes);
    EXPECT_EQ(g_recorder.open(), 0) << "NCCL has heard that it is done";
  }

 private:
  Session<A> session_;
  void* second_ = nullptr;
  int device_ = 0;
  std::unique_ptr<Pair<A>> pair_;
};

TYPED_TEST(ProfilerTest, ASendAndItsReceive) {
  Profiled<TypeParam> profiled;
  int send = 0;
  int receive = 0;
  profiled.transfer(4096, 8192, &send, &receive);
  const auto parts = g_recorder.below(&send);
  ASSERT_EQ(parts.size(), 1U) << "small: one part";
  const Started& part = *parts[0];
  EXPECT_TRUE(RAILWISE_PROFILER_IS_V1(part.id));
  EXPECT_EQ(part.event.kind, uint32_t{RAILWISE_PROFILER_SEND});
  EXPECT_EQ(part.event.bytes, 4096U);
  EXPECT_EQ(part.event.tag, 7);
  EXPECT_EQ(part.event.device, 0);
  EXPECT_EQ(part.event.rail, 0);
  EXPECT_NE(part.event.qp_number, 0U);
  const auto receives = g_recorder.below(&receive);
  ASSERT_EQ(receives.size(), 1U);
  EXPECT_EQ(receives[0]->event.kind, uint32_t{RAILWISE_PROFILER_RECEIVE});
  EXPECT_EQ(receives[0]->event.bytes, 8192U) << "the room";
  EXPECT_TRUE(receives[0]->updated);
  EXPECT_EQ(receives[0]->update.bytes, 4096U) << "what came";
  EXPECT_EQ(receives[0]->event.message, part.event.message) << "they can be put together";
}

TYPED_TEST(ProfilerTest, MessagesAreNumbered) {
  Profiled<TypeParam> profiled;
  int send = 0;
  int receive = 0;
  for (int i = 0; i < 40; ++i) profiled.transfer(100, 100, &send, &receive);
  std::set<uint64_t> sent;
  std::set<uint64_t> received;
  for (const Started* event : g_recorder.below(&send)) sent.insert(event->event.message);
  for (const Started* event : g_recorder.below(&receive)) received.insert(event->event.message);
  EXPECT_EQ(sent.size(), 40U);
  EXPECT_EQ(sent, received);
  EXPECT_EQ(*sent.begin(), 1U);
}

TYPED_TEST(ProfilerTest, AnEmptyMessageIsAnEvent) {
  Profiled<TypeParam> profiled;
  int send = 0;
  profiled.transfer(0, 64, &send, nullptr);
  ASSERT_EQ(g_recorder.below(&send).size(), 1U);
  EXPECT_EQ(g_recorder.below(&send)[0]->event.bytes, 0U);
}

TYPED_TEST(ProfilerTest, PartsOverSeveralRailsAddUp) {
  RAILWISE_NEEDS_DEVICES(2);
  Profiled<TypeParam> profiled("count=2", 2);
  int send = 0;
  constexpr std::size_t kBytes = 8 << 20;
  profiled.transfer(kBytes, kBytes, &send, nullptr);
  std::map<int, uint64_t> by_rail;
  uint64_t total = 0;
  for (const Started* event : g_recorder.below(&send)) {
    by_rail[event->event.rail] += event->event.bytes;
    total += event->event.bytes;
    EXPECT_EQ(event->event.device, profiled.device());
  }
  EXPECT_EQ(total, kBytes);
  EXPECT_EQ(by_rail.size(), 2U);
  EXPECT_GT(by_rail[0], 0U);
  EXPECT_GT(by_rail[1], 0U);
}

TYPED_TEST(ProfilerTest, OnlyWhatHasAHandle) {
  Profiled<TypeParam> profiled;
  profiled.transfer(4096, 4096, nullptr, nullptr);
  EXPECT_EQ(g_recorder.calls, 0);
  // A group of which two have one, and no list of handles at all.
  using A = TypeParam;
  Pair<A>& pair = profiled.pair();
  Memory<A> from(pair.send(), 64);
  Memory<A> to(pair.receive(), 64);
  int first = 0;
  int third = 0;
  std::array<void*, 3> handles = {&first, nullptr, &third};
  for (void** list : {handles.data(), static_cast<void**>(nullptr)}) {
    std::array<void*, 3> data = {to.data(), to.data() + 8, to.data() + 16};
    std::array<std::size_t, 3> sizes = {8, 8, 8};
    std::array<int, 3> tags = {1, 2, 3};
    std::array<void*, 3> memory = {to.handle(), to.handle(), to.handle()};
    void* receive = nullptr;
    ASSERT_EQ(A::table().irecv(pair.receive(), 3, data.data(), sizes.data(), tags.data(), memory.data(), list,
                               &receive),
              ncclSuccess);
    std::array<void*, 3> sends = {};
    for (std::size_t i = 0; i < 3; ++i)
      sends[i] = startSend<A>(pair.send(), from.data(), 4, tags[i], from.handle());
    for (void* send : sends) finish<A>(send);
    std::array<int, 3> got = {};
    finish<A>(receive, got.data());
  }
  ASSERT_EQ(g_recorder.events.size(), 2U);
  EXPECT_EQ(g_recorder.below(&first).size(), 1U);
  ASSERT_EQ(g_recorder.below(&third).size(), 1U);
  EXPECT_EQ(g_recorder.below(&third)[0]->event.tag, 3);
  EXPECT_EQ(g_recorder.open(), 0);
}

TYPED_TEST(ProfilerTest, WhatTheProfilerDoesNotWantHasNoEnd) {
  Profiled<TypeParam> profiled;
  g_recorder.wanted = false;
  int send = 0;
  int receive = 0;
  profiled.transfer(4096, 4096, &send, &receive);
  EXPECT_EQ(g_recorder.calls, 2);  // both were offered
}

// What NCCL's handle stands for may be gone by then.
TYPED_TEST(ProfilerTest, WhatIsAbortedIsLeftAsItIs) {
  Profiled<TypeParam> profiled;
  using A = TypeParam;
  Pair<A>& pair = profiled.pair();
  int handle = 0;
  {
    Memory<A> to(pair.receive(), 64);
    void* data = to.data();
    std::size_t size = 64;
    int tag = 0;
    void* memory = to.handle();
    void* list = &handle;
    void* receive = nullptr;
    ASSERT_EQ(A::table().irecv(pair.receive(), 1, &data, &size, &tag, &memory, &list, &receive), ncclSuccess);
  }
  pair.close();
  EXPECT_EQ(g_recorder.calls, 1);
}

// NCCL sees by itself when the data of such a receive are there, so its end is not known here.
TYPED_TEST(ProfilerTest, AReceiveThatNeedsNoCompletionStillEnds) {
  Profiled<TypeParam> profiled;
  using A = TypeParam;
  Pair<A>& pair = profiled.pair();
  Memory<A> from(pair.send(), 64);
  Memory<A> to(pair.receive(), 64);
  int sender = 0;
  int receiver = 0;
  void* data = to.data();
  std::size_t size = 64;
  int tag = 0;
  void* memory = to.handle();
  void* list = &receiver;
  void* receive = reinterpret_cast<void*>(NCCL_NET_OPTIONAL_RECV_COMPLETION);
  ASSERT_EQ(A::table().irecv(pair.receive(), 1, &data, &size, &tag, &memory, &list, &receive), ncclSuccess);
  void* send = nullptr;
  for (Patience patience; send == nullptr; patience.again()) {
    ASSERT_EQ(A::table().isend(pair.send(), from.data(), 64, 0, from.handle(), &sender, &send), ncclSuccess);
  }
  finish<A>(send);
  finish<A>(receive);
  EXPECT_EQ(g_recorder.below(&sender).size(), 1U);
  EXPECT_EQ(g_recorder.open(), 0);
}

}  // namespace
}  // namespace railwise::test
