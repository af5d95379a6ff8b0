#include "doctor/facts/trees.h"

#include <algorithm>
#include <string_view>

namespace railwise::doctor {

sysfs::FileTree::Entry OverlayTree::entryAt(const std::string& real_path) const {
  const Entry over = entryOf(over_, real_path);
  return over.kind != Kind::kNothing ? over : entryOf(base_, real_path);
}

std::optional<std::string> OverlayTree::readAt(const std::string& real_path, std::size_t most) const {
  return entryOf(over_, real_path).kind == Kind::kFile ? readOf(over_, real_path, most)
                                                       : readOf(base_, real_path, most);
}

std::vector<std::string> OverlayTree::listAt(const std::string& real_path) const {
  std::vector<std::string> names;
  for (const sysfs::FileTree* tree : {&base_, static_cast<const sysfs::FileTree*>(&over_)}) {
    if (entryOf(*tree, real_path).kind != Kind::kDirectory) continue;
    for (std::string& name : listOf(*tree, real_path)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

const sysfs::FileTree& SplitTree::treeOf(const std::string& real_path) const {
  for (const char* folder : {"/sys", "/railwise", "/var/run"}) {
    const std::string_view path = real_path;
    if (path.starts_with(folder) && (path == folder || path[std::string_view(folder).size()] == '/'))
      return machine_;
  }
  return rest_;
}

sysfs::FileTree::Entry SplitTree::entryAt(const std::string& real_path) const {
  return entryOf(treeOf(real_path), real_path);
}

std::optional<std::string> SplitTree::readAt(const std::string& real_path, std::size_t most) const {
  return readOf(treeOf(real_path), real_path, most);
}

std::vector<std::string> SplitTree::listAt(const std::string& real_path) const {
  return listOf(treeOf(real_path), real_path);
}

sysfs::FileTree::Entry TracingTree::entryAt(const std::string& real_path) const {
  Entry entry = entryOf(tree_, real_path);
  const bool known = copy_.items().contains(real_path);
  if (!known && entry.kind == Kind::kLink) copy_.link(real_path, entry.target);
  if (!known && entry.kind == Kind::kDirectory) copy_.folder(real_path);
  return entry;
}

std::optional<std::string> TracingTree::readAt(const std::string& real_path, std::size_t most) const {
  std::optional<std::string> content = readOf(tree_, real_path, most);
  if (content.has_value()) {
    // A file that is read twice, once in part, is kept as a whole.
    const auto known = copy_.items().find(real_path);
    if (known == copy_.items().end() || known->second.content.size() < content->size())
      copy_.file(real_path, *content);
  }
  return content;
}

std::vector<std::string> TracingTree::listAt(const std::string& real_path) const {
  std::vector<std::string> names = listOf(tree_, real_path);
  const std::string below = real_path == "/" ? real_path : real_path + "/";
  for (const std::string& name : names) entryAt(below + name);
  // A file that is only listed is kept by its name.
  for (const std::string& name : names) {
    if (entryOf(tree_, below + name).kind == Kind::kFile && !copy_.items().contains(below + name))
      copy_.file(below + name, "");
  }
  return names;
}

}  // namespace railwise::doctor
