// The spy before libnccl-net-railwise.so: what NCCL sees and moves is the plugin's, and all of it is counted.
#include <algorithm>
#include <memory>

#include "tests/ok.h"
#include "tests/spy/spied.h"

namespace railwise::test {
namespace {

template <typename A>
class SpyTest : public testing::Test {
 protected:
  SpyTest() { (void)spyFolder(); }
};
TYPED_TEST_SUITE(SpyTest, AllVersions, VersionName);

template <typename A>
class SpyContextTest : public SpyTest<A> {};
TYPED_TEST_SUITE(SpyContextTest, ContextVersions, VersionName);

// Counts isend's calls that gave no request.
template <typename A>
void* sendCounted(void* send, Memory<A>& from, std::size_t bytes, int tag, int* refused) {
  for (Patience patience;; patience.again()) {
    void* request = kStale;
    EXPECT_EQ(A::isend(send, from.data(), bytes, tag, from.handle(), &request), ncclSuccess) << warnings();
    if (request != nullptr) return request;
    ++*refused;
  }
}

// One message from end to end.
template <typename A>
int transfer(Pair<A>& pair, Memory<A>& from, Memory<A>& to, std::size_t bytes, int* refused) {
  void* const receive = startReceive<A>(pair.receive(), {{to.data(), bytes, 7, to.handle()}});
  void* const send = sendCounted<A>(pair.send(), from, bytes, 7, refused);
  finish<A>(send);
  int got = -1;
  finish<A>(receive, &got);
  return got;
}

TYPED_TEST(SpyTest, MessagesArriveAsWithoutTheSpy) {
  using A = TypeParam;
  const Session<A> session;
  Pair<A> pair(session);
  int refused = 0;
  {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{3 << 20}}) {
      Memory<A> from(pair.send(), bytes, 5);
      Memory<A> to(pair.receive(), bytes, 9);
      EXPECT_EQ(transfer<A>(pair, from, to, bytes, &refused), static_cast<int>(bytes));
      EXPECT_EQ(to.wrong(5, bytes), 0U);
    }
  }
  EXPECT_EQ(warnings(), "");
}

TYPED_TEST(SpyTest, GroupsArriveWithTheirSizes) {
  using A = TypeParam;
  const Session<A> session;
  Pair<A> pair(session);
  Memory<A> from(pair.send(), 64);
  Memory<A> to(pair.receive(), 64);
  std::vector<typename A::Buffer> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back({to.data() + 16 * i, 16, i, to.handle()});
  void* const receive = startReceive<A>(pair.receive(), buffers);
  int refused = 0;
  std::vector<void*> sends;
  for (int i = 3; i >= 0; --i)
    sends.push_back(sendCounted<A>(pair.send(), from, static_cast<std::size_t>(i) + 1, i, &refused));
  for (void* send : sends) finish<A>(send);
  std::array<int, 4> sizes = {};
  finish<A>(receive, sizes.data());
  EXPECT_EQ(sizes, (std::array{1, 2, 3, 4}));
}

TYPED_TEST(SpyTest, CountsEveryCall) {
  using A = TypeParam;
  constexpr int kMessages = 20;
  constexpr std::size_t kBytes = 1000;
  int refused = 0;
  {
    const Session<A> session;
    Pair<A> pair(session);
    {
      Memory<A> from(pair.send(), kBytes);
      Memory<A> to(pair.receive(), kBytes);
      void* early = kStale;  // no receive is there
      ASSERT_EQ(A::isend(pair.send(), from.data(), kBytes, 7, from.handle(), &early), ncclSuccess);
      ASSERT_EQ(early, nullptr);
      ++refused;
      for (int i = 0; i < kMessages; ++i) transfer<A>(pair, from, to, kBytes, &refused);
    }
  }
  const auto report = spyReport();
  EXPECT_EQ(report["plugin"], "Railwise");
  EXPECT_EQ(report["file"], SPIED_PLUGIN);
  EXPECT_EQ(report["api"], A::kVersion);
  EXPECT_EQ(report["breaches"].size(), 0U);
  EXPECT_EQ(report["left_open"]["requests"], 0);
  EXPECT_EQ(report["left_open"]["memory"], 0);
  const auto sender = newest(report, "sender");
  EXPECT_EQ(sender["messages"], kMessages);
  EXPECT_EQ(sender["done"], kMessages);
  EXPECT_EQ(sender["bytes"], kMessages * kBytes);
  EXPECT_EQ(sender["calls"]["isend"]["calls"], kMessages + refused);
  EXPECT_EQ(sender["calls"]["isend"]["idle"], refused);
  EXPECT_GT(sender["waits"]["peer_s"], 0) << "isend has given no request";
  EXPECT_EQ(sender["bytes_log2"][9], kMessages) << "512 to 1023 bytes";
  int latencies = 0;
  for (const int count : sender["latency_ns_log2"]) latencies += count;
  EXPECT_EQ(latencies, kMessages);
  const auto receiver = newest(report, "receiver");
  EXPECT_EQ(receiver["messages"], kMessages);
  EXPECT_EQ(receiver["bytes"], kMessages * kBytes);
  EXPECT_EQ(receiver["calls"]["irecv"]["calls"], kMessages);
  EXPECT_EQ(receiver["buffers_of_irecv"][0], kMessages);
}

