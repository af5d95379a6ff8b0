#include "sysfs/file_tree.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace railwise::sysfs {
namespace {

MemoryTree makeTree() {
  MemoryTree tree;
  tree.file("/sys/devices/pci0000:00/0000:00:01.0/class", "0x030200\n").folder("/sys/empty");
  tree.link("/sys/bus/gpu", "../devices/pci0000:00/0000:00:01.0").link("/sys/absolute", "/sys/bus/gpu");
  tree.link("/sys/out", "../../etc").link("/sys/circle", "circle").link("/sys/a", "b").link("/sys/b", "a");
  tree.link("/sys/dangling", "nothing");
  return tree;
}

// The same tree as files.
class OnDisk {
 public:
  explicit OnDisk(const MemoryTree& tree) {
    EXPECT_NE(::mkdtemp(folder_), nullptr);
    for (const auto& [path, item] : tree.items()) {
      const std::string full = folder_ + path;
      if (item.is_folder) EXPECT_EQ(::mkdir(full.c_str(), 0755), 0);
      else if (item.is_link) EXPECT_EQ(::symlink(item.content.c_str(), full.c_str()), 0);
      else write(full, item.content);
    }
  }
  OnDisk(const OnDisk&) = delete;
  OnDisk& operator=(const OnDisk&) = delete;
  ~OnDisk() { EXPECT_EQ(std::system(("rm -r " + std::string(folder_)).c_str()), 0); }
  std::string folder() const { return folder_; }

 private:
  static void write(const std::string& path, const std::string& content) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    std::fwrite(content.data(), 1, content.size(), file);
    std::fclose(file);
  }
  char folder_[32] = "/tmp/railwise-tree-XXXXXX";
};

void expectLinksFollowed(const FileTree& tree) {
  EXPECT_EQ(*tree.realPath("/sys/bus/gpu"), "/sys/devices/pci0000:00/0000:00:01.0");
  EXPECT_EQ(*tree.realPath("/sys/absolute/../0000:00:01.0"), "/sys/devices/pci0000:00/0000:00:01.0");
  EXPECT_EQ(tree.read("/sys/absolute/class"), "0x030200\n");
  for (const char* bad :
       {"/sys/out", "/sys/circle", "/sys/a", "/sys/dangling", "/sys/empty/class", "/../sys"}) {
    EXPECT_FALSE(tree.exists(bad)) << bad;
    EXPECT_NE(tree.realPath(bad).error(), "") << bad;
    EXPECT_FALSE(tree.read(bad)) << bad;
    EXPECT_TRUE(tree.list(bad).empty()) << bad;
  }
  EXPECT_FALSE(tree.read("/sys")) << "a folder";
  EXPECT_FALSE(tree.exists("/sys/absolute/class/more")) << "a file is no folder";
  EXPECT_EQ(tree.list("/sys/absolute"), std::vector<std::string>{"class"});
  EXPECT_EQ(tree.list("/sys"), (std::vector<std::string>{"a", "absolute", "b", "bus", "circle", "dangling",
                                                         "devices", "empty", "out"}));
}

TEST(FileTree, MemoryFollowsLinksInside) { expectLinksFollowed(makeTree()); }

TEST(FileTree, DiskFollowsLinksInside) {
  const OnDisk disk(makeTree());
  expectLinksFollowed(*makeLiveTree(disk.folder()));
  expectLinksFollowed(*makeLiveTree(disk.folder() + "/"));
}

// The second time the folders are known.
TEST(RememberedTree, KnownFoldersOfADiskAreReadAsOthers) {
  MemoryTree links = makeTree();
  links.file("/sys/dev/class", "0x01\n").folder("/sys/dev/sub").link("/sys/dev/alias", "class");
  links.link("/sys/dev/root", "/sys/dev/class").link("/sys/dev/outside", "/etc/passwd");
  const OnDisk disk(links);
  const auto live = makeLiveTree(disk.folder());
  const RememberedTree tree(*live);
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(tree.exists("/sys/dev"));
    EXPECT_EQ(tree.read("/sys/dev/class"), "0x01\n");
    EXPECT_EQ(tree.read("/sys/dev/alias"), "0x01\n");
    EXPECT_EQ(tree.read("/sys/dev/root"), "0x01\n") << "a link from the root of the tree";
    EXPECT_FALSE(tree.read("/sys/dev/outside"));
    EXPECT_FALSE(tree.read("/sys/dev/sub")) << "a folder";
    EXPECT_FALSE(tree.read("/sys/dev/nothing"));
    EXPECT_FALSE(tree.exists("/sys/dev/class/more"));
    EXPECT_EQ(*tree.realPath("/sys/dev/alias"), "/sys/dev/class");
    EXPECT_EQ(*tree.realPath("/sys/bus/gpu"), "/sys/devices/pci0000:00/0000:00:01.0");
    EXPECT_EQ(tree.read("/sys/bus/gpu/class"), "0x030200\n");
  }
}

