#include <gtest/gtest.h>

#include "topo/exports/host_view.h"

namespace railwise::topo {
namespace {

TEST(ExportNames, DeviceNamesNeedNoQuotes) {
  for (const char* name : {"mlx5_0", "rocep139s0", "eth0.100", "mlx5_bond_0", "a-b"})
    EXPECT_TRUE(isDeviceName(name));
  for (const char* name : {"", "-x", "a b", "a;b", "$(x)", "a,b", "a:1", "a\nb", "\xc3\xa4"})
    EXPECT_FALSE(isDeviceName(name)) << name;
  EXPECT_FALSE(isDeviceName(std::string(64, 'a')));
}

TEST(ExportNames, LabelsOfDns) {
  EXPECT_EQ(dnsLabel("mlx5_0"), "mlx5-0");
  EXPECT_EQ(dnsLabel("Mlx5_0+mlx5_1"), "mlx5-0-mlx5-1");
  EXPECT_EQ(dnsLabel("__"), "");
  EXPECT_EQ(dnsLabel(std::string(62, 'a') + "_b"), std::string(62, 'a'));
  EXPECT_EQ(dnsLabel(std::string(64, 'a')), std::string(63, 'a'));
}

TEST(ExportNames, WordsOfSlurm) {
  EXPECT_EQ(slurmWord("NVIDIA H100 80GB HBM3"), "nvidia_h100_80gb_hbm3");
  EXPECT_EQ(slurmWord("a:b,c=d"), "a_b_c_d");
}

TEST(ExportNames, ShellWordsAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(shellWord("/etc/topo.xml"), "/etc/topo.xml");
  EXPECT_EQ(shellWord("/a b/$x"), "'/a b/$x'");
  EXPECT_EQ(shellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(shellWord(""), "''");
}

TEST(ExportNames, XmlTextsHoldNothingThatXmlForbids) {
  EXPECT_EQ(xmlText("<\"&\n>"), "&lt;&quot;&amp;?&gt;");
  EXPECT_EQ(xmlText("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(xmlText("caf\xe9!"), "caf\xef\xbf\xbd!");
  EXPECT_EQ(xmlText("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
  EXPECT_EQ(xmlText("\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbc"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbc");
}

}  // namespace
}  // namespace railwise::topo
