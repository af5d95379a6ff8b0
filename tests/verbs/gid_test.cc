#include "verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>

#include "port_control.h"
#include "software_device.h"
#include "tests/ok.h"

namespace railwise::verbs {
namespace {

// "10.0.0.1" or "fe80::1".
ibv_gid gidOf(const std::string& text) {
  ibv_gid gid = {};
  const std::string mapped = text.find(':') == std::string::npos ? "::ffff:" + text : text;
  EXPECT_EQ(inet_pton(AF_INET6, mapped.c_str(), gid.raw), 1) << text;
  return gid;
}

Gid makeGid(const std::string& text, int version = 2, int index = 0) { return {index, gidOf(text), version}; }

std::vector<std::string> texts(const GidList& list) {
  std::vector<std::string> found;
  for (const Gid& gid : list) found.push_back(gidText(gid.value) + "/" + std::to_string(gid.roce_version));
  return found;
}

using Texts = std::vector<std::string>;

// ---- which of its own

// A port with what RoCE NICs usually have.
std::vector<Gid> usualTable() {
  return {makeGid("fe80::1", 1, 0),      makeGid("fe80::1", 2, 1),     makeGid("2001:db8::1", 1, 2),
          makeGid("2001:db8::1", 2, 3),  makeGid("10.1.0.1", 1, 4),    makeGid("10.1.0.1", 2, 5),
          makeGid("192.168.0.1", 1, 20), makeGid("192.168.0.1", 2, 21)};
}

Result<GidList> usable(const Config& config, std::vector<Gid> table = usualTable(), bool ethernet = true) {
  Port port;
  port.number = 1;
  port.ethernet = ethernet;
  port.gid_entries = 256;
  return usableGids(table, "mlx5_0", port, config);
}

TEST(UsableGids, Version2BeforeIpv4BeforeIpv6BeforeLinkLocal) {
  EXPECT_EQ(texts(*usable({})), (Texts{"10.1.0.1/2", "192.168.0.1/2", "2001:db8::1/2"}));
  const auto few = usable({}, {makeGid("fe80::1", 1), makeGid("fe80::1", 2, 1), makeGid("10.1.0.1", 1, 2)});
  EXPECT_EQ(texts(*few), (Texts{"fe80::1/2", "10.1.0.1/1", "fe80::1/1"}));
}

TEST(UsableGids, TheOtherVersionWhenAskedFor) {
  Config config;
  config.ib_roce_version = 1;
  EXPECT_EQ(texts(*usable(config)), (Texts{"10.1.0.1/1", "192.168.0.1/1", "2001:db8::1/1"}));
}

TEST(UsableGids, OneFamily) {
  Config config;
  config.ib_addr_family = "AF_INET6";
  EXPECT_EQ(texts(*usable(config)), (Texts{"2001:db8::1/2", "fe80::1/2", "2001:db8::1/1"}));
  config.ib_addr_family = "AF_INET";
  EXPECT_EQ(texts(*usable(config)), (Texts{"10.1.0.1/2", "192.168.0.1/2", "10.1.0.1/1"}));
}

TEST(UsableGids, OneRange) {
  Config config;
  config.ib_addr_range = "192.168.0.0/16";
  EXPECT_EQ(texts(*usable(config)), (Texts{"192.168.0.1/2", "192.168.0.1/1"}));
  config.ib_addr_range = "2001:db8::/32";
  EXPECT_EQ(texts(*usable(config)), (Texts{"2001:db8::1/2", "2001:db8::1/1"}));
  config.ib_addr_family = "AF_INET";  // nothing is both: all are used, as net_ib does
  EXPECT_EQ(texts(*usable(config)).front(), "10.1.0.1/2");
}

TEST(UsableGids, OthersWhereNoneIsInTheRange) {
  Config config;
  config.ib_addr_range = "172.16.0.0/12";
  EXPECT_EQ(texts(*usable(config)).front(), "10.1.0.1/2");
}

TEST(UsableGids, AnIndexIsExact) {
  Config config;
  config.ib_gid_index = 20;
  EXPECT_EQ(texts(*usable(config)), (Texts{"192.168.0.1/1"}));
  config.ib_gid_index = 19;  // empty
  EXPECT_EQ(usable(config).status().code, Code::kSystem);
  config.ib_gid_index = 256;
  EXPECT_EQ(usable(config).status().code, Code::kInvalidUsage);
}

TEST(UsableGids, APrefixWithoutAnInterfaceIsNotConfigured) {
  EXPECT_EQ(usable({}, {makeGid("fe80::", 2)}).status().code, Code::kSystem);
}

TEST(UsableGids, TheRoutableLidOnInfiniBand) {
  const std::vector<Gid> plain = {makeGid("fe80::1", 0, 0), makeGid("fec0::7:0:0:0:1", 0, 1)};
  EXPECT_EQ((*usable({}, plain, false))[0].index, 0);
  const std::vector<Gid> routable = {makeGid("fe80::1", 0, 0), makeGid("fec0:0:12:7::1", 0, 1)};
  EXPECT_EQ((*usable({}, routable, false))[0].index, 1);
  EXPECT_EQ(routableLid(routable[1].value), 0x12);
  Config config;
  config.ib_routable_flid_gid_index = 0;
  EXPECT_EQ((*usable(config, routable, false))[0].index, 0);
}

// ---- who reaches whom

Reach reach(const char* local, const char* remote, int local_version = 2, int remote_version = 2,
            int bits = 24) {
  return reachability(makeGid(local, local_version), makeGid(remote, remote_version), true, bits);
}

TEST(Reachability, Ipv4) {
  EXPECT_EQ(reach("10.1.0.1", "10.1.0.2"), Reach::kSameSubnet);
  EXPECT_EQ(reach("10.1.0.1", "10.1.1.2"), Reach::kRouted);
  EXPECT_EQ(reach("10.1.0.1", "10.1.1.2", 2, 2, 16), Reach::kSameSubnet);
  EXPECT_EQ(reach("10.1.0.1", "10.1.0.130", 2, 2, 25), Reach::kRouted);
  EXPECT_EQ(reach("10.1.0.1", "10.1.0.1", 2, 2, 32), Reach::kSameSubnet);
}

TEST(Reachability, Ipv6) {
  EXPECT_EQ(reach("2001:db8::1", "2001:db8::2"), Reach::kSameSubnet);
  EXPECT_EQ(reach("2001:db8::1", "2001:db8:0:1::2"), Reach::kRouted);
  EXPECT_EQ(reach("fe80::1", "fe80::2"), Reach::kSameLink);
}

TEST(Reachability, WhatNeverTalks) {
  EXPECT_EQ(reach("10.1.0.1", "2001:db8::1"), Reach::kNever);
  EXPECT_EQ(reach("fe80::1", "2001:db8::1"), Reach::kNever);
  EXPECT_EQ(reach("10.1.0.1", "10.1.0.2", 1, 2), Reach::kNever);
  EXPECT_EQ(reach("10.1.0.1", "10.2.0.1", 1, 1), Reach::kNever) << "nothing routes RoCE v1";
  EXPECT_EQ(reach("10.1.0.1", "10.1.0.2", 1, 1), Reach::kSameSubnet);
  EXPECT_EQ(reach("10.1.0.1", "10.1.0.2", 0, 2), Reach::kSameSubnet) << "an unknown version goes with both";
}

TEST(Reachability, InfiniBand) {
  const auto between = [](const char* local, const char* remote) {
    return reachability(makeGid(local, 0), makeGid(remote, 0), false, 24);
  };
  EXPECT_EQ(between("fe80::1", "fe80::2"), Reach::kSameSubnet);
  EXPECT_EQ(between("fe80::1", "fe80:0:0:1::2"), Reach::kSameLink) << "no router knows the way";
  EXPECT_EQ(between("fec0:0:12:1::1", "fec0:0:13:2::2"), Reach::kRouted);
  EXPECT_EQ(between("fec0:0:12:1::1", "fec0:0:13:1::2"), Reach::kSameSubnet);
}

TEST(ChoosePair, TheNearestThenTheMostPreferred) {
  const std::vector<Gid> local = {makeGid("10.1.0.1"), makeGid("10.2.0.1"), makeGid("fe80::1")};
  const std::vector<Gid> remote = {makeGid("10.3.0.1"), makeGid("10.2.0.2"), makeGid("fe80::2")};
  const auto near = choosePair(local, remote, true, 24);
  ASSERT_TRUE(near);
  EXPECT_EQ(near->local, 1U);
  EXPECT_EQ(near->remote, 1U);
  EXPECT_EQ(near->reach, Reach::kSameSubnet);
  const auto routed = choosePair(local, remote, true, 32);
  ASSERT_TRUE(routed);
  EXPECT_EQ(routed->local, 0U) << "routed before link-local, the first of each end";
  EXPECT_EQ(routed->remote, 0U);
}

TEST(ChoosePair, NothingWhenNobodyCanTalk) {
  const std::vector<Gid> ipv4 = {makeGid("10.1.0.1")};
  const std::vector<Gid> ipv6 = {makeGid("2001:db8::1"), makeGid("fe80::1")};
  EXPECT_FALSE(choosePair(ipv4, ipv6, true, 24));
  EXPECT_FALSE(choosePair(ipv4, {}, true, 24));
  EXPECT_TRUE(choosePair(ipv6, ipv6, true, 24));
}

// ---- on a device

constexpr const char* kThree = "gid=fe80::1/v1,gid=10.9.0.1/v2,gid=2001:db8::9/v2";

TEST(ReadGids, WholeTableOrEntryByEntry) {
  const test::SoftwareDevice device(kThree);
  const Context context = device.open();
  const Port port = *queryPort(context.get(), 1);
  const std::vector<Gid> gids = readGids(context.get(), port);
  ASSERT_EQ(gids.size(), 3U);
  EXPECT_EQ(gids[0], makeGid("fe80::1", 1, 0));
  EXPECT_EQ(gids[1], makeGid("10.9.0.1", 2, 1));
  test::changePort("soft0:1", "gid=1=::");
  EXPECT_EQ(readGids(context.get(), port).size(), 2U);
}

TEST(ChooseGid, TakesTheIpv4AddressOnRoce) {
  const test::SoftwareDevice device(kThree);
  const Context context = device.open();
  const Result<Gid> gid = chooseGid(context.get(), *queryPort(context.get(), 1), device.config());
  ASSERT_OK(gid);
  EXPECT_EQ(*gid, makeGid("10.9.0.1", 2, 1));
}

TEST(ChooseGid, IsIndexZeroOnInfiniBand) {
  const test::SoftwareDevice device("link=ib");
  const Context context = device.open();
  Config config = device.config();
  config.ib_gid_index = 3;  // of RoCE only
  const Result<Gid> gid = chooseGid(context.get(), *queryPort(context.get(), 1), config);
  ASSERT_OK(gid);
  EXPECT_EQ(gid->index, 0);
}

class GidTableTest : public testing::Test {
 protected:
  const test::SoftwareDevice device_{kThree};
  const Context context_ = device_.open();
  GidTable table_{context_.get(), *queryPort(context_.get(), 1), device_.config()};
};

TEST_F(GidTableTest, NoticesThatItsBestEntryHasChanged) {
  EXPECT_EQ(texts(*table_.get()).front(), "10.9.0.1/2");
  test::changePort("soft0:1", "gid=1=10.9.0.2");
  EXPECT_EQ(texts(*table_.get()).front(), "10.9.0.2/2");
  test::changePort("soft0:1", "gid=1=::");
  EXPECT_EQ(texts(*table_.get()).front(), "2001:db8::9/2");
}

TEST_F(GidTableTest, ReadsABetterEntryWhenTold) {
  test::changePort("soft0:1", "gid=1=::");
  EXPECT_EQ(texts(*table_.get()).front(), "2001:db8::9/2");
  test::changePort("soft0:1", "gid=7=10.9.0.7/v2");
  EXPECT_EQ(texts(*table_.get()).front(), "2001:db8::9/2") << "the table is not read for every connection";
  table_.invalidate();
  EXPECT_EQ(texts(*table_.get()).front(), "10.9.0.7/2");
}

TEST_F(GidTableTest, TellsWhetherAnEntryHolds) {
  const GidList list = *table_.get();
  EXPECT_TRUE(table_.holds(list[1]));
  test::changePort("soft0:1", "gid=2=2001:db8::10");
  EXPECT_FALSE(table_.holds(list[1]));
  EXPECT_TRUE(table_.holds(list[0]));
}

TEST_F(GidTableTest, AFailureIsNotForEver) {
  for (const char* change : {"gid=0=::", "gid=1=::", "gid=2=::"}) test::changePort("soft0:1", change);
  EXPECT_EQ(table_.get().status().code, Code::kSystem);
  test::changePort("soft0:1", "gid=0=10.9.0.1/v2");
  EXPECT_OK(table_.get());
}

}  // namespace
}  // namespace railwise::verbs