TEST(FileTree, FilesAreBounded) {
  MemoryTree large;
  large.file("/sys/large", std::string(3 * FileTree::kMaxFileBytes, 'x'));
  EXPECT_EQ(large.read("/sys/large")->size(), FileTree::kMaxFileBytes);
  const OnDisk disk(large);
  EXPECT_EQ(makeLiveTree(disk.folder())->read("/sys/large")->size(), FileTree::kMaxFileBytes);
}

// The kernel gives out most files of /proc a page at a time, and less than a page each time.
TEST(FileTree, AFileThatComesInPiecesIsReadToItsEnd) {
  constexpr std::size_t kPages = 400;  // every other one may be written: each is a line of its own
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const pages = mmap(nullptr, kPages * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  for (std::size_t i = 0; i < kPages; i += 2)
    ASSERT_EQ(mprotect(static_cast<char*>(pages) + i * page, page, PROT_READ | PROT_WRITE), 0);
  const std::string maps = makeLiveTree("/")->read("/proc/self/maps", 1 << 20).value_or("");
  EXPECT_GT(std::count(maps.begin(), maps.end(), '\n'), static_cast<std::ptrdiff_t>(kPages) - 1);
  munmap(pages, kPages * page);
}

TEST(FileTree, OnlyTheMachineItselfIsLive) {
  EXPECT_TRUE(makeLiveTree("/")->live());
  EXPECT_TRUE(makeLiveTree()->exists("/sys"));
  EXPECT_FALSE(makeLiveTree("/tmp")->live());
  EXPECT_FALSE(makeTree().live());
}

// Counts what it is asked.
class CountingTree : public MemoryTree {
 public:
  explicit CountingTree(MemoryTree tree) : MemoryTree(std::move(tree)) {}
  mutable int questions = 0;

 protected:
  Entry entryAt(const std::string& path) const override { return ++questions, MemoryTree::entryAt(path); }
  std::optional<std::string> readAt(const std::string& path, std::size_t most) const override {
    return ++questions, MemoryTree::readAt(path, most);
  }
  std::vector<std::string> listAt(const std::string& path) const override {
    return ++questions, MemoryTree::listAt(path);
  }
};

TEST(RememberedTree, AsksOnceAndSaysTheSame) {
  const CountingTree tree(makeTree());
  const RememberedTree remembered(tree);
  int questions = 0;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(remembered.read("/sys/bus/gpu/class"), "0x030200\n");
    EXPECT_FALSE(remembered.read("/sys/bus/gpu/device"));
    EXPECT_EQ(remembered.list("/sys/devices"), std::vector<std::string>{"pci0000:00"});
    EXPECT_EQ(remembered.realPath("/sys/circle").error(), makeTree().realPath("/sys/circle").error());
    EXPECT_FALSE(remembered.exists("/sys/dangling"));
    if (round == 0) questions = tree.questions;
  }
  EXPECT_GT(questions, 0);
  EXPECT_EQ(tree.questions, questions);
}

TEST(FindTreeRoot, LooksOneFolderDown) {
  MemoryTree machines;
  machines.file("/one/sys/class/a", "1\n");
  const OnDisk one(machines);
  EXPECT_EQ(findTreeRoot(one.folder()), one.folder() + "/one");
  EXPECT_EQ(findTreeRoot(one.folder() + "/one"), one.folder() + "/one");
  machines.file("/two/sys/class/a", "1\n");
  const OnDisk two(machines);
  EXPECT_EQ(findTreeRoot(two.folder()), "") << "which of the two?";
}

TEST(FirstLine, OfAMissingFileIsEmpty) {
  EXPECT_EQ(firstLine(liveTree(), "/sys/no/such/file"), "");
  EXPECT_NE(firstLine(liveTree(), "/proc/sys/kernel/ostype"), "");
  EXPECT_EQ(firstLine(MemoryTree().file("/sys/x", "one\ntwo\n"), "/sys/x"), "one");
}

TEST(RealPathOf, NothingIsEmpty) {
  EXPECT_EQ(realPathOf(makeTree(), "/sys/bus/gpu"), "/sys/devices/pci0000:00/0000:00:01.0");
  EXPECT_EQ(realPathOf(makeTree(), "/sys/dangling"), "");
}

}  // namespace
}  // namespace railwise::sysfs
