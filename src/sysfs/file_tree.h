// A read-only view of a /sys tree: the live tree, a tree below another root, or a tree in memory (a recorded
// archive, or built by a test). Paths are absolute inside the tree ("/sys/class/..."). Symbolic links never
// lead out of the tree. The caller of the readers owns the tree. Const, and thread-safe if the files below it
// do not change.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/outcome.h"

namespace railwise::sysfs {

class FileTree {
 public:
  static constexpr std::size_t kMaxFileBytes = 4096;  // a sysfs attribute is at most a page
  // Limit for one directory; directories of /sys have hundreds.
  static constexpr std::size_t kMaxEntries = 65536;
  static constexpr int kMaxLinks = 40;  // the kernel's MAXSYMLINKS
  // Limit for a path with its links; the kernel's PATH_MAX is 4096.
  static constexpr std::size_t kMaxPathBytes = 65536;

  virtual ~FileTree() = default;

  // The name of the tree in messages: the root folder or the archive.
  virtual const std::string& name() const = 0;
  // True if this is the /sys of the running machine, so that its CPU may be queried directly.
  virtual bool live() const { return false; }

  // The path without links, "." and "..". An error: the path does not exist, a link leads out of the tree, or
  // links form a loop.
  Outcome<std::string> realPath(std::string_view path) const;
  bool exists(std::string_view path) const { return realPath(path).ok(); }
  // The first `most` bytes of a file. Nothing: the file cannot be read.
  std::optional<std::string> read(std::string_view path, std::size_t most = kMaxFileBytes) const;
  // The names in a directory, sorted. Empty: there is no such directory.
  std::vector<std::string> list(std::string_view path) const;

 protected:
  enum class Kind { kNothing, kFile, kDirectory, kLink };
  struct Entry {
    Kind kind = Kind::kNothing;
    std::string target;  // target of a link
  };
  // These functions take real paths only: no component but the last may be a link.
  virtual Entry entryAt(const std::string& real_path) const = 0;
  virtual std::optional<std::string> readAt(const std::string& real_path, std::size_t most) const = 0;
  virtual std::vector<std::string> listAt(const std::string& real_path) const = 0;

  // What is known to be a folder without links in its path: what is in it needs no walk from the root.
  virtual bool isKnownFolder(std::string_view) const { return false; }
  virtual void noteFolder(std::string_view) const {}
  // Reads a file of such a folder in one go, if that is possible. False: walk to it. `content` receives
  // nothing if there is no such file.
  virtual bool readInFolder(const std::string&, std::size_t, std::optional<std::string>&) const {
    return false;
  }

  // Call the protected functions of another tree.
  static Entry entryOf(const FileTree& tree, const std::string& real_path) { return tree.entryAt(real_path); }
  static std::optional<std::string> readOf(const FileTree& tree, const std::string& real_path,
                                           std::size_t most) {
    return tree.readAt(real_path, most);
  }
  static std::vector<std::string> listOf(const FileTree& tree, const std::string& real_path) {
    return tree.listAt(real_path);
  }
  static bool readInFolderOf(const FileTree& tree, const std::string& path, std::size_t most,
                             std::optional<std::string>& content) {
    return tree.readInFolder(path, most, content);
  }

 private:
  // The length of the folder's name in `path`, if it is known and the rest is a plain name; else 0.
  std::size_t knownFolder(std::string_view path) const;
};

// A cache of another tree: reads each path once. For readers that visit the same folders many times. One
// thread at a time.
class RememberedTree final : public FileTree {
 public:
  // `tree` must outlive it.
  explicit RememberedTree(const FileTree& tree) : tree_(tree) {}

  const std::string& name() const override { return tree_.name(); }
  bool live() const override { return tree_.live(); }

 protected:
  Entry entryAt(const std::string& real_path) const override;
  std::optional<std::string> readAt(const std::string& real_path, std::size_t most) const override;
  std::vector<std::string> listAt(const std::string& real_path) const override;
  bool isKnownFolder(std::string_view path) const override { return folders_.contains(path); }
  void noteFolder(std::string_view path) const override {
    if (!folders_.contains(path)) folders_.emplace(path);
  }
  bool readInFolder(const std::string& path, std::size_t most,
                    std::optional<std::string>& content) const override;

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  const FileTree& tree_;
  mutable std::unordered_set<std::string, TextHash, std::equal_to<>> folders_;
  mutable std::unordered_map<std::string, Entry> entries_;
  mutable std::unordered_map<std::string, std::optional<std::string>> contents_;
  mutable std::unordered_map<std::string, std::vector<std::string>> lists_;
};

// The files below the folder `root`. "/" is the machine itself.
std::unique_ptr<FileTree> makeLiveTree(const std::string& root = "/");
// The live tree of this machine.
const FileTree& liveTree();

// The first line of a file, without its newline. "": the file cannot be read.
std::string firstLine(const FileTree& tree, std::string_view path);
// realPath(), or "" on an error.
std::string realPathOf(const FileTree& tree, std::string_view path);

// A tree in memory. Adding a file also adds its folders. Adding a path again replaces it.
class MemoryTree : public FileTree {
 public:
  explicit MemoryTree(std::string name = "tree in memory") : name_(std::move(name)) {}

  MemoryTree& file(std::string_view path, std::string_view content);
  MemoryTree& link(std::string_view path, std::string_view target);
  MemoryTree& folder(std::string_view path);

  // All entries in the order of their paths, for writing an archive.
  struct Item {
    bool is_folder = false;
    bool is_link = false;
    std::string content;  // content of a file, or target of a link
  };
  const std::map<std::string, Item>& items() const { return items_; }
  const std::string& name() const override { return name_; }

 protected:
  Entry entryAt(const std::string& real_path) const override;
  std::optional<std::string> readAt(const std::string& real_path, std::size_t most) const override;
  std::vector<std::string> listAt(const std::string& real_path) const override;

 private:
  void put(std::string_view path, Item item);

  std::string name_;
  std::map<std::string, Item> items_;
};

// The components of a path, without empty ones.
std::vector<std::string> splitPath(std::string_view path);
// The last component: "0000:3b:00.0" of ".../0000:3b:00.0".
std::string_view baseName(std::string_view path);

// The root of the tree in a folder: the folder itself if it contains sys/, otherwise its only subfolder that
// contains sys/ (recorded trees lie in a folder named after the machine). "" if there is none.
std::string findTreeRoot(const std::string& folder);

}  // namespace railwise::sysfs
