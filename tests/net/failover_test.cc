// A connection goes on when a port, a device, a queue pair or a way fails, and nothing is lost or comes
// twice.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "loop_connection.h"
#include "port_control.h"
#include "said.h"

namespace railwise::net {
namespace {

constexpr std::size_t kHalf = 1 << 20;

// Sends and receives in rows, each message different, and checks every byte.
class Traffic {
 public:
  explicit Traffic(LoopConnection& loop) : loop_(loop) {}

  // `count` messages of `bytes`, `window` at a time. False: a call failed.
  bool run(int count, std::size_t bytes, int window = 8) {
    for (int begin = 0; begin < count; begin += window) {
      if (!row(std::min(window, count - begin), bytes)) return false;
    }
    return true;
  }

 private:
  bool row(int messages, std::size_t bytes) {
    std::vector<Request*> requests;
    for (int i = 0; i < messages; ++i) {
      fill(i, bytes);
      Request* receive = nullptr;
      while (receive == nullptr) {
        const ReceiveBuffer buffer = {at(kHalf, i, bytes), bytes, 0, loop_.memory(), nullptr};
        if (!loop_.receiver().irecv({&buffer, 1}, false, &receive).ok()) return false;
        if (receive == nullptr && !nudge(requests)) return false;
      }
      requests.push_back(receive);
    }
    for (int i = 0; i < messages; ++i) {
      Request* send = nullptr;
      while (send == nullptr) {
        if (!loop_.sender().isend(at(0, i, bytes), bytes, 0, loop_.memory(), nullptr, &send).ok())
          return false;
        if (send == nullptr && !nudge(requests)) return false;
      }
      requests.push_back(send);
    }
    while (!requests.empty()) {
      if (!nudge(requests)) return false;
    }
    for (int i = 0; i < messages; ++i) {
      const auto offset = static_cast<std::size_t>(i) * bytes;
      EXPECT_EQ(std::memcmp(loop_.at(offset), loop_.at(kHalf + offset), bytes), 0) << "message " << i;
    }
    return true;
  }
  // Tests every request once, as a thread with both ends does.
  static bool nudge(std::vector<Request*>& requests) {
    for (std::size_t i = 0; i < requests.size();) {
      bool done = false;
      if (!requests[i]->connection->test(*requests[i], &done, nullptr).ok()) return false;
      if (done) requests.erase(requests.begin() + static_cast<std::ptrdiff_t>(i));
      else ++i;
    }
    return true;
  }
  void fill(int i, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; ++at) {
      loop_.at(static_cast<std::size_t>(i) * bytes)[at] = static_cast<char>(random_());
      loop_.at(kHalf + static_cast<std::size_t>(i) * bytes)[at] = 0;
    }
  }
  uint64_t at(std::size_t base, int i, std::size_t bytes) const {
    return loop_.address(base + static_cast<std::size_t>(i) * bytes);
  }

