// How the two ends learn that the other one has given a handshake up, or has died in it.

#include <cstring>

#include "loop_connection.h"
#include "net/enemies/middle.h"
#include "port_control.h"
#include "said.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

TEST(GivenUp, TheConnectorSaysWhy) {
  const test::Setting no_failover("RAILWISE_FAILOVER", "0");
  LoopConnection loop(4096);
  const test::Said said;
  char handle[kHandleBytes];
  Listener* const listener = *loop.context().listen(loop.device(), handle);
  // 1 and 2: to INIT, at both ends; 3 and 4: to RTR and RTS at the listener; 5: to RTR at the connector.
  test::addFault("verb=modify_qp nth=5 every=1 errno=EINVAL");
  Status connected, accepted;
  for (test::Patience patience; connected.ok() || accepted.ok(); patience.again()) {
    if (connected.ok()) connected = loop.context().connect(loop.device(), handle, -1).status();
    if (accepted.ok()) accepted = Context::accept(*listener).status();
  }
  EXPECT_EQ(connected.code, Code::kRemote);
  EXPECT_EQ(accepted.code, Code::kRemote);
  EXPECT_HAS(said.warnings(), "gives up: no path to the peer's queue pairs");
  Context::close(listener);
}

// One of two queue pairs is connected when the device refuses the other. The sender goes elsewhere, and
// nothing proves that the first one takes no more of the listener's clear-to-sends.
TEST(GivenUp, ASenderLeavesTheWindowOfAConnectedQueuePair) {
  const test::Setting two("NCCL_IB_QPS_PER_CONNECTION", "2");
  LoopConnection loop(4096, "count=2");
  Middle middle([](const Place&, std::string&) { return true; });
  char handle[kHandleBytes];
  Listener* const listener = *loop.context().listen(loop.device(), handle);
  middle.stepBetween(handle);
  // 1 to 4: to INIT, at both ends; 5 to 8: to RTR and RTS at the listener; 9 and 10: so for the first one at
  // the connector. From then on the driver refuses to change any.
  test::addFault("device=soft0 verb=modify_qp nth=11 every=1 errno=EBUSY");
  SendConnection* send = nullptr;
  ReceiveConnection* receive = nullptr;
  for (test::Patience patience; send == nullptr || receive == nullptr; patience.again()) {
    if (send == nullptr) send = *loop.context().connect(loop.device(), handle, -1);
    if (receive == nullptr) receive = *Context::accept(*listener);
  }
  ConnectRequest request;
  const std::string said = middle.said(From::kConnector, 1);
  ASSERT_GE(said.size(), sizeof request);
  std::memcpy(&request, said.data(), sizeof request);
  EXPECT_FALSE(send->running());
  EXPECT_NE(send->link().window->address(), request.end.window_address);
  Context::close(listener);
}

// The path to the listener's queue pairs is never resolved.
TEST(GivenUp, TheConnectorSaysThatItsTimeIsUp) {
  const test::Setting connect_timeout("RAILWISE_CONNECT_TIMEOUT", "3");
  LoopConnection loop(4096);
  const test::Said said;
  char handle[kHandleBytes];
  Listener* const listener = *loop.context().listen(loop.device(), handle);
  test::addFault("verb=modify_qp nth=5 every=1 errno=ETIMEDOUT");
  Status connected, accepted;
  // The listener answers within a second. After that only the connector looks at the time.
  const Deadline answered = Deadline::after(std::chrono::seconds(1));
  for (test::Patience patience; connected.ok() || accepted.ok(); patience.again()) {
    if (connected.ok()) connected = loop.context().connect(loop.device(), handle, -1).status();
    if (accepted.ok() && (!answered.passed() || !connected.ok()))
      accepted = Context::accept(*listener).status();
  }
  EXPECT_HAS(said.warnings(), "gives up: no path to the peer's queue pairs in RAILWISE_CONNECT_TIMEOUT=3 s");
  Context::close(listener);
}

// Instantiated as a full test: it takes ten seconds.
class DiedInTheHandshake : public testing::TestWithParam<From> {};

TEST_P(DiedInTheHandshake, EndsTheWait) {
  LoopConnection loop(4096);
  const test::Said said;
  // Not a byte of the answer arrives: with the answer, the connector could be done before it is cut off.
  Middle middle([](const Place& place, std::string& bytes) {
    const bool goes_on = place.from != GetParam();
    if (!goes_on) bytes.clear();
    return goes_on;
  });
  char handle[kHandleBytes];
  Listener* const listener = *loop.context().listen(loop.device(), handle);
  middle.stepBetween(handle);
  Status accepted;
  const auto heard = [&] {
    return said.warnings().find("waiting for it to call again") != std::string::npos;
  };
  for (test::Patience patience; accepted.ok(); patience.again()) {
    if (!heard()) ASSERT_EQ(*loop.context().connect(loop.device(), handle, -1), nullptr);
    accepted = Context::accept(*listener).status();
  }
  EXPECT_EQ(accepted.code, Code::kRemote);
  EXPECT_HAS(said.warnings(), "the peer has not called again");
  // The listener is over: who calls now hears so in seconds, though nobody closes it.
  EXPECT_EQ(Context::accept(*listener).status().code, Code::kRemote);
  Status connected;
  for (test::Patience patience; connected.ok(); patience.again())
    connected = loop.context().connect(loop.device(), handle, -1).status();
  EXPECT_EQ(connected.code, Code::kRemote);
  Context::close(listener);
}
INSTANTIATE_TEST_SUITE_P(Full, DiedInTheHandshake, testing::Values(From::kListener));

}  // namespace
}  // namespace railwise::net
