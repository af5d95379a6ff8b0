#include "base/socket.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <vector>

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
  EXPECT_TRUE(listener.ok());
  Result<Socket> client = Socket::connect(listener->localAddress());
  EXPECT_TRUE(client.ok());
  Connected both;
  while (!both.server.valid()) {
    Result<Socket> accepted = listener->accept(nullptr);
    EXPECT_TRUE(accepted.ok());
    both.server = std::move(*accepted);
  }
  while (*client->connected() != Io::kDone) {
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
  std::vector<char> sent(4 << 20);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 7);
  std::vector<char> received(sent.size());
  Transfer out = over(sent);
  Transfer in = over(received);
  bool waited = false;
  while (!in.complete()) {
    waited = *both.client.send(out) == Io::kAgain || waited;
    ASSERT_TRUE(both.server.receive(in).ok());
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
  while (both.server.peek() == Io::kAgain) {
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
  while (*both.server.receive(in) != Io::kDone) {
  }
}

TEST(Socket, ARefusedConnectionIsItsErrno) {
  uint16_t port = 0;
  {
    Result<Socket> listener = Socket::listen(loopback(), 1);
    port = listener->localAddress().port();
  }
  Result<Socket> client = Socket::connect(loopback(port));
  ASSERT_TRUE(client.ok());
  Result<Io> connected = client->connected();
  while (connected.ok() && *connected == Io::kAgain) connected = client->connected();
  EXPECT_FALSE(connected.ok());
  EXPECT_EQ(connected.status().sys_errno, ECONNREFUSED);
}

TEST(Socket, AcceptWithoutCallersIsAnInvalidSocket) {
  Result<Socket> listener = Socket::listen(loopback(), 1);
  Result<Socket> accepted = listener->accept(nullptr);
  ASSERT_TRUE(accepted.ok());
  EXPECT_FALSE(accepted->valid());
}

}  // namespace
}  // namespace railwise
