// Compares two topology documents as NCCL understands them: same elements in the same order and nesting, same
// attributes in any order. host_hash, which names a host, does not count.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "topo/document/xml.h"

namespace railwise::topo::test {

inline std::map<std::string, std::string> meaningOf(const XmlNode& node) {
  std::map<std::string, std::string> meaning;
  for (const XmlAttribute& attribute : node.attributes) meaning.emplace(attribute.name, attribute.value);
  meaning.erase("host_hash");
  return meaning;
}

inline void expectEqual(const XmlNode& actual, const XmlNode& expected, const std::string& place) {
  const std::string here = place + "/" + actual.name + " " + actual.get("busid") + actual.get("numaid");
  EXPECT_EQ(actual.name, expected.name) << here;
  EXPECT_EQ(meaningOf(actual), meaningOf(expected)) << here;
  ASSERT_EQ(actual.children.size(), expected.children.size()) << here;
  for (std::size_t i = 0; i < actual.children.size(); ++i) {
    expectEqual(*actual.children[i], *expected.children[i], here);
  }
}

inline void expectEqual(const XmlDocument& actual, const XmlDocument& expected) {
  ASSERT_NE(actual.system(), nullptr);
  ASSERT_NE(expected.system(), nullptr);
  expectEqual(*actual.system(), *expected.system(), "");
}

}  // namespace railwise::topo::test