TYPED_TEST(SpyTest, ShowsThePluginsPropertiesAndFunctions) {
  using A = TypeParam;
  const Session<A> session("count=2,speed=200000");
  int count = 0;
  ASSERT_EQ(A::table().devices(&count), ncclSuccess);
  EXPECT_EQ(count, 2);
  typename A::Properties properties = {};
  ASSERT_EQ(A::table().getProperties(1, &properties), ncclSuccess);
  EXPECT_STREQ(properties.name, "soft1");
  EXPECT_EQ(properties.speed, 200'000);
  EXPECT_EQ(properties.maxRecvs, 8);
  EXPECT_STREQ(A::table().name, "Railwise") << "NCCL_NET compares it";
  EXPECT_NE(A::table().regMrDmaBuf, nullptr);
  if constexpr (A::kVersion >= 7) EXPECT_EQ(A::table().irecvConsumed, nullptr) << "the plugin has none";
}

TYPED_TEST(SpyTest, BothNamesOfATableAreOne) {
  (void)TypeParam::table();
  EXPECT_EQ(&TypeParam::table("ncclNet_v"), &TypeParam::table());
}

TYPED_TEST(SpyTest, RefusesCallsOnWhatIsOver) {
  using A = TypeParam;
  const Session<A> session;
  auto pair = std::make_unique<Pair<A>>(session);
  void* const old = pair->send();
  {
    Memory<A> from(pair->send(), 8);
    Memory<A> to(pair->receive(), 8);
    void* const receive = startReceive<A>(pair->receive(), {{to.data(), 8, 1, to.handle()}});
    void* const send = startSend<A>(pair->send(), from.data(), 8, 1, from.handle());
    finish<A>(send);
    finish<A>(receive);
    int done = 7;
    EXPECT_EQ(A::table().test(send, &done, nullptr), ncclInvalidUsage);
    EXPECT_EQ(done, 0);
    EXPECT_HAS(warnings(), "NCCL breaks the contract: test: of a request of sender");
    void* request = nullptr;
    EXPECT_EQ(A::isend(pair->receive(), from.data(), 8, 1, from.handle(), &request), ncclInvalidUsage);
    EXPECT_HAS(warnings(), "isend: the wrong direction: receiver");
  }
  pair.reset();
  void* request = nullptr;
  EXPECT_EQ(A::isend(old, nullptr, 0, 1, nullptr, &request), ncclInvalidUsage);
  EXPECT_HAS(warnings(), " is closed");
  EXPECT_EQ(A::table().closeSend(old), ncclInvalidUsage) << "a second time";
}

// As the context of the plugin itself (nccl/context_room.h).
TYPED_TEST(SpyContextTest, TheContextBeginsWithItsTrafficClass) { expectTrafficClassInContext<TypeParam>(); }

// A receive that is never tested, a registration and both ends of a connection are left to finalize.
TYPED_TEST(SpyContextTest, TellsWhatIsLeftOpen) {
  using A = TypeParam;
  clearLog();
  {
    const Session<A> session;
    Handle handle;
    void* listener = nullptr;
    void* send = nullptr;
    void* receive = nullptr;
    ASSERT_EQ(A::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
    shakeHands<A>(session.context(), handle, listener, &send, &receive);
    std::array<char, 8> data = {};
    void* memory = nullptr;
    ASSERT_EQ(A::regMr(receive, data.data(), data.size(), &memory), ncclSuccess);
    (void)startReceive<A>(receive, {{data.data(), data.size(), 1, memory}});
  }
  const auto report = spyReport();
  EXPECT_EQ(report["left_open"]["connections"], 2);
  EXPECT_EQ(report["left_open"]["listeners"], 1);
  EXPECT_EQ(report["left_open"]["requests"], 1);
  EXPECT_EQ(report["left_open"]["memory"], 1);
  EXPECT_HAS(logText(), "left open: 2 connections, 1 listeners, 1 requests, 1 registrations of memory");
}

TYPED_TEST(SpyTest, WritesTheRecord) {
  using A = TypeParam;
  const Session<A> session;
  Pair<A> pair(session);
  Memory<A> from(pair.send(), 100);
  Memory<A> to(pair.receive(), 100);
  int refused = 0;
  for (int i = 0; i < 3; ++i) transfer<A>(pair, from, to, 100, &refused);
  const record::Snapshot record = spyRecord();
  EXPECT_TRUE(record.process.spy);
  EXPECT_EQ(record.process.plugin, "Railwise");
  EXPECT_EQ(record.process.plugin_file, SPIED_PLUGIN);
  ASSERT_EQ(record.rails.size(), 1U);
  EXPECT_EQ(record.rails[0].device, deviceNames()[0]);
  EXPECT_EQ(record.rails[0].connections, 2U);
  EXPECT_EQ(record.rails[0].totals.bytes_sent, 300U);
  EXPECT_EQ(record.rails[0].totals.bytes_received, 300U);
  EXPECT_EQ(record.rails[0].totals.messages_sent, 3U);
  EXPECT_EQ(record.rails[0].totals.messages_received, 3U);
  ASSERT_EQ(record.connections.size(), 2U);
  for (const record::Connection& each : record.connections) {
    const bool sends = each.side == record::Side::kSender;
    EXPECT_EQ(each.state, record::ConnectionState::kRunning);
    EXPECT_EQ(each.device, deviceNames()[0]);
    EXPECT_EQ(each.posted, 3U);
    EXPECT_EQ(each.completed, 3U);
    const auto call = static_cast<std::size_t>(sends ? record::CallKind::kIsend : record::CallKind::kIrecv);
    EXPECT_EQ(each.calls[call].calls - each.calls[call].idle, 3U);
    EXPECT_EQ(each.size[6], 3U) << "64 to 127 bytes";
    EXPECT_EQ(each.waits_for, record::WaitsFor::kNothing);
  }
}

// What railwise stuck sees of a receive without data, and of a send without a receive.
TYPED_TEST(SpyTest, TheRecordShowsWhatIsWaitedFor) {
  using A = TypeParam;
  const Session<A> session;
  Pair<A> pair(session);
  Pair<A> other(session);
  Memory<A> from(pair.send(), 100);
  Memory<A> to(other.receive(), 200);
  void* refused = nullptr;
  ASSERT_EQ(A::isend(pair.send(), from.data(), 100, 1, from.handle(), &refused), ncclSuccess);
  ASSERT_EQ(refused, nullptr);
  void* const open = startReceive<A>(other.receive(), {{to.data(), 200, 1, to.handle()}});
  int seen = 0;
  for (const record::Connection& each : spyRecord().connections) {
    if (each.waits_for == record::WaitsFor::kNothing) continue;
    ++seen;
    const bool sends = each.side == record::Side::kSender;
    EXPECT_EQ(each.waits_for, sends ? record::WaitsFor::kClearToSend : record::WaitsFor::kData);
    EXPECT_EQ(each.oldest, 1U);
    EXPECT_EQ(each.oldest_bytes, sends ? 100U : 200U);
    EXPECT_NE(each.oldest_since_ns, 0U);
    EXPECT_GE(each.looked_ns, each.oldest_since_ns);
  }
  EXPECT_EQ(seen, 2);
  Memory<A> rest(other.send(), 8);
  finish<A>(startSend<A>(other.send(), rest.data(), 8, 1, rest.handle()));
  finish<A>(open);
}

}  // namespace
}  // namespace railwise::test
