// A read-only view of a /sys tree: the live one, one below another root, or one in memory (a recorded
// archive, or built by a test). Paths are absolute inside the tree ("/sys/class/...") and symbolic links
// never lead out of it. Owned by the caller of the readers; const, and thread-safe when the tree under it
// does not change.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "topo/outcome.h"

namespace railwise::topo {

class FileTree {
 public:
  static constexpr std::size_t kMaxFileBytes = 4096;   // a sysfs attribute is at most a page
  static constexpr std::size_t kMaxEntries = 65536;    // of one directory; /sys has hundreds
  static constexpr int kMaxLinks = 40;                 // as the kernel's MAXSYMLINKS
  static constexpr std::size_t kMaxPathBytes = 65536;  // with links in it; the kernel's PATH_MAX is 4096

  virtual ~FileTree() = default;

  // What the tree is called in messages: the root folder or the archive.
  virtual const std::string& name() const = 0;
  // True when this is the /sys of the running machine, so that its own CPU may be asked.
  virtual bool live() const { return false; }

  // The path without links, "." and "..". An error: nothing is there, a link leads out of the tree, or links
  // go in circles.
  Outcome<std::string> realPath(std::string_view path) const;
  bool exists(std::string_view path) const { return realPath(path).ok(); }
  // The first kMaxFileBytes of a file; nothing: it cannot be read.
  std::optional<std::string> read(std::string_view path) const;
  // The names in a directory, sorted; empty: there is none.
  std::vector<std::string> list(std::string_view path) const;

 protected:
  enum class Kind { kNothing, kFile, kDirectory, kLink };
  struct Entry {
    Kind kind = Kind::kNothing;
    std::string target;  // of a link
  };
  // These are given real paths only: no link on the way to the last component.
  virtual Entry entryAt(const std::string& real_path) const = 0;
  virtual std::optional<std::string> readAt(const std::string& real_path) const = 0;
  virtual std::vector<std::string> listAt(const std::string& real_path) const = 0;

  // Of another tree.
  static Entry entryOf(const FileTree& tree, const std::string& real_path) { return tree.entryAt(real_path); }
  static std::optional<std::string> readOf(const FileTree& tree, const std::string& real_path) {
    return tree.readAt(real_path);
  }
  static std::vector<std::string> listOf(const FileTree& tree, const std::string& real_path) {
    return tree.listAt(real_path);
  }
};

// Another tree, which is asked once for each path: for a reading that comes by the same folders many times.
// One thread at a time.
class RememberedTree final : public FileTree {
 public:
  // `tree` must outlive it.
  explicit RememberedTree(const FileTree& tree) : tree_(tree) {}

  const std::string& name() const override { return tree_.name(); }
  bool live() const override { return tree_.live(); }

 protected:
  Entry entryAt(const std::string& real_path) const override;
  std::optional<std::string> readAt(const std::string& real_path) const override;
  std::vector<std::string> listAt(const std::string& real_path) const override;

 private:
  const FileTree& tree_;
  mutable std::unordered_map<std::string, Entry> entries_;
  mutable std::unordered_map<std::string, std::optional<std::string>> contents_;
  mutable std::unordered_map<std::string, std::vector<std::string>> lists_;
};

// The files below a folder: "/" is the machine itself.
std::unique_ptr<FileTree> makeLiveTree(const std::string& root = "/");

// A tree in memory. Folders appear with the files in them; adding a path again replaces it.
class MemoryTree : public FileTree {
 public:
  explicit MemoryTree(std::string name = "tree in memory") : name_(std::move(name)) {}

  MemoryTree& file(std::string_view path, std::string_view content);
  MemoryTree& link(std::string_view path, std::string_view target);
  MemoryTree& folder(std::string_view path);

  // All of it, for writing an archive, in the order of the paths.
  struct Item {
    bool is_folder = false;
    bool is_link = false;
    std::string content;  // of a file; of a link, the target
  };
  const std::map<std::string, Item>& items() const { return items_; }
  const std::string& name() const override { return name_; }

 protected:
  Entry entryAt(const std::string& real_path) const override;
  std::optional<std::string> readAt(const std::string& real_path) const override;
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

// Where the tree is inside a folder: the folder itself when it has sys/, else its only subfolder that has
// (recorded trees lie in a folder named after the machine). "" when there is none.
std::string findTreeRoot(const std::string& folder);

}  // namespace railwise::topo
