#include "sysfs/tar_archive.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/ok.h"
#include "tests/topo/topologies.h"

namespace railwise::sysfs {
namespace {

using namespace topo::test;

MemoryTree makeArchivedTree() {
  MemoryTree tree("machine");
  const std::string deep = "/sys/devices/" + std::string(120, 'd') + "/" + std::string(90, 'e');
  tree.file("/sys/class/a", "1\n").file(deep + "/file", "2\n").link("/sys/long", deep).folder("/sys/empty");
  return tree;
}

std::string packed(const MemoryTree& tree) { return *writeArchive(tree, "machine"); }

std::string errorOf(std::string_view bytes) {
  const auto tree = readArchive(bytes, "x.tar.gz");
  return tree.ok() ? "" : tree.error();
}

// A plain tar with one file of that path.
std::string tarWith(const std::string& path, TarEntry::Kind kind = TarEntry::Kind::kFile,
                    const std::string& link = {}) {
  std::string tar;
  appendTar(tar, {TarEntry::Kind::kFolder, "sys/", {}, {}});
  appendTar(tar, {kind, path, link, "x\n"});
  endTar(tar);
  return tar;
}

TEST(Archive, ComesBackAsItWas) {
  const MemoryTree tree = makeArchivedTree();
  const auto read = readArchive(packed(tree), "x");
  ASSERT_OK(read);
  ASSERT_EQ((*read)->items().size(), tree.items().size());
  for (const auto& [path, item] : tree.items()) {
    ASSERT_EQ((*read)->items().count(path), 1U) << path;
    EXPECT_EQ((*read)->items().at(path).content, item.content) << path;
    EXPECT_EQ((*read)->items().at(path).is_link, item.is_link) << path;
  }
}

TEST(Archive, AMachineMayBeCalledSys) {
  const auto read = readArchive(*writeArchive(makeArchivedTree(), "sys"), "x");
  ASSERT_OK(read);
  EXPECT_EQ((*read)->read("/sys/class/a"), "1\n");
}

TEST(Archive, TheSameTreeGivesTheSameBytes) {
  EXPECT_EQ(packed(makeArchivedTree()), packed(makeArchivedTree()));
}

TEST(Archive, AnyPrefixIsAClearError) {
  const std::string bytes = packed(makeArchivedTree());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_HAS(errorOf(bytes.substr(0, size)), "x.tar.gz: it ") << size;
  }
}

TEST(Archive, ADamagedByteIsAClearError) {
  std::string bytes = packed(makeArchivedTree());
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  EXPECT_HAS(errorOf(bytes), "damaged");
}

TEST(Archive, ACutTarIsAClearError) {
  const std::string tar = tarWith("sys/a");
  for (const std::size_t size : {100UL, 512UL, 1024UL, 1536UL}) {
    EXPECT_HAS(errorOf(tar.substr(0, size)), "cut off") << size;
  }
}

TEST(Archive, PathsThatLeadOutAreRefused) {
  EXPECT_HAS(errorOf(tarWith("sys/../../etc/passwd")), "leads out");
  EXPECT_HAS(errorOf(tarWith("sys/hard", TarEntry::Kind::kHardLink, "../passwd")), "leads out");
}

TEST(Archive, WithoutSysItIsNoTree) {
  std::string tar;
  appendTar(tar, {TarEntry::Kind::kFile, "readme", {}, "x"});
  endTar(tar);
  EXPECT_HAS(errorOf(tar), "no folder sys/");
}

TEST(Archive, ABombIsRefused) {
  char path[] = "/tmp/railwise-bomb-XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  ::close(fd);
  EXPECT_EQ(std::system(("head -c 100000000 /dev/zero | gzip > " + std::string(path)).c_str()), 0);
  EXPECT_HAS(openTree(path).error(), "more than 64 MiB");
  ::unlink(path);
}

TEST(Archive, TarOfTheSystemReadsOurs) {
  char folder[] = "/tmp/railwise-tar-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/tree.tar.gz";
  const std::string bytes = packed(makeArchivedTree());
  std::FILE* file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  EXPECT_EQ(std::system(("tar xzf " + path + " -C " + folder).c_str()), 0);
  const auto tree = openTree(std::string(folder) + "/machine");
  ASSERT_OK(tree);
  EXPECT_EQ((*tree)->read("/sys/long/file"), "2\n");
  EXPECT_EQ(std::system(("rm -r " + std::string(folder)).c_str()), 0);
}

TEST(Archive, OpensTheRecordedTrees) {
  const std::string folder = topologiesFolder();
  if (folder.empty()) GTEST_SKIP() << "no topologies";
  for (const std::string name : {"p5.48xl-topo", "hwloc-nvidiaDGX2", "g5.48xl-topo"}) {
    const auto tree = openTree(folder + "/sysfs/" + name + ".tar.gz");
    ASSERT_OK(tree);
    EXPECT_TRUE((*tree)->exists("/sys/devices/system/node/node0/cpumap"));
  }
}

TEST(OpenTree, SaysWhatIsMissing) {
  EXPECT_HAS(openTree("/no/such/tree").error(), "No such file");
  EXPECT_HAS(openTree("/proc/self/fd").error(), "no folder sys/");
}

}  // namespace
}  // namespace railwise::sysfs
