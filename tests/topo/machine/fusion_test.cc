// NIC fusion, trimming, and the fusion of the ranks' documents.
#include "topo/machine/fusion.h"

#include <gtest/gtest.h>

#include "tests/ok.h"
#include "tests/topo/output_machines.h"

namespace railwise::topo::test {
namespace {

XmlNode* existing(XmlDocument&, const NetDevice&) { return nullptr; }

// Two functions of one card and a NIC of its own, all on one switch.
std::string threePorts() {
  return systemOf(
      cpu(0, pciSwitch("0000:10:00.0", nic(0, "0000:11:00.0", "mlx5_0") + nic(1, "0000:11:00.1", "mlx5_1") +
                                           nic(2, "0000:12:00.0", "mlx5_2"))));
}

std::vector<NetDevice> devices(int count) {
  std::vector<NetDevice> all;
  for (int i = 0; i < count; ++i) all.push_back({.name = "mlx5_" + std::to_string(i), .rail = i});
  return all;
}

std::vector<std::string> merged(const Settings& settings) {
  XmlDocument document = documentOf(threePorts());
  auto all = devices(3);
  EXPECT_EQ(importNets(document, all, settings, existing), "");
  std::vector<std::string> names;
  for (std::size_t i = 3; i < all.size(); ++i) names.push_back(all[i].name);
  return names;
}

TEST(FusionTest, TheDefaultMergesTheFunctionsOfACard) {
  EXPECT_EQ(merged({}), std::vector<std::string>{"mlx5_0+mlx5_1"});
}

TEST(FusionTest, LevelsWidenAndSwitchOff) {
  Settings pix{.net_merge_level = PathType::kPix};
  EXPECT_EQ(merged(pix), std::vector<std::string>{"mlx5_0+mlx5_1+mlx5_2"});
  EXPECT_TRUE(merged({.net_merge_level = PathType::kLoc}).empty());
  Settings rail = pix;
  rail.net_merge_rail = true;  // all rails differ
  EXPECT_TRUE(merged(rail).empty());
}

TEST(FusionTest, ForcedGroups) {
  Settings settings{.net_merge_level = PathType::kLoc, .net_force_merge = "mlx5_0,mlx5_2"};
  EXPECT_EQ(merged(settings), std::vector<std::string>{"mlx5_0+mlx5_2"});
  settings.net_force_merge = "mlx5_0,mlx5_9";
  XmlDocument document = documentOf(threePorts());
  auto all = devices(3);
  EXPECT_HAS(importNets(document, all, settings, existing), "'mlx5_0,mlx5_9'");
}

TEST(FusionTest, ForcedGroupsDoNotMatterWithoutNics) {
  XmlDocument document = documentOf(threePorts());
  std::vector<NetDevice> none;
  EXPECT_EQ(importNets(document, none, {.net_force_merge = "mlx5_0,mlx5_1"}, existing), "");
}

TEST(FusionTest, AVirtualNicGetsAPlaceOfItsOwnAndItsMembersGo) {
  XmlDocument document = documentOf(threePorts());
  auto all = devices(3);
  ASSERT_EQ(importNets(document, all, {}, existing), "");
  const XmlNode* net = document.find("net", "name", "mlx5_0+mlx5_1");
  ASSERT_NE(net, nullptr);
  EXPECT_EQ(net->get("dev"), "3");
  EXPECT_EQ(net->get("speed"), "800000");
  EXPECT_FALSE(net->has("rail")) << "its members are on two rails";
  EXPECT_EQ(net->parent->parent->get("busid"), "0000:11:00.2");
  EXPECT_EQ(document.find("net", "name", "mlx5_0")->get("keep"), "0");
  trimXml(document);
  EXPECT_EQ(document.system()->children[0]->children[0]->children.size(), 2U);  // mlx5_2 and the virtual one
}

TEST(FusionTest, WidthsAddUpBelowTheCommonParent) {
  std::string xml = systemOf(
      cpu(0, pciSwitch("0000:10:00.0", nic(0, "0000:11:00.0", "mlx5_0") + nic(1, "0000:12:00.0", "mlx5_1"))));
  XmlDocument document = documentOf(xml);
  auto all = devices(2);
  ASSERT_EQ(importNets(document, all, {.net_merge_level = PathType::kPix}, existing), "");
  const XmlNode* net = document.find("net", "name", "mlx5_0+mlx5_1");
  ASSERT_NE(net, nullptr);
  EXPECT_EQ(net->parent->parent->get("link_width"), "32");
}

TEST(FusionTest, NicsOfDifferentSocketsCannotMerge) {
  Settings sys{.net_merge_level = PathType::kSys};
  XmlDocument document = documentOf(
      systemOf(cpu(0, nic(0, "0000:11:00.0", "mlx5_0")) + cpu(1, nic(1, "0000:12:00.0", "mlx5_1"))));
  auto all = devices(2);
  EXPECT_HAS(importNets(document, all, sys, existing), "different NUMA nodes");
}

TEST(FusionTest, TheRanksDocumentsBecomeOne) {
  XmlDocument all;
  EXPECT_EQ(fuseXml(all, documentOf(systemOf(cpu(0, gpu(0, "0000:11:00.0"))))), "");
  EXPECT_EQ(fuseXml(all, documentOf(systemOf(cpu(0, gpu(1, "0000:12:00.0"))))), "");
  ASSERT_EQ(all.system()->children.size(), 1U);
  EXPECT_EQ(all.system()->children[0]->children.size(), 2U);
  // An attribute that differs makes another node: the trap of incomplete <cpu> tags.
  std::string other = systemOf(cpu(0, gpu(2, "0000:13:00.0")));
  other.replace(other.find("modelid=\"143\""), 13, "modelid=\"106\"");
  EXPECT_EQ(fuseXml(all, documentOf(other)), "");
  EXPECT_EQ(all.system()->children.size(), 2U);
}

}  // namespace
}  // namespace railwise::topo::test