  LoopConnection& loop_;
  std::minstd_rand random_{1};
};

TEST(Failover, GoesToAStandbyWhenItsPortDies) {
  LoopConnection loop(2 * kHalf, "count=2");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(64, 512));
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(64, 512));
  EXPECT_EQ(loop.sender().epoch(), 2U);
  EXPECT_STREQ(loop.sender().rails().front().name, "soft1");
  ASSERT_TRUE(traffic.run(16, 60'000));
}

TEST(Failover, GoesOnAfterOneFailedCompletion) {
  for (const char* status :
       {"loc_prot_err", "rem_access_err", "retry_exc_err", "wr_flush_err", "general_err"}) {
    LoopConnection loop(2 * kHalf, std::string("count=1;fault opcode=write_imm nth=20 status=") + status);
    ASSERT_TRUE(Traffic(loop).run(128, 512)) << status;
    EXPECT_GE(loop.sender().epoch(), 2U) << status;
    EXPECT_STREQ(loop.sender().rails().front().name, "soft0");
  }
}

TEST(Failover, AFusedDeviceGoesOnWithTheRest) {
  LoopConnection loop(2 * kHalf, "count=3", 2);
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(32, 100'000));
  test::changePort("soft1:1", "down");
  ASSERT_TRUE(traffic.run(32, 100'000));
  EXPECT_EQ(loop.sender().rails().size(), 1U);
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(32, 100'000));
  EXPECT_STREQ(loop.sender().rails().front().name, "soft2");
}

TEST(Failover, SaysWhatItTriedWhenNothingIsLeft) {
  setenv("RAILWISE_FAILOVER_TIMEOUT", "1", 1);
  LoopConnection loop(2 * kHalf, "count=2");
  unsetenv("RAILWISE_FAILOVER_TIMEOUT");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const test::Said said;
  test::changePort("soft0:1", "down");
  test::changePort("soft1:1", "down");
  EXPECT_FALSE(traffic.run(8, 512));
  EXPECT_NE(said.all().find("no way to the peer is left"), std::string::npos) << said.all();
  EXPECT_NE(said.all().find("soft1 port 1 down"), std::string::npos) << said.all();
}

// A send with a tag that nobody wants opens the group of a receive that another then goes straight to.
TEST(Failover, SendsAgainWhatWentStraightAfterAWrongTag) {
  LoopConnection loop(2 * kHalf, "count=2;fault opcode=write_imm nth=2 status=general_err");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(1, 64));
  Request* const receive = loop.receive(1, kHalf, 64);
  Request* send = nullptr;
  ASSERT_TRUE(loop.sender().isend(loop.address(0), 64, 99, loop.memory(), nullptr, &send).ok());
  ASSERT_EQ(send, nullptr);
  while (send == nullptr) {
    ASSERT_TRUE(loop.sender().isend(loop.address(0), 64, 0, loop.memory(), nullptr, &send).ok());
    bool done = false;
    ASSERT_TRUE(receive->connection->test(*receive, &done, nullptr).ok());
    ASSERT_FALSE(done);
  }
  bool sent = false;
  for (bool received = false; !received || !sent;) {
    if (!sent) ASSERT_TRUE(send->connection->test(*send, &sent, nullptr).ok());
    if (!received) ASSERT_TRUE(receive->connection->test(*receive, &received, nullptr).ok());
  }
  EXPECT_EQ(std::memcmp(loop.at(0), loop.at(kHalf), 64), 0);
  EXPECT_EQ(loop.sender().epoch(), 2U);
}

// Several lanes: what has arrived out of order stays so through several settlements.
TEST(Failover, SurvivesFailuresInARowOverSeveralRails) {
  LoopConnection loop(
      2 * kHalf,
      "count=4;fault opcode=write_imm every=23 status=general_err;fault verb=create_qp every=5 errno=ENOMEM",
      3);
  ASSERT_TRUE(Traffic(loop).run(400, 20'000, 16));
  EXPECT_GE(loop.sender().epoch(), 10U);
}

TEST(Failover, SurvivesOneFailureAfterTheOther) {
  LoopConnection loop(2 * kHalf, "count=2;fault opcode=write+write_imm every=97 status=general_err");
  ASSERT_TRUE(Traffic(loop).run(2000, 256));
  EXPECT_GE(loop.sender().epoch(), 10U);
}

// Traffic until `goal`, for 20 s at most.
template <typename Goal>
bool until(Traffic& traffic, Goal&& goal) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (!goal()) {
    if (deadline.passed() || !traffic.run(8, 512)) return false;
  }
  return true;
}

TEST(Failback, GoesBackWhenThePortHasRecovered) {
  LoopConnection loop(2 * kHalf, "count=2");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(8, 512));
  ASSERT_STREQ(loop.sender().rails().front().name, "soft1");
  test::changePort("soft0:1", "up");
  EXPECT_TRUE(until(traffic, [&] {
    return std::string(loop.sender().rails().front().name) == "soft0" && loop.sender().running();
  }));
  EXPECT_EQ(loop.sender().epoch(), 3U);
}

TEST(Failback, AFusedDeviceGetsItsRailBack) {
  LoopConnection loop(2 * kHalf, "count=2", 2);
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  test::changePort("soft1:1", "down");
  ASSERT_TRUE(traffic.run(8, 512));
  ASSERT_EQ(loop.sender().rails().size(), 1U);
  test::changePort("soft1:1", "up");
  EXPECT_TRUE(until(traffic, [&] { return loop.sender().rails().size() == 2U && loop.sender().running(); }));
}

}  // namespace
}  // namespace railwise::net
