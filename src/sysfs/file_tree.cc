#include "sysfs/file_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace railwise::sysfs {
namespace {

bool isFolder(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::vector<std::string> namesIn(const std::string& folder) {
  std::vector<std::string> names;
  DIR* dir = ::opendir(folder.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() == FileTree::kMaxEntries) break;
    names.emplace_back(name);
  }
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

class LiveTree : public FileTree {
 public:
  // root_ has no trailing slash, so that root_ + "/sys" is a path. It is empty for "/".
  explicit LiveTree(std::string root) : name_(root.empty() ? "/" : root), root_(std::move(root)) {
    while (!root_.empty() && root_.back() == '/') root_.pop_back();
  }

  const std::string& name() const override { return name_; }
  bool live() const override { return root_.empty(); }

 protected:
  Entry entryAt(const std::string& real_path) const override {
    const std::string path = root_ + real_path;
    struct stat info;
    if (::lstat(path.c_str(), &info) != 0) return {};
    if (S_ISDIR(info.st_mode)) return {Kind::kDirectory, {}};
    if (!S_ISLNK(info.st_mode)) return {S_ISREG(info.st_mode) ? Kind::kFile : Kind::kNothing, {}};
    char target[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length <= 0 || length == static_cast<ssize_t>(sizeof target)) return {};
    return {Kind::kLink, std::string(target, static_cast<std::size_t>(length))};
  }

  std::optional<std::string> readAt(const std::string& real_path, std::size_t most) const override {
    const int fd = ::open((root_ + real_path).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return std::nullopt;
    return contentOf(fd, most);
  }

  bool readInFolder(const std::string& path, std::size_t most,
                    std::optional<std::string>& content) const override {
    const int fd = ::open((root_ + path).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT;
    struct stat info;
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
      ::close(fd);
      return false;
    }
    content = contentOf(fd, most);
    return true;
  }

  std::vector<std::string> listAt(const std::string& real_path) const override {
    return namesIn(root_ + real_path);
  }

 private:
  // Closes the descriptor.
  static std::string contentOf(int fd, std::size_t most) {
    std::string content;
    char page[kMaxFileBytes];
    ssize_t count = 0;
    do {
      count = ::read(fd, page, std::min(sizeof page, most - content.size()));
      if (count > 0) content.append(page, static_cast<std::size_t>(count));
      // An attribute always comes whole. The content is empty if the driver refuses the read. A longer file
      // of /proc comes in pieces that are shorter than asked for.
    } while (count > 0 && most > kMaxFileBytes && content.size() < most);
    ::close(fd);
    return content;
  }

  std::string name_;
  std::string root_;
};

}  // namespace

std::vector<std::string> splitPath(std::string_view path) {
  std::vector<std::string> components;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    if (slash != 0) components.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return components;
}

std::string_view baseName(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string findTreeRoot(const std::string& folder) {
  if (isFolder(folder + "/sys") && !isFolder(folder + "/sys/sys"))
    return folder;  // a machine called "sys" has sys/sys
  std::string found;
  for (const std::string& name : namesIn(folder)) {
    std::string below = folder + "/" + name;
    if (!isFolder(below + "/sys")) continue;
    if (!found.empty()) return {};  // several machines: the caller must name one
    found = std::move(below);
  }
  return found;
}

// Walks as the kernel does (path_resolution(7)), and takes the tree's root as the root of absolute links. For
// ".." at the root the kernel stays at the root; in a recorded tree this means a link that leads out of the
// tree.
Outcome<std::string> FileTree::realPath(std::string_view path) const {
  std::string rest(path);  // the part from `at` on is not walked yet
  std::size_t at = knownFolder(path);
  std::string done = rest.substr(0, at);
  bool folder = true;
  int links = 0;
  while ((at = rest.find_first_not_of('/', at)) != std::string::npos) {
    const std::size_t end = std::min(rest.find('/', at), rest.size());
    const std::string_view component = std::string_view(rest).substr(at, end - at);
    at = end;
    if (component == ".") continue;
    if (component == ".." && done.empty()) return Error{std::string(path) + " leads out of " + name()};
    const std::size_t parent = component == ".." ? done.rfind('/') : done.size();
    done.resize(parent);
    folder = true;
    if (component == "..") continue;
    done.append("/").append(component);
    const Entry entry = entryAt(done);
    if (entry.kind == Kind::kNothing) return Error{done + " is not there in " + name()};
    if (entry.kind == Kind::kFile && rest.find_first_not_of('/', at) != std::string::npos)
      return Error{done + " is no folder in " + name()};
    folder = entry.kind == Kind::kDirectory;
    if (entry.kind != Kind::kLink) continue;
    if (++links > kMaxLinks) return Error{std::string(path) + " goes in circles in " + name()};
    done.resize(entry.target.starts_with('/') ? 0 : parent);
    rest.replace(0, at, entry.target);
    at = 0;
    if (rest.size() > kMaxPathBytes) return Error{std::string(path) + " is too long"};
  }
  if (done.empty()) return std::string("/");
  if (folder) noteFolder(done);
  noteFolder(std::string_view(done).substr(0, done.rfind('/')));
  return done;
}

std::size_t FileTree::knownFolder(std::string_view path) const {
  const std::size_t slash = path.rfind('/');
  if (slash == 0 || slash == std::string_view::npos) return 0;
  const std::string_view item = path.substr(slash + 1);
  if (item.empty() || item == "." || item == ".." || !isKnownFolder(path.substr(0, slash))) return 0;
  return slash;
}

std::optional<std::string> FileTree::read(std::string_view path, std::size_t most) const {
  std::optional<std::string> content;
  if (knownFolder(path) != 0 && readInFolder(std::string(path), most, content)) return content;
  const Outcome<std::string> real = realPath(path);
  if (!real.ok() || entryAt(*real).kind != Kind::kFile) return std::nullopt;
  return readAt(*real, most);
}

std::vector<std::string> FileTree::list(std::string_view path) const {
  const Outcome<std::string> real = realPath(path);
  if (!real.ok() || entryAt(*real).kind != Kind::kDirectory) return {};
  return listAt(*real);
}

FileTree::Entry RememberedTree::entryAt(const std::string& real_path) const {
  const auto found = entries_.find(real_path);
  return found != entries_.end() ? found->second
                                 : entries_.emplace(real_path, entryOf(tree_, real_path)).first->second;
}

std::optional<std::string> RememberedTree::readAt(const std::string& real_path, std::size_t most) const {
  if (most != kMaxFileBytes) return readOf(tree_, real_path, most);
  const auto found = contents_.find(real_path);
  return found != contents_.end()
             ? found->second
             : contents_.emplace(real_path, readOf(tree_, real_path, most)).first->second;
}

bool RememberedTree::readInFolder(const std::string& path, std::size_t most,
                                  std::optional<std::string>& content) const {
  if (most != kMaxFileBytes) return readInFolderOf(tree_, path, most, content);
  const auto found = contents_.find(path);
  if (found == contents_.end()) {
    if (!readInFolderOf(tree_, path, most, content)) return false;
    contents_.emplace(path, content);
  } else {
    content = found->second;
  }
  return true;
}

std::vector<std::string> RememberedTree::listAt(const std::string& real_path) const {
  const auto found = lists_.find(real_path);
  return found != lists_.end() ? found->second
                               : lists_.emplace(real_path, listOf(tree_, real_path)).first->second;
}

std::unique_ptr<FileTree> makeLiveTree(const std::string& root) { return std::make_unique<LiveTree>(root); }

// Never destroyed: NCCL's threads may still run at exit.
const FileTree& liveTree() {
  static const FileTree& tree = *new LiveTree("/");
  return tree;
}

std::string firstLine(const FileTree& tree, std::string_view path) {
  const std::string text = tree.read(path).value_or("");
  return text.substr(0, text.find('\n'));
}

std::string realPathOf(const FileTree& tree, std::string_view path) {
  Outcome<std::string> real = tree.realPath(path);
  return real.ok() ? std::move(*real) : std::string();
}

MemoryTree& MemoryTree::file(std::string_view path, std::string_view content) {
  put(path, {.content = std::string(content)});
  return *this;
}

MemoryTree& MemoryTree::link(std::string_view path, std::string_view target) {
  put(path, {.is_link = true, .content = std::string(target)});
  return *this;
}

MemoryTree& MemoryTree::folder(std::string_view path) {
  put(path, {.is_folder = true});
  return *this;
}

void MemoryTree::put(std::string_view path, Item item) {
  std::string at;
  const std::vector<std::string> components = splitPath(path);
  for (std::size_t i = 0; i < components.size(); ++i) {
    at.append("/").append(components[i]);
    if (i + 1 < components.size()) items_.try_emplace(at, Item{.is_folder = true});
  }
  if (at.empty()) return;  // the root
  if (item.is_folder) items_.try_emplace(at, std::move(item));
  else items_.insert_or_assign(at, std::move(item));
}

FileTree::Entry MemoryTree::entryAt(const std::string& real_path) const {
  if (real_path == "/") return {Kind::kDirectory, {}};
  const auto found = items_.find(real_path);
  if (found == items_.end()) return {};
  if (found->second.is_link) return {Kind::kLink, found->second.content};
  return {found->second.is_folder ? Kind::kDirectory : Kind::kFile, {}};
}

std::optional<std::string> MemoryTree::readAt(const std::string& real_path, std::size_t most) const {
  const auto found = items_.find(real_path);
  if (found == items_.end()) return std::nullopt;
  return found->second.content.substr(0, most);
}

std::vector<std::string> MemoryTree::listAt(const std::string& real_path) const {
  const std::string prefix = real_path == "/" ? real_path : real_path + "/";
  std::vector<std::string> names;
  for (auto item = items_.upper_bound(prefix); item != items_.end(); ++item) {
    if (!item->first.starts_with(prefix)) break;
    if (item->first.find('/', prefix.size()) != std::string::npos) continue;
    names.push_back(item->first.substr(prefix.size()));
  }
  return names;
}

}  // namespace railwise::sysfs
