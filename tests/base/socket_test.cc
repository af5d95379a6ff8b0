#include "base/socket.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <vector>

#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise {
namespace {

SocketAddress loopback(uint16_t port = 0) {
  static constexpr std::array<uint8_t, 4> kLoopback = {127, 0, 0, 1};
  return SocketAddress(AF_INET, kLoopback, port, 0);
}

struct Connected {
  Socket client;
  Socket server;
};

Connected makeConnected() {
  Result<Socket> listener = Socket::listen(loopback(), 4);
  EXPECT_OK(listener);
  Result<Socket> client = Socket::connect(listener->localAddress());
  EXPECT_OK(client);
  Connected both;
  for (test::Patience patience; !both.server.valid(); patience.again()) {
    Result<Socket> accepted = listener->accept();
    EXPECT_OK(accepted);
    both.server = std::move(*accepted);
  }
  for (test::Patience patience; *client->connected() != Io::kDone; patience.again()) {
  }
  both.client = std::move(*client);
  return both;
}

Transfer over(std::vector<char>& bytes) { return {std::as_writable_bytes(std::span(bytes))}; }

TEST(SocketAddress, WritesItselfAsText) {
  EXPECT_EQ(loopback(80).text(), "127.0.0.1:80");
  std::array<uint8_t, 16> v6 = {0xfe, 0x80};
  v6[15] = 1;
  EXPECT_EQ(SocketAddress(AF_INET6, v6, 7, 2).text(), "[fe80::1%2]:7");
  EXPECT_EQ(SocketAddress().text(), "no address");
}

TEST(SocketAddress, KeepsFamilyBytesPortAndScope) {
  std::array<uint8_t, 16> v6 = {0x20, 0x01};
  const SocketAddress address(AF_INET6, v6, 1234, 3);
  EXPECT_EQ(address.family(), AF_INET6);
  EXPECT_EQ(address.port(), 1234);
  EXPECT_EQ(address.scopeId(), 3U);
  EXPECT_TRUE(std::equal(v6.begin(), v6.end(), address.bytes().begin()));
  EXPECT_FALSE(SocketAddress(AF_INET, std::span<const uint8_t>(), 1, 0).valid());
}

TEST(Socket, MovesMessagesLargerThanItsBuffers) {
  Connected both = makeConnected();
  std::vector<char> sent(32 << 20);  // a kernel that has time lets the buffers grow to 10 MiB
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 7);
  std::vector<char> received(sent.size());
  Transfer out = over(sent);
  Transfer in = over(received);
  bool waited = false;
  for (test::Patience patience; !in.complete(); patience.again()) {
    waited = *both.client.send(out) == Io::kAgain || waited;
    ASSERT_OK(both.server.receive(in));
  }
  EXPECT_TRUE(waited) << "the socket buffer held everything: the test shows nothing";
  EXPECT_EQ(sent, received);
}

TEST(Socket, NothingToReadIsAgainAndAHangUpIsClosed) {
  Connected both = makeConnected();
  std::vector<char> bytes(4);
  Transfer in = over(bytes);
  EXPECT_EQ(*both.server.receive(in), Io::kAgain);
  EXPECT_EQ(both.server.peek(), Io::kAgain);
  both.client.close();
  for (test::Patience patience; both.server.peek() == Io::kAgain; patience.again()) {
  }
  EXPECT_EQ(*both.server.receive(in), Io::kClosed);
}

TEST(Socket, PeekSeesBytesAsAnOpenConnection) {
  Connected both = makeConnected();
  std::vector<char> bytes(4, 'x');
  Transfer out = over(bytes);
  ASSERT_EQ(*both.client.send(out), Io::kDone);
  EXPECT_EQ(both.server.peek(), Io::kAgain);
  Transfer in = over(bytes);
  for (test::Patience patience; *both.server.receive(in) != Io::kDone; patience.again()) {
  }
}

TEST(Socket, ARefusedConnectionIsItsErrno) {
  uint16_t port = 0;
  {
    Result<Socket> listener = Socket::listen(loopback(), 1);
    port = listener->localAddress().port();
  }
  Result<Socket> client = Socket::connect(loopback(port));
  ASSERT_OK(client);
  Result<Io> connected = client->connected();
  for (test::Patience patience; connected.ok() && *connected == Io::kAgain; patience.again())
    connected = client->connected();
  EXPECT_FALSE(connected.ok());
  EXPECT_EQ(connected.status().sys_errno, ECONNREFUSED);
}

TEST(Socket, AcceptWithoutCallersIsAnInvalidSocket) {
  Result<Socket> listener = Socket::listen(loopback(), 1);
  Result<Socket> accepted = listener->accept();
  ASSERT_OK(accepted);
  EXPECT_FALSE(accepted->valid());
}

}  // namespace
}  // namespace railwise
