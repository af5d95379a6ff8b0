#include "net/wireup/handshake.h"

#include <cstring>
#include <functional>

#include "tests/ok.h"

namespace railwise::net {
namespace {

ListenHandle makeHandle() {
  ListenHandle handle = {};
  handle.magic = kMagic;
  handle.oldest_version = kProtocol.oldest;
  handle.newest_version = kProtocol.newest;
  handle.secret = {{5}};
  handle.rails = 2;
  const uint8_t v4[4] = {127, 0, 0, 1};
  const uint8_t v6[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
  const SocketAddress addresses[] = {{AF_INET, v4, 9, 0}, {AF_INET6, v6, 9, 3}};
  setHandleAddresses(handle, addresses, 4000);
  copyText(handle.host, "node7:123");
  return handle;
}

EndInfo helloEnd() {
  EndInfo end = {};
  end.window_address = 0x1000;
  end.rails = 2;
  end.queue_pairs = 4;
  end.lanes = 2;
  for (int i = 0; i < end.rails; ++i) {
    RailInfo& rail = end.rail[i];
    rail.lid = static_cast<uint16_t>(3 + i);
    rail.link_layer = LinkLayer::kRoce;
    rail.mtu = IBV_MTU_4096;
    rail.max_request_bytes = 1 << 30;
    rail.gid_count = 1;
  }
  for (int i = 0; i < end.queue_pairs; ++i) {
    end.queue_pair[i].number = static_cast<uint32_t>(17 + i);
    end.queue_pair[i].rail = static_cast<uint8_t>(i % 2);
  }
  return end;
}

// The answer to helloEnd().
EndInfo makeReply() {
  EndInfo end = helloEnd();
  for (int i = 0; i < end.queue_pairs; ++i) end.queue_pair[i].used = 1;
  return end;
}

// An end that does not say how many reads it answers has one.
TEST(Handshake, BothEndsTakeTheSmallerNumberOfReads) {
  RailInfo one = {};
  RailInfo other = {};
  one.reads = 16;
  EXPECT_EQ(readsBetween(one, other), 1);
  other.reads = 4;
  EXPECT_EQ(readsBetween(one, other), 4);
  EXPECT_EQ(readsBetween(other, one), 4);
}

TEST(Magic, IsReadableInMemory) { EXPECT_EQ(std::memcmp(&kMagic, "RAILWISE", 8), 0); }

TEST(Handle, AGoodOneIsAccepted) {
  EXPECT_EQ(checkHandle(makeHandle(), ListenerKind::kMessages), "");
  const std::vector<SocketAddress> addresses = handleAddresses(makeHandle());
  ASSERT_EQ(addresses.size(), 2U);
  EXPECT_EQ(addresses[0].text(), "127.0.0.1:4000");
  EXPECT_EQ(addresses[1].text(), "[fe80::7%3]:4000");
}

TEST(Handle, EveryBadFieldIsRefused) {
  const std::pair<const char*, std::function<void(ListenHandle&)>> cases[] = {
      {"another network plugin", [](ListenHandle& h) { h.magic = 2; }},
      {"protocol version 80 to 90 ", [](ListenHandle& h) { h.oldest_version = 80, h.newest_version = 90; }},
      // Before version 16 the name of the host lay where the newest version is now.
      {"protocol version 15 ", [](ListenHandle& h) { h.oldest_version = 15, h.newest_version = 0x3939; }},
      {"upgrade Railwise on node7:123,", [](ListenHandle& h) { h.oldest_version = h.newest_version = 8; }},
      {"upgrade Railwise on this node", [](ListenHandle& h) { h.oldest_version = h.newest_version = 900; }},
      {"damaged", [](ListenHandle& h) { h.newest_version = 8; }},
      {"damaged", [](ListenHandle& h) { h.candidates = 0; }},
      {"damaged", [](ListenHandle& h) { h.candidates = kCandidates + 1; }},
      {"damaged", [](ListenHandle& h) { h.rails = 0; }},
      {"damaged", [](ListenHandle& h) { h.rails = kMaxRails + 1; }},
      {"damaged", [](ListenHandle& h) { h.port = 0; }},
      {"damaged", [](ListenHandle& h) { h.kind = static_cast<ListenerKind>(2); }},
      {"of a listener for one-sided communication",
       [](ListenHandle& h) { h.kind = ListenerKind::kOneSided; }},
      {"damaged", [](ListenHandle& h) { std::memset(h.host, 'x', sizeof h.host); }},
  };
  for (const auto& [expected, spoil] : cases) {
    ListenHandle handle = makeHandle();
    spoil(handle);
    EXPECT_HAS(checkHandle(handle, ListenerKind::kMessages), expected);
  }
}

TEST(Handle, OfANewerEndThatSpeaksOursTooIsAccepted) {
  ListenHandle handle = makeHandle();
  handle.newest_version += 3;
  EXPECT_EQ(checkHandle(handle, ListenerKind::kMessages), "");
  EXPECT_EQ(commonVersion(handle), kProtocol.newest);
}

TEST(Handle, OfAnotherKindOfListenerIsRefusedInWords) {
  ListenHandle handle = makeHandle();
  EXPECT_HAS(checkHandle(handle, ListenerKind::kOneSided), "of a listener for messages");
  handle.kind = ListenerKind::kOneSided;
  EXPECT_EQ(checkHandle(handle, ListenerKind::kOneSided), "");
}

TEST(Header, EveryBadFieldIsRefused) {
  const auto good = makeMessage<ConnectRequest>(MessageType::kRequest).header;
  EXPECT_EQ(checkHeader(good, MessageType::kRequest, sizeof(ConnectRequest)), "");
  EXPECT_NE(checkHeader(good, MessageType::kReply, sizeof(ConnectRequest)), "");
  EXPECT_NE(checkHeader(good, MessageType::kRequest, sizeof(ConnectReply)), "");
  MessageHeader header = good;
  header.magic ^= 1;
  EXPECT_HAS(checkHeader(header, MessageType::kRequest, sizeof(ConnectRequest)), "does not run Railwise");
}

TEST(End, EveryBadFieldIsRefused) {
  EXPECT_EQ(checkEnd(helloEnd()), "");
  const std::function<void(EndInfo&)> cases[] = {
      [](EndInfo& e) { e.rails = 0; },
      [](EndInfo& e) { e.rails = kMaxRails + 1; },
      [](EndInfo& e) { e.queue_pairs = 0; },
      [](EndInfo& e) { e.queue_pairs = kMaxQueuePairs + 1; },
      [](EndInfo& e) { e.lanes = 0; },
      [](EndInfo& e) { e.lanes = 5; },
      [](EndInfo& e) { e.queue_pair[3].number = 1 << 24; },
      [](EndInfo& e) { e.queue_pair[3].rail = 2; },
      [](EndInfo& e) { e.rail[1].link_layer = LinkLayer{0}; },
      [](EndInfo& e) { e.rail[1].link_layer = LinkLayer{4}; },
      [](EndInfo& e) { e.rail[1].link_layer = LinkLayer::kInfiniBand; },
      [](EndInfo& e) { e.rail[1].mtu = 0; },
      [](EndInfo& e) { e.rail[1].mtu = 6; },
      [](EndInfo& e) { e.rail[1].max_request_bytes = 127; },
      [](EndInfo& e) { e.rail[1].gid_count = kRailGids + 1; },
      [](EndInfo& e) { e.window_address = 0; },
      [](EndInfo& e) { e.service_level = 16; },
      [](EndInfo& e) { std::memset(e.host, 'x', sizeof e.host); },
      [](EndInfo& e) { std::memset(e.rail[1].device, 'x', sizeof e.rail[1].device); },
      [](EndInfo& e) { std::memset(e.version, 'x', sizeof e.version); },
      [](EndInfo& e) { std::memset(e.gpu_driver, 'x', sizeof e.gpu_driver); },
      [](EndInfo& e) { std::memset(e.rail[1].nic_firmware, 'x', sizeof e.rail[1].nic_firmware); },
  };
  for (const auto& spoil : cases) {
    EndInfo end = helloEnd();
    spoil(end);
    EXPECT_NE(checkEnd(end), "") << "case " << &spoil - cases;
  }
}

TEST(End, WithoutAPortThatWorksHasNoQueuePairs) {
  EndInfo end = helloEnd();
  end.failover = 1;
  EXPECT_EQ(checkFirstEnd(end), "");
  end.queue_pairs = end.lanes = 0;
  EXPECT_EQ(checkFirstEnd(end), "");
  const std::function<void(EndInfo&)> cases[] = {
      [](EndInfo& e) { e.failover = 0; },       [](EndInfo& e) { e.lanes = 1; },
      [](EndInfo& e) { e.rails = 0; },          [](EndInfo& e) { e.rail[1].mtu = 0; },
      [](EndInfo& e) { e.window_address = 0; }, [](EndInfo& e) { e.service_level = 16; },
  };
  for (const auto& spoil : cases) {
    EndInfo spoiled = end;
    spoil(spoiled);
    EXPECT_NE(checkFirstEnd(spoiled), "") << "case " << &spoil - cases;
  }
}

TEST(Pairing, AReplyWithoutQueuePairsNeedsFailover) {
  EndInfo request = helloEnd();
  EndInfo reply = makeReply();
  EXPECT_EQ(checkFirstPairing(request, reply), "");
  reply.queue_pairs = reply.lanes = 0;
  EXPECT_NE(checkFirstPairing(request, reply), "");
  request.failover = 1;
  EXPECT_EQ(checkFirstPairing(request, reply), "");
  reply.out_of_order = 1;
  EXPECT_NE(checkFirstPairing(request, reply), "");
  reply.out_of_order = 0;
  request.connection_manager = 1;
  EXPECT_NE(checkFirstPairing(request, reply), "");
  // One who has no queue pairs cannot be answered with some.
  request = helloEnd();
  request.queue_pairs = request.lanes = 0;
  EXPECT_NE(checkFirstPairing(request, makeReply()), "");
}

TEST(Pairing, EveryBadFieldIsRefused) {
  EXPECT_EQ(checkPairing(helloEnd(), makeReply()), "");
  const std::function<void(EndInfo&)> cases[] = {
      [](EndInfo& e) { e.queue_pairs = 3; },
      [](EndInfo& e) { e.lanes = 1; },
      [](EndInfo& e) { e.connection_manager = 1; },
      [](EndInfo& e) { e.queue_pair[2].number = 0; },
      [](EndInfo& e) { e.queue_pair[2].gid = 1; },
      [](EndInfo& e) { e.queue_pair[2].peer_gid = 1; },
      [](EndInfo& e) { e.queue_pair[2].used = 0; },  // but not the other of its lane
      [](EndInfo& e) {
        for (QueuePairInfo& pair : e.queue_pair) pair.used = 0;
      },
  };
  for (const auto& spoil : cases) {
    EndInfo reply = makeReply();
    spoil(reply);
    EXPECT_NE(checkPairing(helloEnd(), reply), "") << "case " << &spoil - cases;
  }
  EndInfo one_lane = makeReply();
  one_lane.queue_pair[1].used = one_lane.queue_pair[3].used = 0;
  EXPECT_EQ(checkPairing(helloEnd(), one_lane), "") << "a lane that nothing can be reached by is no error";
}

TEST(Fabric, SoftwareDevicesOfTwoMachinesAreRefusedByName) {
  EndInfo here = helloEnd();
  EndInfo there = helloEnd();
  EXPECT_EQ(checkFabric(here, there), "");  // real ones
  copyText(here.host, "node1:10");
  copyText(there.host, "node2:20");
  copyText(here.rail[0].device, "soft0");
  copyText(there.rail[0].device, "mlx5_0");
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

TEST(HostName, OfAHandleKeepsItsProcess) {
  EXPECT_EQ(shortHostName("node7:123", 32), "node7:123");
  EXPECT_EQ(shortHostName("a-long-name-of-a-host:4194304", 16), "a-long-:4194304");
  EXPECT_EQ(shortHostName("no-process", 8), "no-proc");
  EXPECT_EQ(shortHostName("x:123456789", 8), "x:12345");
}

}  // namespace
}  // namespace railwise::net
