#include "doctor/facts/trees.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>

#include "base/text/text_layout.h"
#include "doctor/facts/system.h"
#include "sysfs/peer_memory.h"

namespace railwise::doctor {
namespace {

constexpr char kHostName[] = "/proc/sys/kernel/hostname";

bool isHex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }

// The parts of a text between `separator`s.
std::size_t partsOf(std::string_view text, char separator) {
  return static_cast<std::size_t>(std::ranges::count(text, separator)) + 1;
}

bool allParts(std::string_view text, char separator, std::size_t least, std::size_t most,
              bool (*fits)(char)) {
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end < least || end > most || !std::all_of(text.begin(), text.begin() + static_cast<long>(end), fits))
      return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

bool isIpv4(std::string_view word) { return partsOf(word, '.') == 4 && allParts(word, '.', 1, 3, isDigit); }
bool isMac(std::string_view word) { return partsOf(word, ':') == 6 && allParts(word, ':', 2, 2, isHex); }
// As the kernel writes a GID (eight groups) or a GUID (four).
bool isGroups(std::string_view word, std::size_t groups) {
  return partsOf(word, ':') == groups && allParts(word, ':', 4, 4, isHex);
}
// As inet_ntop writes it, with at least three colons or a double one: no PCI address has these.
bool isIpv6(std::string_view word) {
  return (partsOf(word, ':') > 4 || word.find("::") != std::string_view::npos) &&
         allParts(word, ':', 0, 4, isHex) && word.size() > 2;
}

class Mask {
 public:
  explicit Mask(std::string host) : host_(std::move(host)) {}

  // Replaces every address in a text, word by word: a word is what addresses are made of.
  std::string text(std::string_view text) {
    std::string result;
    std::size_t at = 0;
    while (at < text.size()) {
      std::size_t end = at;
      while (end < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == ':' ||
              text[end] == '.' || text[end] == '-' || text[end] == '_'))
        ++end;
      result += end > at ? word(text.substr(at, end - at)) : std::string(1, text[end]);
      at = std::max(end, at + 1);
    }
    return result;
  }

 private:
  std::string word(std::string_view word) {
    // "node17", and "node17.example.org".
    if (!host_.empty() && (word == host_ || (word.starts_with(host_) && word[host_.size()] == '.')))
      return "host";
    // "10.0.0.17:0": an address with a port.
    const std::size_t colon = word.rfind(':');
    if (colon != std::string_view::npos && isIpv4(word.substr(0, colon)))
      return this->word(word.substr(0, colon)) + std::string(word.substr(colon));
    constexpr std::string_view kMapped = "0000:0000:0000:0000:0000:ffff:";
    if (isIpv4(word)) return word.starts_with("127.") ? std::string(word) : "10.0." + dotted(word);
    if (isMac(word)) return "02:00:00:00:" + hex(word, ":");
    if (zero(word)) return std::string(word);
    if (isGroups(word, 4)) return "0200:0000:0000:" + hex(word, "");
    if (isGroups(word, 8)) {
      if (word.starts_with(kMapped)) return std::string(kMapped) + "0a00:" + hex(word, "");
      return (word.starts_with("fe80") ? "fe80:0000:0000:0000:0200:0000:0000:"
                                       : "fd00:0000:0000:0000:0000:0000:0000:") +
             hex(word, "");
    }
    if (isIpv6(word)) return (word.starts_with("fe80") ? "fe80::" : "fd00::") + hex(word, "");
    return std::string(word);
  }

  static bool zero(std::string_view word) { return word.find_first_not_of("0:") == std::string_view::npos; }

  // The number of an address, in the order in which they were met, as two bytes.
  std::pair<unsigned, unsigned> numberOf(std::string_view word) {
    const auto number = numbers_.try_emplace(std::string(word), numbers_.size() + 1).first->second;
    return {static_cast<unsigned>(number >> 8 & 0xff), static_cast<unsigned>(number & 0xff)};
  }
  std::string dotted(std::string_view word) {
    const auto [high, low] = numberOf(word);
    return std::to_string(high) + "." + std::to_string(low);
  }
  std::string hex(std::string_view word, const char* between) {
    const auto [high, low] = numberOf(word);
    return formatText("%02x%s%02x", high, between, low);
  }

  std::string host_;
  std::map<std::string, std::size_t> numbers_;
};

// Secrets, other hosts' names, and the names of people in paths.
std::string withoutSecrets(const std::string& environment) {
  static constexpr std::array kSigns = {"KEY", "TOKEN", "SECRET", "PASS"};
  std::string result;
  for (const std::string& line : linesOf(environment)) {
    const std::string name = line.substr(0, line.find('='));
    const bool secret =
        std::ranges::any_of(kSigns, [&](const char* sign) { return name.find(sign) != std::string::npos; });
    const bool person =
        name == "HOME" || name == "VIRTUAL_ENV" || name == "CONDA_PREFIX" || name == "SUDO_USER";
    result += secret || person || name == "MASTER_ADDR" ? name + "=masked\n" : line + "\n";
  }
  return result;
}

}  // namespace

sysfs::FileTree::Entry ChoosingTree::entryAt(const std::string& real_path) const {
  return entryOf(treeOf(real_path), real_path);
}

std::optional<std::string> ChoosingTree::readAt(const std::string& real_path, std::size_t most) const {
  return readOf(treeOf(real_path), real_path, most);
}

std::vector<std::string> ChoosingTree::listAt(const std::string& real_path) const {
  return listOf(treeOf(real_path), real_path);
}

const sysfs::FileTree& OverlayTree::treeOf(const std::string& real_path) const {
  if (entryOf(over_, real_path).kind == Kind::kNothing) return base_;
  return over_;
}

std::vector<std::string> OverlayTree::listAt(const std::string& real_path) const {
  std::vector<std::string> names;
  for (const sysfs::FileTree* tree : {&base_, static_cast<const sysfs::FileTree*>(&over_)}) {
    if (entryOf(*tree, real_path).kind != Kind::kDirectory) continue;
    for (std::string& name : listOf(*tree, real_path)) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
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
      copy_.file(real_path,
                 real_path == sysfs::kKernelSymbols ? sysfs::peerMemorySymbols(*content) : *content);
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

sysfs::MemoryTree masked(const sysfs::MemoryTree& tree) {
  Mask mask(std::string(trimmed(sysfs::firstLine(tree, kHostName))));
  sysfs::MemoryTree result(tree.name());
  for (const auto& [path, item] : tree.items()) {
    if (item.is_link) result.link(path, item.content);
    else if (item.is_folder) result.folder(path);
    // A binary file: PCI configuration, which has no address of a network.
    else if (path.ends_with("/config")) result.file(path, item.content);
    else if (path == kEnvironmentFile) result.file(path, mask.text(withoutSecrets(item.content)));
    else result.file(path, mask.text(item.content));
  }
  return result;
}

}  // namespace railwise::doctor
