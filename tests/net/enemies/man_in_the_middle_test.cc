// Somebody between the two ends changes, cuts, repeats, swaps and drops what they say. While a connection
// comes up, that ends an attempt, with a line, and the peer calls again. Later it breaks the side channel,
// which is resumed. No byte arrives wrong, and no job ends.

#include <atomic>
#include <cstddef>
#include <cstring>

#include "net/enemies/middle.h"
#include "net/loop_traffic.h"
#include "net/tcp.h"
#include "net/wireup/authentication.h"
#include "net/wireup/frames.h"
#include "port_control.h"
#include "said.h"
#include "tests/ok.h"

namespace railwise::net {
namespace {

// A connection through somebody.
struct Between {
  explicit Between(Middle::Mischief mischief, const std::string& devices = "count=1")
      : middle(std::move(mischief)) {
    LoopConnection::on_the_way = [this](char* handle) { middle.stepBetween(handle); };
    loop.emplace(2 * kHalf, devices);
    LoopConnection::on_the_way = nullptr;
  }
  Middle middle;
  std::optional<LoopConnection> loop;
};

// Frames of this type that the listener's end has said over the connection's first TCP connection.
int saidByListener(const Middle& middle, MessageType type) {
  const std::string said = middle.said(From::kListener, 1);
  int count = 0;
  for (std::size_t at = kSaidByListener; at + sizeof(MessageHeader) <= said.size();) {
    MessageHeader header;
    std::memcpy(&header, said.data() + at, sizeof header);
    if (header.type == type) ++count;
    at += header.bytes + sizeof(FrameSeal);
  }
  return count;
}

// A peer that is stopped, or whose management network is silent, hears nothing for hours. Meanwhile the ports
// of the receiver come and go.
struct MiddleIsSilent : testing::Test {
  MiddleIsSilent()
      : between(
            [this](const Place&, std::string& bytes) {
              if (silent) bytes.clear();
              return true;
            },
            "count=3") {}
  void flap(const std::string& port, Request& receive) {
    for (const char* const change : {"down", "up", "down", "up", "down", "up"}) {
      test::changePort(port, change);
      for (const Deadline deadline = Deadline::after(std::chrono::milliseconds(50)); !deadline.passed();) {
        bool done = false;
        ASSERT_OK(between.loop->receiver().test(receive, &done, nullptr));
      }
    }
  }
  void finish(Request* receive) {
    ASSERT_TRUE(LoopConnection::finishBoth(receive, between.loop->sendWhenReady(0, 512)));
    EXPECT_TRUE(Traffic(*between.loop).run(8, 512));
  }
  std::atomic<bool> silent = false;
  Between between;
};

TEST_F(MiddleIsSilent, OneOfferIsUnderWayWhileAReceiverHasNoPath) {
  Request* const receive = between.loop->receive(1, kHalf, 512);
  ASSERT_NE(receive, nullptr);
  silent = true;
  flap("soft0:1", *receive);
  EXPECT_EQ(saidByListener(between.middle, MessageType::kReconcile), 1);
  silent = false;
  finish(receive);
}

TEST_F(MiddleIsSilent, OneOfferIsUnderWayWhileDataGoOn) {
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(Traffic(*between.loop).run(8, 512));
  ASSERT_EQ(between.loop->receiver().epoch(), 2U);
  Request* const receive = between.loop->receive(1, kHalf, 512);
  ASSERT_NE(receive, nullptr);
  silent = true;
  const int before = saidByListener(between.middle, MessageType::kRails);
  flap("soft0:1", *receive);
  EXPECT_LE(saidByListener(between.middle, MessageType::kRails), before + 1);
  silent = false;
  finish(receive);
}

TEST(Middle, WhoOnlyListensChangesNothingAndLearnsNoSecret) {
  Between between(harmless, "count=2");
  Traffic traffic(*between.loop);
  ASSERT_TRUE(traffic.run(16, 512));
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(16, 512));
  EXPECT_EQ(between.middle.calls(), 1);
  const std::string secret(reinterpret_cast<const char*>(between.middle.handle().secret.bytes),
                           sizeof(Secret));
  const std::string connector = between.middle.said(From::kConnector, 1);
  const std::string listener = between.middle.said(From::kListener, 1);
  EXPECT_GT(connector.size(), kSaidByConnector) << "no frame was sent";
  EXPECT_GT(listener.size(), kSaidByListener) << "no frame was sent";
  for (const std::string& said : {connector, listener}) {
    // Nor a half of it.
    EXPECT_LACKS(said, secret.substr(0, 8));
    EXPECT_LACKS(said, secret.substr(8));
  }
}

// What is done at a place in the handshake ends the first call, and the second call is good.
class MiddleOfHandshake : public testing::TestWithParam<Spot> {
 protected:
  // The connection comes up all the same, and works.
  static void expectSecondCall(Middle::Mischief mischief, const std::string& line) {
    const test::Said said;
    Between between(std::move(mischief));
    EXPECT_EQ(between.middle.calls(), 2) << said.all();
    EXPECT_TRUE(Traffic(*between.loop).run(8, 512)) << said.all();
    EXPECT_HAS(said.all(), line);
  }
};

TEST_P(MiddleOfHandshake, AChangedByteEndsACall) {
  const Spot spot = GetParam();
  expectSecondCall(changeByte(spot.from, spot.at),
                   spot.from == From::kConnector ? "a stranger called" : "calling again");
}

TEST_P(MiddleOfHandshake, ACutEndsACall) {
  const Spot spot = GetParam();
  expectSecondCall(cutBefore(spot.from, spot.at), "calling again");
}

std::vector<Spot> spots(uint64_t step) {
  std::vector<Spot> all;
  const auto add = [&](From from, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += step) all.push_back({from, at});
    all.push_back({from, bytes - 1});
  };
  add(From::kConnector, sizeof(ConnectRequest));
  add(From::kListener, sizeof(ConnectReply));
  return all;
}
std::vector<Spot> beginsOfFields() {
  std::vector<Spot> all;
  for (const std::size_t at :
       {offsetof(MessageHeader, version), offsetof(MessageHeader, type), offsetof(MessageHeader, bytes)}) {
    all.push_back({From::kConnector, at});
    all.push_back({From::kListener, at});
  }
  for (const std::size_t at : {offsetof(ConnectRequest, random), offsetof(ConnectRequest, hello),
                               offsetof(ConnectRequest, end), offsetof(ConnectRequest, mac)})
    all.push_back({From::kConnector, at});
  for (const std::size_t at : {offsetof(ConnectReply, random), offsetof(ConnectReply, accepted),
                               offsetof(ConnectReply, reason), offsetof(ConnectReply, mac)})
    all.push_back({From::kListener, at});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Fields, MiddleOfHandshake, testing::ValuesIn(beginsOfFields()));
