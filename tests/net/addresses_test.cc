// Connections between ports whose addresses differ: the pair that can talk is found, or both ends say why
// not. Also when the addresses have changed since init.
#include <gtest/gtest.h>

#include <functional>

#include "loop_connection.h"
#include "port_control.h"
#include "said.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

// Two devices of this process, "one" and "two", with these keys.
class AddressesTest : public testing::Test {
 protected:
  void start(const std::string& one, const std::string& two) {
    net_ = acquireNet("name=one," + one + ";name=two," + two);
    context_ = std::make_unique<Context>(*net_, -1);
  }
  ~AddressesTest() override {
    context_.reset();
    if (net_ != nullptr) Net::release();
  }

  // From one to two; then one message. False: it failed.
  bool talks() { return talk(*net_->device(0), *net_->device(1)); }

  // `between`: is done once they are connected.
  bool talk(
      const Device& from, const Device& to, const std::function<void()>& between = [] {}) {
    char handle[kHandleBytes];
    Listener* listener = *context_->listen(to, handle);
    SendConnection* send = nullptr;
    ReceiveConnection* receive = nullptr;
    for (test::Patience patience; send == nullptr || receive == nullptr; patience.again()) {
      if (send == nullptr) {
        const Result<SendConnection*> connected = context_->connect(from, handle, -1);
        if (!connected.ok()) return false;
        send = *connected;
      }
      if (receive == nullptr) {
        const Result<ReceiveConnection*> accepted = Context::accept(*listener);
        if (!accepted.ok()) return false;
        receive = *accepted;
      }
    }
    between();
    return transfer(*send, *receive);
  }

  bool transfer(SendConnection& send, ReceiveConnection& receive) {
    char bytes[128] = "to be sent";
    const auto address = reinterpret_cast<uint64_t>(bytes);
    MemoryHandle* const from = *send.memory().acquire(address, sizeof bytes, MemoryKind::kHost);
    MemoryHandle* const to = *receive.memory().acquire(address, sizeof bytes, MemoryKind::kHost);
    const ReceiveBuffer buffer{address + 64, 64, 0, to};
    Request* received = nullptr;
    Request* sent = nullptr;
    bool good = receive.irecv({&buffer, 1}, false, &received).ok();
    bool arrived = false;
    bool done = false;
    for (test::Patience patience; good && !(arrived && done); patience.again()) {
      if (sent == nullptr) good = send.isend(address, 64, 0, from, nullptr, &sent).ok();
      else if (!done) good = sent->connection->test(*sent, &done, nullptr).ok();
      if (good && !arrived) good = received->connection->test(*received, &arrived, nullptr).ok();
    }
    send.memory().release(from);
    receive.memory().release(to);
    return good && std::string(bytes + 64) == "to be sent";
  }

  const test::Said said_;
  Net* net_ = nullptr;
  std::unique_ptr<Context> context_;
};

TEST_F(AddressesTest, TheFamilyThatBothHave) {
  start("gid=10.1.0.1/v2,gid=2001:db8::1/v2", "gid=2001:db8::2/v2");
  EXPECT_TRUE(talks()) << said_.warnings();
}

TEST_F(AddressesTest, TheVersionThatBothHave) {
  start("gid=10.1.0.1/v1,gid=10.1.0.1/v2", "gid=10.1.0.2/v1");
  EXPECT_TRUE(talks()) << said_.warnings();
}

TEST_F(AddressesTest, LinkLocalWhenThereIsNothingElse) {
  start("gid=fe80::1/v2", "gid=fe80::2/v2,gid=10.1.0.2/v2");
  EXPECT_TRUE(talks()) << said_.warnings();
}

TEST_F(AddressesTest, NoPairIsSaidWithBothEndsAddresses) {
  start("gid=10.1.0.1/v2", "gid=2001:db8::2/v2");
  EXPECT_FALSE(talks());
  EXPECT_HAS(said_.warnings(), "10.1.0.1");
  EXPECT_HAS(said_.warnings(), "2001:db8::2");
}

TEST_F(AddressesTest, OneVersionEachIsNoPair) {
  start("gid=10.1.0.1/v1", "gid=10.1.0.2/v2");
  EXPECT_FALSE(talks());
}

TEST_F(AddressesTest, AnAddressThatCameAfterInit) {
  start("gid=10.1.0.1/v2", "gid=10.1.0.2/v2");
  test::changePort("two:1", "gid=0=10.1.0.77");
  EXPECT_TRUE(talks()) << said_.warnings();
  test::changePort("one:1", "gid=0=::");
  test::changePort("one:1", "gid=4=10.1.0.66/v2");
  EXPECT_TRUE(talks()) << said_.warnings();
}

