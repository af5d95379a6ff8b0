#include "verbs/gid.h"

#include "software_device.h"

namespace railwise::verbs {
namespace {

Result<Gid> chosen(const test::SoftwareDevice& device, int gid_index) {
  const Context context = device.open();
  Config config = device.config();
  config.ib_gid_index = gid_index;
  return chooseGid(context.get(), *queryPort(context.get(), 1), config);
}

TEST(ChooseGid, TakesTheIpv4AddressOnRoce) {
  const Result<Gid> gid = chosen(test::SoftwareDevice(), -1);
  ASSERT_TRUE(gid.ok());
  EXPECT_EQ(gidText(gid->value).substr(0, 7), "::ffff:");
}

TEST(ChooseGid, HonoursTheIndexOnRoce) {
  const Result<Gid> gid = chosen(test::SoftwareDevice(), 0);
  ASSERT_TRUE(gid.ok());
  EXPECT_EQ(gid->index, 0);
  EXPECT_EQ(gidText(gid->value).substr(0, 4), "fe80");
}

TEST(ChooseGid, AnIndexBeyondTheTableIsRefused) {
  EXPECT_EQ(chosen(test::SoftwareDevice(), 1000).status().code, Code::kInvalidUsage);
}

TEST(ChooseGid, IsIndexZeroOnInfiniBand) {
  const Result<Gid> gid = chosen(test::SoftwareDevice("link=ib"), 3);
  ASSERT_TRUE(gid.ok());
  EXPECT_EQ(gid->index, 0);
}

}  // namespace
}  // namespace railwise::verbs