INSTANTIATE_TEST_SUITE_P(CampaignSteps, MiddleOfHandshake, testing::ValuesIn(spots(53)));

TEST(Middle, WhoForgesARefusalDoesNotEndTheJob) {
  const test::Said said;
  Between between([](const Place& place, std::string& bytes) {
    if (place.from == From::kListener && place.call == 1 && place.at == 0 &&
        bytes.size() == sizeof(ConnectReply)) {
      ConnectReply reply;
      std::memcpy(&reply, bytes.data(), sizeof reply);
      reply.accepted = 0;
      copyText(reply.reason, "go away");
      std::memcpy(bytes.data(), &reply, sizeof reply);
    }
    return true;
  });
  EXPECT_TRUE(Traffic(*between.loop).run(8, 512));
  EXPECT_LACKS(said.all(), "go away") << "a stranger's words are in the log";
  EXPECT_HAS(said.warnings(), "does not prove that it knows the secret") << said.all();
}

// The enemy keeps a call of the peer open towards the listener, which waits there, while the peer calls
// again.
TEST(Middle, WhoHoldsACallDoesNotHoldTheListener) {
  const test::Said said;
  Between between([](const Place& place, std::string& bytes) {
    if (place.from == From::kListener && place.call == 1) bytes[0] = static_cast<char>(~bytes[0]);
    return true;
  });
  EXPECT_EQ(between.middle.calls(), 2);
  EXPECT_TRUE(Traffic(*between.loop).run(8, 512));
}

