// Side channels whose TCP connection breaks, both ends in this process: what was sent arrives once and in
// order, and the end of a peer is noticed.
#include "net/wireup/resumer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "net/tcp.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

using test::cutTcp;
using test::loopback;

ArrivedFrame frameOf(uint64_t number) {
  auto frame = makeMessage<ArrivedFrame>(MessageType::kArrived);
  frame.number = number;
  return frame;
}

struct ResumerTest : testing::Test {
  ResumerTest() { openEnds(false); }
  // `cut`: the TCP connection of the handshake breaks before the ends take it.
  void openEnds(bool cut) {
    Socket listener = std::move(*Socket::listen(loopback(0), 1));
    Socket caller = std::move(*Socket::connect(listener.localAddress()));
    Socket called;
    test::waitUntil([&] {
      if (!called.valid()) called = std::move(*listener.accept());
      return called.valid() && *caller.connected() == Io::kDone;
    });
    if (cut) cutTcp();
    sender_->open(std::move(caller), watcher_.get(), keys_, resumption("sender"));
    receiver_->open(std::move(called), watcher_.get(), keys_, resumption("receiver"));
  }
  Resumption resumption(const char* name) const {
    return {.resumer = resumer_.get(), .id = 7, .peer_port = resumer_->port(), .name = name};
  }
  // The numbers of the frames that have come.
  static void take(SideChannel& channel, std::vector<uint64_t>& numbers) {
    while (const auto frame = channel.next()) numbers.push_back(net::frameOf<ArrivedFrame>(*frame).number);
  }

  verbs::FatalFlag bell_;
  SharedNumber number_ = 0;
  const FrameKeys keys_ = Session{makeSecret(), randomBytes(), randomBytes()}.frameKeys();
  std::unique_ptr<EventWatcher> watcher_ = std::move(*EventWatcher::start());
  std::unique_ptr<Resumer> resumer_ = Resumer::create(*watcher_);
  std::unique_ptr<SideChannel> sender_ = std::make_unique<SideChannel>(bell_, Direction::kSend, number_);
  std::unique_ptr<SideChannel> receiver_ = std::make_unique<SideChannel>(bell_, Direction::kReceive, number_);
};

TEST_F(ResumerTest, FramesArriveOnceAndInOrderHoweverOftenItBreaks) {
  std::mt19937 random(1);
  std::vector<uint64_t> from_sender;
  std::vector<uint64_t> from_receiver;
  constexpr uint64_t kFrames = 1000;
  for (uint64_t i = 1; i <= kFrames; ++i) {
    sender_->send(frameOf(i));
    receiver_->send(frameOf(i));
    if (random() % 100 == 0) cutTcp();
    if (random() % 4 == 0) usleep(static_cast<useconds_t>(random() % 2000));
    test::waitUntil([&] {  // an inbox takes 255
      take(*receiver_, from_sender);
      take(*sender_, from_receiver);
      return std::min(from_sender.size(), from_receiver.size()) + 100 > i;
    });
  }
  test::waitUntil([&] {
    take(*receiver_, from_sender);
    take(*sender_, from_receiver);
    return from_sender.size() >= kFrames && from_receiver.size() >= kFrames;
  });
  ASSERT_EQ(from_sender.size(), kFrames);
  ASSERT_EQ(from_receiver.size(), kFrames);
  for (uint64_t i = 0; i < kFrames; ++i) {
    ASSERT_EQ(from_sender[i], i + 1);
    ASSERT_EQ(from_receiver[i], i + 1);
  }
  EXPECT_GT(sender_->resumed(), 3);
  EXPECT_EQ(sender_->problem() + receiver_->problem(), "");
}

TEST_F(ResumerTest, ATcpConnectionThatBreaksBeforeTheEndsTakeItIsResumed) {
  for (std::unique_ptr<SideChannel>* end : {&sender_, &receiver_}) {
    const Direction direction = (*end)->direction();
    end->reset();
    *end = std::make_unique<SideChannel>(bell_, direction, number_);
  }
  openEnds(true);
  sender_->send(frameOf(1));
  receiver_->send(frameOf(2));
  std::vector<uint64_t> from_sender;
  std::vector<uint64_t> from_receiver;
  test::waitUntil([&] {
    take(*receiver_, from_sender);
    take(*sender_, from_receiver);
    return from_sender.size() + from_receiver.size() == 2 || sender_->hungUp() || receiver_->hungUp();
  });
  EXPECT_EQ(from_sender, std::vector<uint64_t>{1});
  EXPECT_EQ(from_receiver, std::vector<uint64_t>{2});
  EXPECT_FALSE(sender_->hungUp() || receiver_->hungUp());
}

// Its process lives, and says that it has no such connection.
TEST_F(ResumerTest, AnEndWithoutACloseMessageIsNoticed) {
  sender_.reset();
  test::waitUntil([&] { return receiver_->hungUp(); });
  EXPECT_TRUE(receiver_->ended());
}

