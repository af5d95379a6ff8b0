// railwise device fault, port and stats, on a fabric that the test itself is on.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

#include "process.h"
#include "softdev/softdev.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

class DeviceFault : public testing::Test {
 protected:
  DeviceFault() {
    const std::string config = "fabric=" + fabric_ + ";host=A,name=one0,link=ib;name=two0";
    if (!softdev::configure(config.c_str()).ok()) throw std::runtime_error("configure");
    ibv_device** list = softdev::getDeviceList(nullptr);
    context_ = softdev::openDevice(list[0]);
    softdev::freeDeviceList(list);
    if (context_ == nullptr) throw std::runtime_error("openDevice");
  }
  ~DeviceFault() override { softdev::closeDevice(context_); }

  ProcessResult railwise(std::vector<std::string> args) const {
    args.insert(args.begin(), "device");
    args.push_back("--fabric=" + fabric_);
    return runProcess(RAILWISE_CLI, args);
  }

  const std::string fabric_ = "faulttest" + std::to_string(getpid());
  ibv_context* context_ = nullptr;
};

TEST_F(DeviceFault, RulesAreAddedListedAndRemoved) {
  const auto added = succeeded(railwise({"fault", "add", "verb=alloc_pd", "nth=1", "errno=ENOSPC"}));
  EXPECT_EQ(added.out, "1  verb=alloc_pd nth=1 errno=ENOSPC\n");
  EXPECT_EQ(railwise({"fault", "add", "opcode=write drop=2"}).out, "2  opcode=write drop=2\n");
  errno = 0;
  EXPECT_EQ(softdev::allocPd(context_), nullptr);
  EXPECT_EQ(errno, ENOSPC);
  const auto list = railwise({"fault", "list", "--format", "json"});
  EXPECT_HAS(list.out, "\"state\": \"spent\"");
  EXPECT_HAS(list.out, "\"state\": \"armed\"");
  EXPECT_HAS(railwise({"fault", "list"}).out, "opcode=write drop=2");
  const auto log = railwise({"fault", "log"});
  EXPECT_HAS(log.out, "alloc_pd  errno=ENOSPC");
  const auto json = railwise({"fault", "log", "-f", "json"});
  EXPECT_HAS(json.out, "\"operation\": \"alloc_pd\"");
  EXPECT_EQ(railwise({"fault", "log", "--after", "1"}).out, "");
  EXPECT_EQ(railwise({"fault", "remove", "2"}).status, 0);
  EXPECT_EQ(railwise({"fault", "remove", "2"}).status, 1);
  EXPECT_EQ(railwise({"fault", "clear"}).out, "1 rules removed\n");
}

TEST_F(DeviceFault, MistakesAreNamed) {
  EXPECT_HAS(endedWith(2, railwise({"fault", "add", "opcode=wirte", "drop"})).err,
             "\"opcode=wirte\": expected any or names joined by +: write, ");
  EXPECT_EQ(railwise({"fault"}).status, 2);
  EXPECT_EQ(railwise({"fault", "add"}).status, 2);
  EXPECT_EQ(railwise({"fault", "remove", "x"}).status, 2);
  EXPECT_HAS(railwise({"fault", "lsit"}).err, "did you mean 'list'?");
  EXPECT_EQ(railwise({"port", "one0", "sideways"}).status, 2);
  EXPECT_HAS(railwise({"port", "nine", "down"}).err, "open are A/one0:1");
  EXPECT_EQ(railwise({"port", "B/*:1", "down"}).status, 2);
  EXPECT_HAS(railwise({"port", "one0"}).err, "what shall happen");
  EXPECT_HAS(railwise({"stats", "--by", "moon"}).err, "one of process, device, port, qp");
}

TEST_F(DeviceFault, NobodyIsThere) {
  for (const char* command : {"stats", "port"}) {
    EXPECT_HAS(
        endedWith(1, runProcess(RAILWISE_CLI, {"device", command, "--fabric", "nobody" + fabric_})).err,
        "no process is on fabric nobody" + fabric_ + " of user ");
  }
}

TEST_F(DeviceFault, PortsAreListedAndChanged) {
  const auto ports = railwise({"port"});
  EXPECT_HAS(ports.out, "one0") << ports.err;
  EXPECT_HAS(ports.out, "active");
  EXPECT_EQ(railwise({"port", "A/one0:1", "speed=100000", "down"}).status, 0);
  ibv_port_attr attr{};
  ASSERT_EQ(softdev::queryPort(context_, 1, &attr), 0);
  EXPECT_EQ(attr.state, IBV_PORT_DOWN);
  const auto json = railwise({"port", "--format=json"});
  EXPECT_HAS(json.out, "\"active\": false");
  EXPECT_HAS(json.out, "\"speed_mbps\": 100000");
  EXPECT_HAS(railwise({"fault", "log"}).out, "command  port=down");
}

TEST_F(DeviceFault, Statistics) {
  ibv_cq* cq = softdev::createCq(context_, 4, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
  const auto text = railwise({"stats"});
  EXPECT_HAS(text.out, "empty_polls") << text.err;
  EXPECT_HAS(text.out, std::to_string(getpid()));
  const auto json = railwise({"stats", "--by=device", "-fjson"});
  EXPECT_HAS(json.out, "\"empty_polls\": 1");
  EXPECT_LACKS(railwise({"stats", "--by", "port"}).out, "empty_polls");
  EXPECT_EQ(softdev::destroyCq(cq), 0);
}

TEST_F(DeviceFault, TheLogIsFollowedToTheEnd) {
  Process follower(RAILWISE_CLI, {"device", "fault", "log", "--follow", "--fabric=" + fabric_});
  EXPECT_EQ(railwise({"port", "one0", "down"}).status, 0);
  EXPECT_TRUE(follower.waitForOut("port=down"));
  EXPECT_EQ(railwise({"port", "A/*:1", "up"}).out, "1 port changed: A/one0:1\n");
  EXPECT_TRUE(follower.waitForOut("port=up"));
  kill(follower.pid(), SIGTERM);
  (void)follower.wait();
}

}  // namespace
}  // namespace railwise::cli