TEST(Middle, WhoChangesEveryAnswerEndsTheAttemptWithALine) {
  LoopConnection plain(2 * kHalf);  // makes the device
  const test::Said said;
  Middle middle(changeByte(From::kListener, 100, 1000));
  char handle[kHandleBytes];
  Listener* const listener = *plain.context().listen(plain.device(), handle);
  middle.stepBetween(handle);
  Status status;
  for (test::Patience patience; status.ok(); patience.again()) {
    const Result<SendConnection*> connected = plain.context().connect(plain.device(), handle, -1);
    status = connected.status();
    ASSERT_TRUE(!connected.ok() || *connected == nullptr);
    ASSERT_TRUE(Context::accept(*listener).ok()) << said.all();
  }
  EXPECT_EQ(middle.calls(), 10) << said.all();
  EXPECT_HAS(said.warnings(), "connecting to") << said.all();
  EXPECT_HAS(said.warnings(), "does not prove") << said.all();
  Context::close(listener);
  EXPECT_TRUE(Traffic(plain).run(8, 512));
}

// The sender goes on without knowing whether the last message of the handshake has arrived. When its TCP
// connection ends, it proves itself to the receiver's Resumer, and that is as good.
TEST(Middle, WhoChangesTheLastMessageEndsNothing) {
  for (const std::size_t at : kSpotsOfReady) {
    const test::Said said;
    Between between(changeByte(From::kConnector, sizeof(ConnectRequest) + at), "count=2");
    EXPECT_EQ(between.middle.calls(), 1) << said.all();
    EXPECT_HAS(said.warnings(), "waiting for it to call again") << said.all();
    Traffic traffic(*between.loop);
    ASSERT_TRUE(traffic.run(16, 512)) << said.all();
    test::changePort("soft0:1", "down");
    ASSERT_TRUE(traffic.run(16, 512)) << said.all();
    test::changePort("soft0:1", "up");
  }
}

TEST(Middle, WhoCutsTheLastMessageOffEndsNothing) {
  for (const std::size_t at : kSpotsOfReady) {
    const test::Said said;
    Between between(cutBefore(From::kConnector, sizeof(ConnectRequest) + at), "count=2");
    EXPECT_EQ(between.middle.calls(), 1) << said.all();
    Traffic traffic(*between.loop);
    ASSERT_TRUE(traffic.run(16, 512)) << said.all();
    test::changePort("soft0:1", "down");
    ASSERT_TRUE(traffic.run(16, 512)) << said.all();
    test::changePort("soft0:1", "up");
  }
}

// Without failover nobody resumes a side channel.
TEST(Middle, WithoutFailoverWhoChangesTheLastMessageEndsTheConnection) {
  const test::Setting no_failover("RAILWISE_FAILOVER", "0");
  LoopConnection plain(2 * kHalf);
  for (const std::size_t at : kSpotsOfReady) {
    const test::Said said;
    Middle middle(changeByte(From::kConnector, sizeof(ConnectRequest) + at));
    char handle[kHandleBytes];
    Listener* const listener = *plain.context().listen(plain.device(), handle);
    middle.stepBetween(handle);
    SendConnection* send = nullptr;
    const auto refused = [&] {
      return said.warnings().find("waiting for it to call again") != std::string::npos;
    };
    for (test::Patience patience; send == nullptr || !refused(); patience.again()) {
      if (send == nullptr) send = *plain.context().connect(plain.device(), handle, -1);
      const Result<ReceiveConnection*> accepted = Context::accept(*listener);
      ASSERT_TRUE(accepted.ok());
      ASSERT_EQ(*accepted, nullptr);
    }
    Status status;
    Request* request = nullptr;
    for (test::Patience patience; status.ok() && request == nullptr; patience.again())
      status = send->isend(plain.address(0), 8, 0, plain.memory(), nullptr, &request);
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(status.code, Code::kRemote);
    Context::close(listener);
    Context::close(send);
  }
}

// ---- the side channel breaks

