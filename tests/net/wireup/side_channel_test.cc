// The side channel: frames in whatever pieces, answers that need no thread of the connection, and what is no
// frame.
#include "net/wireup/side_channel.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

struct SideChannelTest : testing::Test {
  SideChannelTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    channel_.open(Socket(ends[0]), nullptr, keys_);
    peer_ = Socket(ends[1]);
  }
  void write(const std::vector<std::byte>& bytes) {
    EXPECT_EQ(::write(peer_.fd(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  // The frame with its seal, as the peer sends it.
  template <typename Frame>
  std::vector<std::byte> sealed(const Frame& frame, uint64_t number, uint64_t heard = 0) {
    const auto bytes = std::as_bytes(std::span(&frame, 1));
    const FrameSeal seal = sealOf(bytes, number, heard, keys_.from_sender);
    const auto seal_bytes = std::as_bytes(std::span(&seal, 1));
    std::vector<std::byte> all(bytes.begin(), bytes.end());
    all.insert(all.end(), seal_bytes.begin(), seal_bytes.end());
    return all;
  }
  template <typename Frame>
  void say(const Frame& frame) {
    write(sealed(frame, ++said_));
  }
  template <typename Frame>
  std::optional<Frame> hear() {
    struct {
      Frame frame;
      FrameSeal seal;
    } all;
    static_assert(sizeof all == sizeof(Frame) + sizeof(FrameSeal));
    if (read(peer_.fd(), &all, sizeof all) != static_cast<ssize_t>(sizeof all)) return std::nullopt;
    EXPECT_STREQ(checkSeal(std::as_bytes(std::span(&all.frame, 1)), all.seal, ++heard_, keys_.from_receiver),
                 "");
    heard_of_ours_ = all.seal.heard;
    return all.frame;
  }
  // The channel has ended without another frame, for this reason.
  void expectEnded(const std::string& problem) {
    EXPECT_EQ(channel_.next(), std::nullopt);
    EXPECT_TRUE(channel_.ended());
    EXPECT_HAS(channel_.problem(), problem);
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
  const FrameKeys keys_ = Session{makeSecret(), randomBytes(), randomBytes()}.frameKeys();
  uint64_t said_ = 0;
  uint64_t heard_ = 0;
  uint64_t heard_of_ours_ = 0;  // as the latest seal says
};

TEST_F(SideChannelTest, AFrameMayComeByteByByte) {
  const BreakFrame frame = breakOf(2);
  for (const std::byte byte : sealed(frame, 1)) {
    EXPECT_EQ(channel_.next(), std::nullopt);
    write({byte});
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

// Otherwise an end that has nothing else to say would never say so.
TEST_F(SideChannelTest, AnAnswerSaysThatTheFrameWasHeard) {
  say(breakOf(2));
  ASSERT_TRUE(channel_.next().has_value());
  ASSERT_TRUE(hear<ArrivedFrame>().has_value());
  EXPECT_EQ(heard_of_ours_, 1U);
}

TEST_F(SideChannelTest, ManyUserFramesAreAnsweredForTheirSeals) {
  for (int i = 0; i < 63; ++i) say(makeMessage<UserFrame>(MessageType::kUser));
  for (int i = 0; i < 63; ++i) ASSERT_TRUE(channel_.next().has_value());
  EXPECT_FALSE(hear<ArrivedFrame>().has_value());
  say(makeMessage<UserFrame>(MessageType::kUser));
  ASSERT_TRUE(channel_.next().has_value());
  ASSERT_TRUE(hear<ArrivedFrame>().has_value());
  EXPECT_EQ(heard_of_ours_, 64U);
}

TEST_F(SideChannelTest, UserFramesThatNobodyTakesEndItButNoneBeforeTheLast) {
  for (std::size_t i = 1; i < SideChannel::kMostUserFrames; ++i) {
    say(makeMessage<UserFrame>(MessageType::kUser));
    ASSERT_TRUE(channel_.serve(false)) << i;
    (void)hear<ArrivedFrame>();
  }
  ASSERT_TRUE(channel_.next().has_value()) << "makes room for one";
  say(makeMessage<UserFrame>(MessageType::kUser));
  ASSERT_TRUE(channel_.serve(false));
  say(breakOf(2));
  ASSERT_TRUE(channel_.serve(false)) << "a frame of the floor has room beside them";
  say(makeMessage<UserFrame>(MessageType::kUser));
  EXPECT_FALSE(channel_.serve(false));
  EXPECT_HAS(channel_.problem(), "more frames than anybody needs");
}

TEST(Frames, AReconcileHasNoMoreWordsThanThereIsRoomFor) {
  auto frame = makeMessage<ReconcileFrame>(MessageType::kReconcile);
  frame.count = kMostWords;
  EXPECT_EQ(checkFrame(std::as_bytes(std::span(&frame, 1))), "");
  frame.count = kMostWords + 1;
  EXPECT_EQ(checkFrame(std::as_bytes(std::span(&frame, 1))), "an impossible number of words");
}

TEST_F(SideChannelTest, AFrameIsUnheardUntilThePeerSaysThatItHasIt) {
  EXPECT_FALSE(channel_.unheard(MessageType::kRails));
  channel_.send(makeMessage<ArrivedFrame>(MessageType::kArrived));
  channel_.send(makeMessage<RailsFrame>(MessageType::kRails));
  EXPECT_TRUE(channel_.unheard(MessageType::kRails));
  write(sealed(breakOf(2), 1, 1));
  ASSERT_TRUE(channel_.next().has_value());
  EXPECT_TRUE(channel_.unheard(MessageType::kRails));
  EXPECT_FALSE(channel_.unheard(MessageType::kReconcile));
  write(sealed(breakOf(2), 2, 2));
  ASSERT_TRUE(channel_.next().has_value());
  EXPECT_FALSE(channel_.unheard(MessageType::kRails));
}

TEST_F(SideChannelTest, APeerThatTakesNothingIsNotSaidToHaveSentAnything) {
  for (int frames = 0; frames < 10'000 && !channel_.hungUp(); ++frames)
    channel_.send(makeMessage<CloseFrame>(MessageType::kClose));
  expectEnded("does not take what it is sent");
  EXPECT_LACKS(channel_.problem(), "sent nothing");
}

TEST_F(SideChannelTest, WhatIsNoFrameEndsIt) {
  std::vector<std::byte> text(64);
  std::memcpy(text.data(), "GET / HTTP/1.1", 14);
  write(text);
  expectEnded("bytes that are no frame");
}

TEST_F(SideChannelTest, AFrameWithImpossibleFieldsEndsIt) {
  auto frame = makeMessage<ProposeFrame>(MessageType::kPropose);
  frame.rails = 200;
  say(frame);
  expectEnded("an impossible number");
}

// Every bit of every type of frame, and of its seal. A changed header may make the channel wait for a longer
// frame, which then comes, with a wrong MAC, too.
TEST_F(SideChannelTest, NoBitOfAFrameCanBeChangedOnTheWay) {
  const auto close = makeMessage<CloseFrame>(MessageType::kClose);
  const auto arrived = makeMessage<ArrivedFrame>(MessageType::kArrived);
  const auto propose = makeMessage<ProposeFrame>(MessageType::kPropose);
  std::vector<std::vector<std::byte>> frames = {sealed(breakOf(2), 1), sealed(close, 1), sealed(arrived, 1)};
  for (const std::vector<std::byte>& frame : frames) {
    for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
      int ends[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
      SideChannel channel(bell_, Direction::kReceive, number_);
      channel.open(Socket(ends[0]), nullptr, keys_);
      peer_ = Socket(ends[1]);
      std::vector<std::byte> changed = frame;
      changed[bit / 8] ^= std::byte{1} << bit % 8;
      write(changed);
      write(sealed(propose, 2));
      ASSERT_EQ(channel.next(), std::nullopt) << bit;
      ASSERT_TRUE(channel.ended()) << bit;
      ASSERT_NE(channel.problem(), "") << bit;
    }
  }
}

TEST_F(SideChannelTest, AFrameComesOnce) {
  write(sealed(breakOf(2), 1));
  EXPECT_TRUE(channel_.next().has_value());
  write(sealed(breakOf(2), 1));
  expectEnded("a frame again or out of turn");
}

TEST_F(SideChannelTest, FramesComeInTheirOrder) {
  write(sealed(breakOf(3), 2));
  write(sealed(breakOf(2), 1));
  expectEnded("a frame again or out of turn");
}

TEST_F(SideChannelTest, NoFrameIsLeftOut) {
  write(sealed(breakOf(2), 1));
  write(sealed(breakOf(4), 3));
  EXPECT_TRUE(channel_.next().has_value());
  expectEnded("a frame again or out of turn");
}

// Resumes a channel as a Resumer does: from the watcher's thread.
struct Resumes final : Watched {
  Resumes(SideChannel& its_channel, Socket its_next) : channel(its_channel), next(std::move(its_next)) {}
  int descriptor() const override { return ready.fd(); }
  bool serve(bool) override {
    channel.resume(std::move(next), 0, 1);
    return false;
  }

  SideChannel& channel;
  Socket next;
  const Socket ready{eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// The last frame had come, too, when the TCP connection broke, but the peer was told only of the one before.
TEST_F(SideChannelTest, AFrameThatComesAgainOverTheNextTcpConnectionIsTakenOnce) {
  const auto watcher = std::move(*EventWatcher::start());
  SideChannel channel(bell_, Direction::kReceive, number_);
  const auto open = [&] {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    peer_ = Socket(ends[1]);
    return Socket(ends[0]);
  };
  const auto epoch = [&] {
    std::optional<std::vector<std::byte>> frame;
    test::waitUntil([&] { return (frame = channel.next()).has_value() || channel.ended(); });
    return frame ? net::frameOf<BreakFrame>(*frame).epoch : 0;
  };
  channel.open(open(), watcher.get(), keys_);
  write(sealed(breakOf(2), 1));
  write(sealed(breakOf(3), 2));
  EXPECT_EQ(epoch(), 2U);
  EXPECT_EQ(epoch(), 3U);
  const Socket old = std::move(peer_);  // its end would end the channel, for which nobody calls
  Resumes resumes(channel, open());
  write(sealed(breakOf(3), 2));
  write(sealed(breakOf(4), 3));
  EXPECT_OK(watcher->watch(resumes));
  EXPECT_EQ(epoch(), 4U);
  EXPECT_EQ(channel.problem(), "");
  watcher->unwatch(resumes);
}

TEST_F(SideChannelTest, ItsOwnFramesDoNotComeBack) {
  say(breakOf(2));
  ASSERT_TRUE(channel_.next().has_value());
  std::vector<std::byte> answer(sizeof(ArrivedFrame) + sizeof(FrameSeal));
  ASSERT_EQ(read(peer_.fd(), answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
  write(answer);
  expectEnded("a frame that is not its own");
}

TEST_F(SideChannelTest, AFrameOfAnotherConnectionIsForged) {
  const FrameKeys other = Session{makeSecret(), randomBytes(), randomBytes()}.frameKeys();
  const BreakFrame frame = breakOf(2);
  const auto bytes = std::as_bytes(std::span(&frame, 1));
  const FrameSeal seal = sealOf(bytes, 1, 0, other.from_sender);
  write({bytes.begin(), bytes.end()});
  const auto seal_bytes = std::as_bytes(std::span(&seal, 1));
  write({seal_bytes.begin(), seal_bytes.end()});
  expectEnded("a frame that is not its own");
}

TEST_F(SideChannelTest, AFrameThatIsCutIsNone) {
  std::vector<std::byte> frame = sealed(breakOf(2), 1);
  frame.pop_back();
  write(frame);
  peer_.close();
  expectEnded("");
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
