#include "net/handshake.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace railwise::net {
namespace {

ListenHandle makeHandle() {
  ListenHandle handle = {};
  handle.magic = kMagic;
  handle.version = kProtocolVersion;
  handle.family = 4;
  handle.port = 4000;
  handle.nonce = 5;
  handle.address[0] = 127;
  copyText(handle.host, "node7:123");
  return handle;
}

EndInfo makeEnd() {
  EndInfo end = {};
  end.qp_number = 17;
  end.lid = 3;
  end.link_layer = 2;
  end.mtu = IBV_MTU_4096;
  end.window_address = 0x1000;
  end.window_key = 9;
  end.piece_bytes = 1 << 30;
  return end;
}

TEST(Magic, IsReadableInMemory) { EXPECT_EQ(std::memcmp(&kMagic, "RAILWISE", 8), 0); }

TEST(Handle, AGoodOneIsAccepted) {
  EXPECT_EQ(checkHandle(makeHandle()), "");
  EXPECT_EQ(handleAddress(makeHandle())->text(), "127.0.0.0:4000");
}

TEST(Handle, EveryBadFieldIsRefused) {
  const std::pair<const char*, std::function<void(ListenHandle&)>> cases[] = {
      {"another network plugin", [](ListenHandle& h) { h.magic = 2; }},
      {"protocol version 9", [](ListenHandle& h) { h.version = 9; }},
      {"damaged", [](ListenHandle& h) { h.family = 10; }},
      {"damaged", [](ListenHandle& h) { h.port = 0; }},
      {"damaged", [](ListenHandle& h) { std::memset(h.host, 'x', sizeof h.host); }},
  };
  for (const auto& [expected, spoil] : cases) {
    ListenHandle handle = makeHandle();
    spoil(handle);
    EXPECT_NE(checkHandle(handle).find(expected), std::string::npos) << checkHandle(handle);
  }
}

TEST(Header, EveryBadFieldIsRefused) {
  const auto good = makeMessage<ConnectRequest>(MessageType::kRequest).header;
  EXPECT_EQ(checkHeader(good, MessageType::kRequest, sizeof(ConnectRequest)), "");
  EXPECT_NE(checkHeader(good, MessageType::kReply, sizeof(ConnectRequest)), "");
  EXPECT_NE(checkHeader(good, MessageType::kRequest, sizeof(ConnectReply)), "");
  MessageHeader header = good;
  header.magic ^= 1;
  EXPECT_NE(checkHeader(header, MessageType::kRequest, sizeof(ConnectRequest)).find("does not run Railwise"),
            std::string::npos);
  header = good;
  header.version = 3;
  EXPECT_NE(checkHeader(header, MessageType::kRequest, sizeof(ConnectRequest)).find("version 3"),
            std::string::npos);
}

TEST(End, EveryBadFieldIsRefused) {
  EXPECT_EQ(checkEnd(makeEnd()), "");
  const std::function<void(EndInfo&)> cases[] = {
      [](EndInfo& e) { e.qp_number = 0; },
      [](EndInfo& e) { e.qp_number = 1 << 24; },
      [](EndInfo& e) { e.link_layer = 0; },
      [](EndInfo& e) { e.link_layer = 3; },
      [](EndInfo& e) { e.mtu = 0; },
      [](EndInfo& e) { e.mtu = 6; },
      [](EndInfo& e) { e.window_address = 0; },
      [](EndInfo& e) { e.piece_bytes = 127; },
      [](EndInfo& e) { e.service_level = 16; },
      [](EndInfo& e) { std::memset(e.host, 'x', sizeof e.host); },
      [](EndInfo& e) { std::memset(e.device, 'x', sizeof e.device); },
  };
  for (const auto& spoil : cases) {
    EndInfo end = makeEnd();
    spoil(end);
    EXPECT_NE(checkEnd(end), "") << "case " << &spoil - cases;
  }
}

TEST(Fabric, SoftwareDevicesOfTwoMachinesAreRefusedByName) {
  EndInfo here = makeEnd();
  EndInfo there = makeEnd();
  EXPECT_EQ(checkFabric(here, there), "");  // real ones
  copyText(here.host, "node1:10");
  copyText(there.host, "node2:20");
  copyText(here.device, "soft0");
  copyText(there.device, "mlx5_0");
  here.fabric = 5;
  EXPECT_EQ(
      checkFabric(here, there).find("soft0 on node1:10 is a software device and mlx5_0 on node2:20 a real"),
      0U);
  EXPECT_EQ(checkFabric(there, here), checkFabric(here, there));
  there.fabric = 6;
  EXPECT_EQ(checkFabric(here, there).find("soft0 on node1:10 and mlx5_0 on node2:20 are software devices of"),
            0U);
  there.fabric = 5;
  EXPECT_EQ(checkFabric(here, there), "");
}

TEST(Text, IsCutAndTerminated) {
  char field[8];
  std::memset(field, 'x', sizeof field);
  copyText(field, "a long name");
  EXPECT_STREQ(field, "a long ");
  copyText(field, "b");
  EXPECT_STREQ(field, "b");
  std::memset(field, 'x', sizeof field);
  EXPECT_EQ(fieldText(field), "xxxxxxxx");
  copyText(field, "a\nb\x1b[c");
  EXPECT_EQ(fieldText(field), "a?b?[c") << "would forge a log line";
}

TEST(Nonce, IsNeverZeroAndRarelyTheSame) {
  EXPECT_NE(randomNonce(), 0U);
  EXPECT_NE(randomNonce(), randomNonce());
}

}  // namespace
}  // namespace railwise::net