// Nothing is sent over it before a port fails: the cut is noticed, and the channel resumed, all the same.
TEST(Middle, ACutWhileAllIsWellIsMended) {
  for (const bool reset : {false, true}) {
    const test::Said said;
    Between between(harmless, "count=2");
    Traffic traffic(*between.loop);
    ASSERT_TRUE(traffic.run(16, 512));
    between.middle.cut(reset);
    ASSERT_TRUE(traffic.run(64, 512)) << said.all();
    test::waitUntil([&] {
      return said.all().find("the side channel goes on over a new TCP connection") != std::string::npos;
    });
    test::changePort("soft0:1", "down");
    ASSERT_TRUE(traffic.run(16, 512)) << said.all();
    test::changePort("soft0:1", "up");
    EXPECT_EQ(between.middle.calls(), 1);
  }
}

// Both at once, again and again.
TEST(Middle, CutsDuringRecoveriesAreMended) {
  const test::Said said;
  Between between(harmless, "count=2");
  Traffic traffic(*between.loop);
  for (int i = 0; i < 6; ++i) {
    const std::string port = "soft" + std::to_string(i % 2) + ":1";
    test::changePort(port, "down");
    test::cutTcp();
    ASSERT_TRUE(traffic.run(24, 512)) << i << said.all();
    test::changePort(port, "up");
  }
}

// ---- frames

// Keeps connections failing over until one fails, or `most` have not failed.
bool survives(Between& between, int most) {
  Traffic traffic(*between.loop);
  for (int i = 0; i < most; ++i) {
    const std::string port = "soft" + std::to_string(i % 2) + ":1";
    test::changePort(port, "down");
    const bool goes_on = traffic.run(24, 512);
    test::changePort(port, "up");
    if (!goes_on) return false;
  }
  return true;
}

// The log says that the side channel was resumed.
void expectResumed(const test::Said& said) {
  EXPECT_HAS(said.all(), "the side channel goes on over a new TCP connection");
}

class MiddleOfFrames : public testing::TestWithParam<Spot> {};

TEST_P(MiddleOfFrames, AChangedByteBreaksTheSideChannelWithALine) {
  const auto [from, at] = GetParam();
  const test::Said said;
  Between between(changeByte(from, firstFrame(from) + at), "count=2");
  EXPECT_TRUE(survives(between, 4)) << said.all();
  expectResumed(said);
  // A changed type may make a frame longer: then the line comes with the bytes of the next frame, or none.
}
TEST_P(MiddleOfFrames, ACutIsMended) {
  const auto [from, at] = GetParam();
  const test::Said said;
  Between between(cutBefore(from, firstFrame(from) + at), "count=2");
  EXPECT_TRUE(survives(between, 4)) << said.all();
  expectResumed(said);
  EXPECT_LACKS(said.warnings(), "somebody sent") << said.all();
}
std::vector<Spot> spotsOfFrames(uint64_t step, uint64_t most) {
  std::vector<Spot> all;
  for (uint64_t at = 0; at < most; at += step) {
    all.push_back({From::kConnector, at});
    all.push_back({From::kListener, at});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Frames, MiddleOfFrames, testing::ValuesIn(spotsOfFrames(700, 4200)));
INSTANTIATE_TEST_SUITE_P(CampaignSteps, MiddleOfFrames, testing::ValuesIn(spotsOfFrames(61, 6000)));

class TrickWithFrames : public testing::TestWithParam<std::tuple<From, Trick>> {};

TEST_P(TrickWithFrames, BreaksTheSideChannelWithALine) {
  const auto [from, trick] = GetParam();
  const test::Said said;
  Between between(playTrick(from, trick), "count=2");
  EXPECT_TRUE(survives(between, 4)) << said.all();
  expectResumed(said);
  EXPECT_HAS(said.warnings(), "over the side channel: making a new TCP connection") << said.all();
}
INSTANTIATE_TEST_SUITE_P(Frames, TrickWithFrames,
                         testing::Combine(testing::Values(From::kConnector, From::kListener),
                                          testing::ValuesIn(allTricks())));

}  // namespace
}  // namespace railwise::net
