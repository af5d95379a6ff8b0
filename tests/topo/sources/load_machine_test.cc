#include "topo/sources/load_machine.h"

#include <gtest/gtest.h>

#include "tests/topo/flat_tree.h"

namespace railwise::topo {
namespace {

TEST(LoadMachine, ATreeIsCompletedAndSaysWhatWasAssumed) {
  const sysfs::MemoryTree tree = test::makeNdv5();
  const auto machine = loadMachine({.tree = tree, .settings = Settings()});
  ASSERT_TRUE(machine.ok()) << machine.error();
  EXPECT_EQ(machine->name, tree.name());
  EXPECT_EQ(machine->graph->count(NodeType::kGpu), 8);
  EXPECT_TRUE(machine->completed);
  EXPECT_FALSE(machine->remarks.empty()) << "compute capability";
}

TEST(LoadMachine, ATopologyFileLiesUnderTheTree) {
  const sysfs::MemoryTree tree = test::makeNdv5();
  auto file =
      parseXml(R"(<system version="1"><cpu numaid="0" arch="arm64" affinity="ff"/></system>)", "file");
  ASSERT_TRUE(file.ok()) << file.error();
  const auto machine = loadMachine({.tree = tree, .settings = Settings(), .document = std::move(*file)});
  ASSERT_TRUE(machine.ok()) << machine.error();
  const XmlNode* const cpu = machine->xml->find("cpu", "numaid", "0");
  ASSERT_NE(cpu, nullptr);
  EXPECT_EQ(cpu->get("arch"), "arm64");
}

TEST(LoadMachine, AnErrorSaysWhatIsWrong) {
  const sysfs::MemoryTree empty("nothing");
  const auto none = loadMachine({.tree = empty, .settings = Settings()});
  EXPECT_TRUE(none.error().starts_with("no GPU in nothing")) << none.error();
  EXPECT_EQ(none.failure().code, Code::kNoDevice);
  const sysfs::MemoryTree tree = test::makeNdv5();
  const std::string missing = "/no/such.xml";
  const auto unread = loadMachine({.tree = tree, .settings = Settings(), .topology_file = &missing});
  EXPECT_NE(unread.error().find("/no/such.xml"), std::string::npos);
  EXPECT_NE(unread.failure().code, Code::kNoDevice);
}

}  // namespace
}  // namespace railwise::topo
