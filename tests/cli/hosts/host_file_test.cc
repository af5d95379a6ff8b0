// The file of --hosts.
#include <gtest/gtest.h>

#include "cli/hosts/run_on_hosts.h"
#include "ok.h"

namespace railwise::cli {
namespace {

std::string errorOf(std::string_view text) {
  const auto hosts = parseHostFile(text, "hosts");
  return hosts.ok() ? "" : hosts.error();
}

TEST(HostFile, HasOneHostPerLine) {
  const auto hosts = parseHostFile("# two hosts\n\n  node1 slots=8\r\nroot@10.0.0.2 # the second\n", "hosts");
  ASSERT_OK(hosts);
  EXPECT_EQ(*hosts, (std::vector<std::string>{"node1", "root@10.0.0.2"}));
}

TEST(HostFile, ErrorsNameTheLine) {
  EXPECT_EQ(errorOf("node1\n-oProxyCommand=x\n"),
            "hosts:2: '-oProxyCommand=x' is not the name of a host (letters, digits, . - _ : @)");
  EXPECT_EQ(errorOf("node1\n\nnode1"), "hosts:3: node1 is there twice: take one of the lines out");
  EXPECT_EQ(errorOf("# nobody\n"), "hosts: no host in it; write one host per line");
  std::string many;
  for (std::size_t i = 0; i <= kMaxHosts; ++i) many += "n" + std::to_string(i) + "\n";
  EXPECT_EQ(errorOf(many), "hosts:257: more than 256 hosts: take them in parts");
}

TEST(HostName, IsNothingThatAShellWouldTouch) {
  EXPECT_TRUE(isHostName("user@node-1.example.org"));
  for (const char* const name : {"", "-x", "a b", "a;b", "$(x)", "a@b@c", "`x`"})
    EXPECT_FALSE(isHostName(name));
}

}  // namespace
}  // namespace railwise::cli