TEST_F(ResumerTest, ACloseMessageEndsItAtOnceAlsoWhileItIsBroken) {
  auto last = makeMessage<CloseFrame>(MessageType::kClose);
  cutTcp();
  test::waitUntil([&] { return sender_->broken() || sender_->resumed() > 0; });
  sender_->send(last);
  sender_->end();
  test::waitUntil([&] { return receiver_->hungUp(); });
  ASSERT_TRUE(receiver_->next().has_value());
  EXPECT_TRUE(receiver_->ended());
}

// It would take the calls for a process that has died.
TEST_F(ResumerTest, AForkedChildDoesNotListen) {
  const int listening = resumer_->descriptor();
  ASSERT_GE(fcntl(listening, F_GETFD), 0);
  const pid_t child = fork();
  if (child == 0) _exit(fcntl(listening, F_GETFD) < 0 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

ResumeHello helloOf(const FrameKeys& keys, bool from_sender, uint32_t call) {
  auto hello = makeMessage<ResumeHello>(MessageType::kResumeHello);
  hello.random = randomBytes();
  hello.id = 7;
  hello.from_sender = from_sender ? 1 : 0;
  hello.call = call;
  seal(hello, from_sender ? keys.from_sender : keys.from_receiver);
  return hello;
}

Socket callWith(uint16_t port, ResumeHello hello) {
  Socket socket = std::move(*Socket::connect(loopback(port)));
  test::waitUntil([&] { return *socket.connected() == Io::kDone; });
  Transfer transfer = transferOf(hello);
  EXPECT_EQ(*socket.send(transfer), Io::kDone);
  return socket;
}

// Has the other end closed it? What has come is thrown away.
bool isClosed(const Socket& socket) {
  char bytes[256];
  ssize_t got = 0;
  while ((got = recv(socket.fd(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
  }
  return got == 0 || errno != EAGAIN;
}

// Cuts the TCP connections of this process, but not those of the enemies.
void cutAllBut(const std::vector<Socket>& enemies) {
  std::set<uint16_t> spared;
  for (const Socket& enemy : enemies) spared.insert(enemy.localAddress().port());
  for (int fd = 3; fd < 2048; ++fd) {
    Socket socket(fd);
    sockaddr_storage storage = {};
    socklen_t size = sizeof storage;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) storage = {};
    const SocketAddress peer(reinterpret_cast<const sockaddr&>(storage));
    if (peer.valid() && !spared.contains(peer.port()) && !spared.contains(socket.localAddress().port()))
      (void)shutdown(fd, SHUT_RDWR);
    socket.release();
  }
}

// An enemy who has recorded a hello takes no descriptors by it, and keeps the peer out for no moment.
TEST_F(ResumerTest, ARecordedHelloHoldsNoDescriptors) {
  constexpr uint32_t kLater = 1000;  // the peer has not called so often
  const std::array recorded = {helloOf(keys_, true, 1), helloOf(keys_, true, kLater)};
  std::vector<Socket> enemies;
  const auto forgetClosed = [&] { std::erase_if(enemies, isClosed); };
  const auto breakAndResume = [&] {
    const int before = receiver_->resumed();
    cutAllBut(enemies);
    test::waitUntil([&] { return receiver_->resumed() > before && !sender_->broken(); });
  };
  breakAndResume();
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 500; ++i) enemies.push_back(callWith(resumer_->port(), recorded[0]));
    breakAndResume();  // this call came after the enemy's
    forgetClosed();
    ASSERT_EQ(enemies.size(), 0U);
  }
  // A hello that has not reached its end yet is taken once.
  for (int i = 0; i < 500; ++i) enemies.push_back(callWith(resumer_->port(), recorded[1]));
  const Socket newer = callWith(resumer_->port(), helloOf(keys_, true, kLater + 1));
  test::waitUntil([&] {
    forgetClosed();
    return enemies.empty();  // the newest call replaces an older one that proves nothing
  });
  EXPECT_FALSE(isClosed(newer));
}

// An enemy repeats or invents a hello. The side channel stays as it is.
TEST_F(ResumerTest, WhoCannotProveAnythingChangesNothing) {
  for (const bool right : {true, false}) {
    for (const uint8_t from_sender : {uint8_t{0}, uint8_t{1}}) {
      ResumeHello hello = helloOf(keys_, from_sender != 0, 1);
      if (!right) hello.mac = {};
      Socket enemy = callWith(resumer_->port(), hello);
      ResumeAnswer answer = {};
      Transfer heard = transferOf(answer);
      Result<Io> got = Io::kAgain;
      test::waitUntil([&] {
        got = enemy.receive(heard);
        return !got.ok() || *got != Io::kAgain;
      });
      ASSERT_OK(got);
      EXPECT_EQ(*got, right ? Io::kDone : Io::kClosed);
      ResumeProof proof = makeMessage<ResumeProof>(MessageType::kResumeProof);
      Transfer last = transferOf(proof);
      (void)enemy.send(last);
      test::waitUntil([&] { return enemy.peek() == Io::kClosed; });
    }
  }
  sender_->send(frameOf(1));
  std::vector<uint64_t> numbers;
  test::waitUntil([&] {
    take(*receiver_, numbers);
    return !numbers.empty();
  });
  EXPECT_EQ(sender_->resumed() + receiver_->resumed(), 0);
}

}  // namespace
}  // namespace railwise::net
