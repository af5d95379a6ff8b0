// The side channel: frames in whatever pieces, answers that need no thread of the connection, and what is no
// frame.
#include "net/wireup/side_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "said.h"

namespace railwise::net {
namespace {

struct SideChannelTest : testing::Test {
  SideChannelTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    channel_.open(Socket(ends[0]), nullptr);
    peer_ = Socket(ends[1]);
  }
  template <typename Frame>
  void say(const Frame& frame, std::size_t bytes = sizeof(Frame)) {
    EXPECT_EQ(write(peer_.fd(), &frame, bytes), static_cast<ssize_t>(bytes));
  }
  template <typename Frame>
  std::optional<Frame> hear() {
    Frame frame;
    const ssize_t got = read(peer_.fd(), &frame, sizeof frame);
    return got == static_cast<ssize_t>(sizeof frame) ? std::optional(frame) : std::nullopt;
  }
  static BreakFrame breakOf(uint64_t epoch) {
    auto frame = makeMessage<BreakFrame>(MessageType::kBreak);
    frame.epoch = epoch;
    return frame;
  }

  verbs::FatalFlag bell_;
  SharedNumber number_ = 5;
  SideChannel channel_{bell_, Direction::kReceive, number_};
  Socket peer_;
};

TEST_F(SideChannelTest, AFrameMayComeByteByByte) {
  const BreakFrame frame = breakOf(2);
  const auto* const bytes = reinterpret_cast<const char*>(&frame);
  for (std::size_t i = 0; i < sizeof frame; ++i) {
    EXPECT_EQ(channel_.next(), std::nullopt);
    say(bytes[i]);
  }
  const auto heard = channel_.next();
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(std::memcmp(heard->data(), &frame, sizeof frame), 0);
  EXPECT_TRUE(bell_.raised());
}

TEST_F(SideChannelTest, ABreakIsAnsweredWithWhatHasArrivedUntilItIsSettled) {
  say(breakOf(2));
  ASSERT_TRUE(channel_.next().has_value());
  EXPECT_EQ(hear<ArrivedFrame>()->number, 5U);
  EXPECT_TRUE(channel_.tick());
  EXPECT_FALSE(hear<ArrivedFrame>().has_value()) << "nothing has changed";
  number_ = 6;
  EXPECT_TRUE(channel_.tick());
  EXPECT_EQ(hear<ArrivedFrame>()->number, 6U);
  channel_.breakIsAnswered();
  number_ = 7;
  EXPECT_FALSE(channel_.tick());
  EXPECT_FALSE(hear<ArrivedFrame>().has_value());
}

TEST_F(SideChannelTest, WhatIsNoFrameEndsIt) {
  const char text[64] = "GET / HTTP/1.1";
  say(text);
  EXPECT_EQ(channel_.next(), std::nullopt);
  EXPECT_TRUE(channel_.ended());
  EXPECT_EQ(channel_.problem(), "bytes that are no frame");
}

TEST_F(SideChannelTest, AFrameWithImpossibleFieldsEndsIt) {
  auto frame = makeMessage<ProposeFrame>(MessageType::kPropose);
  frame.rails = 200;
  say(frame);
  EXPECT_EQ(channel_.next(), std::nullopt);
  EXPECT_TRUE(channel_.ended());
  EXPECT_NE(channel_.problem(), "");
}

TEST_F(SideChannelTest, WhatCameBeforeTheEndIsHeard) {
  say(breakOf(2));
  peer_.close();
  EXPECT_TRUE(channel_.next().has_value());
  EXPECT_FALSE(channel_.next().has_value());
  EXPECT_TRUE(channel_.ended());
}

}  // namespace
}  // namespace railwise::net