TEST_F(AddressesTest, APortWithoutAnAddressIsNamed) {
  start("gid=10.1.0.1/v2", "gid=10.1.0.2/v2");
  test::changePort("one:1", "gid=0=::");
  EXPECT_FALSE(talks());
  EXPECT_HAS(said_.warnings(), "one port 1: no usable GID");
}

TEST_F(AddressesTest, TheConnectionManagerUsesThePairThatBothHave) {
  const test::Setting manager("RAILWISE_CONNECT", "cm");
  start("gid=10.1.0.1/v2", "gid=2001:db8::2/v2,gid=10.1.0.2/v2");
  EXPECT_TRUE(talks()) << said_.warnings();
}

TEST_F(AddressesTest, TheConnectionManagerKeepsToTheFamily) {
  const test::Setting manager("RAILWISE_CONNECT", "cm");
  const test::Setting family("NCCL_IB_ADDR_FAMILY", "AF_INET6");
  start("gid=10.1.0.1/v2,gid=2001:db8::1/v2", "gid=10.1.0.2/v2,gid=2001:db8::2/v2");
  EXPECT_TRUE(talks()) << said_.warnings();
  EXPECT_HAS(said_.all(), "(2001:db8::1) sends to two");
  EXPECT_HAS(said_.all(), "(2001:db8::2) receives from one");
  EXPECT_LACKS(said_.all(), "(10.1.0.");
}

// The connecting end fails before it calls: the listening end has nobody to take for a stranger.
TEST_F(AddressesTest, TheConnectionManagerWithoutAnAddressCallsNobody) {
  const test::Setting manager("RAILWISE_CONNECT", "cm");
  start("gid=10.1.0.1/v2", "gid=10.1.0.2/v2");
  char handle[kHandleBytes];
  Listener* listener = *context_->listen(*net_->device(1), handle);
  test::changePort("one:1", "gid=0=::");
  EXPECT_FALSE(context_->connect(*net_->device(0), handle, -1).ok());
  EXPECT_HAS(said_.warnings(), "one port 1: RDMA CM finds no address");
  const Result<ReceiveConnection*> accepted = Context::accept(*listener);
  EXPECT_TRUE(accepted.ok() && *accepted == nullptr);
  EXPECT_LACKS(said_.warnings(), "stranger");
}

TEST_F(AddressesTest, AConnectionSaysWhichWayItTook) {
  start("gid=10.1.0.1/v2", "gid=10.1.0.2/v2");
  EXPECT_TRUE(talks()) << said_.warnings();
  EXPECT_HAS(said_.all(), "(10.1.0.1) sends to two of ");
  EXPECT_HAS(said_.all(), "(10.1.0.2) receives from one of ");
}

// Two rails at each end, of which the first of the sender reaches nothing.
TEST_F(AddressesTest, TheFirstRailMayReachNothing) {
  start("gid=10.1.0.1/v2", "gid=2001:db8::2/v2;name=three,gid=2001:db8::3/v2;name=four,gid=2001:db8::4/v2");
  const int first_two[] = {0, 1};
  const int last_two[] = {2, 3};
  EXPECT_TRUE(talk(*net_->device(*net_->makeVirtualDevice(first_two)),
                   *net_->device(*net_->makeVirtualDevice(last_two))))
      << said_.warnings();
}

// The ports that are left at the two ends cannot meet; others come back.
TEST_F(AddressesTest, RailsThatCannotMeetWaitForTheOthers) {
  start("gid=10.1.0.1/v2", "gid=2001:db8::2/v2;name=three,gid=10.1.0.3/v2;name=four,gid=2001:db8::4/v2");
  const int first_two[] = {0, 1};
  const int last_two[] = {2, 3};
  test::changePort("one:1", "down");
  test::changePort("four:1", "down");
  test::waitUntil([&] {
    const auto up = [&](int device) {
      const Rail& rail = net_->device(device)->rails().front();
      return rail.hca->state().active(rail.port.number);
    };
    return !up(0) && !up(3);
  });
  EXPECT_TRUE(talk(*net_->device(*net_->makeVirtualDevice(first_two)),
                   *net_->device(*net_->makeVirtualDevice(last_two)),
                   [&] { test::changePort("one:1", "up"); }))
      << said_.warnings();
}

TEST_F(AddressesTest, InfiniBandPortsOfOneSubnet) {
  start("link=ib", "link=ib");
  EXPECT_TRUE(talks()) << said_.warnings();
}

}  // namespace
}  // namespace railwise::net
