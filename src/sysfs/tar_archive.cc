#include "sysfs/tar_archive.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/whole_file.h"
#include "sysfs/tar_format.h"

namespace railwise::sysfs {
namespace {

constexpr int kGzip = 16 + MAX_WBITS;  // windowBits of zlib: a gzip header and the largest window
constexpr std::size_t kChunk = 1UL << 16;
constexpr char kTooLarge[] = "it unpacks to more than 64 MiB, which no recorded tree does";

// Ends zlib's stream in its destructor.
struct Inflater {
  z_stream stream = {};
  Inflater() = default;
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

bool isGzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

// Unpacks all members of a gzip file. Returns "" or an error text.
std::string unpack(std::string_view bytes, std::string& unpacked) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  if (inflateInit2(&stream, kGzip) != Z_OK) return "zlib cannot start";
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib only reads
  stream.avail_in = static_cast<uInt>(bytes.size());
  while (true) {
    const std::size_t size = unpacked.size();
    if (size > kMaxArchiveBytes) return kTooLarge;
    unpacked.resize(size + kChunk);
    stream.next_out = reinterpret_cast<Bytef*>(unpacked.data() + size);
    stream.avail_out = kChunk;
    const int result = inflate(&stream, Z_NO_FLUSH);
    unpacked.resize(size + kChunk - stream.avail_out);
    if (result == Z_STREAM_END) {
      const std::string_view rest(reinterpret_cast<const char*>(stream.next_in), stream.avail_in);
      if (!isGzip(rest)) return {};
      if (inflateReset(&stream) != Z_OK) return "zlib cannot go on";
    } else if (result == Z_BUF_ERROR || (result == Z_OK && stream.avail_in == 0 && stream.avail_out != 0)) {
      return "it is cut off";
    } else if (result != Z_OK) {
      return "it is damaged (" + std::string(stream.msg != nullptr ? stream.msg : "not gzip") + ")";
    }
  }
}

// The path inside the archive, without "." and "/" at the front. Nothing: the path leads out of the archive.
std::optional<std::string> cleanPath(const std::string& path) {
  std::string clean;
  for (const std::string& component : splitPath(path)) {
    if (component == ".") continue;
    if (component == ".." || component.find('\0') != std::string::npos) return std::nullopt;
    clean.append("/").append(component);
  }
  return clean;
}

std::string putEntry(MemoryTree& tree, const TarEntry& entry) {
  if (tree.items().size() > kMaxArchiveEntries) return "it has too many entries";
  constexpr std::size_t kMaxDepth = 64;
  if (entry.path.size() > kMaxArchivePath || entry.link.size() > kMaxArchivePath) return "a path is too long";
  const std::optional<std::string> path = cleanPath(entry.path);
  if (!path) return "a path in it leads out of it: " + entry.path.substr(0, 100);
  if (static_cast<std::size_t>(std::count(path->begin(), path->end(), '/')) > kMaxDepth)
    return "a path is too deep";
  switch (entry.kind) {
    case TarEntry::Kind::kFolder:
      tree.folder(*path);
      break;
    case TarEntry::Kind::kSymlink:
      tree.link(*path, entry.link);
      break;
    case TarEntry::Kind::kFile:
      tree.file(*path, entry.content);
      break;
    case TarEntry::Kind::kHardLink: {
      const std::optional<std::string> target = cleanPath(entry.link);
      if (!target) return "a link in it leads out of it: " + entry.link.substr(0, 100);
      tree.file(*path, tree.read(*target).value_or(""));
      break;
    }
  }
  return {};
}

// The folder that contains sys/: "" for the top, "/machine" for one level below. Nothing: there is none, or
// there are several. A machine may be called "sys".
std::optional<std::string> topFolder(const MemoryTree& tree) {
  if (tree.exists("/sys") && !tree.exists("/sys/sys")) return "";
  std::optional<std::string> found;
  for (const std::string& name : tree.list("/")) {
    if (!tree.exists("/" + name + "/sys")) continue;
    if (found) return std::nullopt;
    found = "/" + name;
  }
  return found;
}

std::unique_ptr<MemoryTree> below(const MemoryTree& tree, const std::string& folder) {
  auto inner = std::make_unique<MemoryTree>(tree.name());
  for (const auto& [path, item] : tree.items()) {
    if (!path.starts_with(folder + "/")) continue;
    const std::string_view rest = std::string_view(path).substr(folder.size());
    if (item.is_folder) inner->folder(rest);
    else if (item.is_link) inner->link(rest, item.content);
    else inner->file(rest, item.content);
  }
  return inner;
}

}  // namespace

Outcome<std::unique_ptr<MemoryTree>> readArchive(std::string_view bytes, const std::string& name) {
  std::string unpacked;
  if (bytes.size() > kMaxArchiveBytes) return Error{name + ": " + kTooLarge};
  if (isGzip(bytes)) {
    if (const std::string problem = unpack(bytes, unpacked); !problem.empty())
      return Error{name + ": " + problem};
    bytes = unpacked;
  }
  MemoryTree all(name);
  const std::string problem = readTar(bytes, [&](const TarEntry& entry) { return putEntry(all, entry); });
  if (!problem.empty()) return Error{name + ": " + problem};
  const std::optional<std::string> top = topFolder(all);
  if (!top) return Error{name + ": it has no folder sys/ at the top or in its one top folder"};
  if (top->empty()) return std::make_unique<MemoryTree>(std::move(all));
  return below(all, *top);
}

Outcome<std::string> writeArchive(const MemoryTree& tree, const std::string& top_folder) {
  std::string tar;
  appendTar(tar, {TarEntry::Kind::kFolder, top_folder + "/", {}, {}});
  for (const auto& [path, item] : tree.items()) {
    TarEntry entry;
    entry.path = top_folder + path + (item.is_folder ? "/" : "");
    entry.kind = item.is_folder ? TarEntry::Kind::kFolder
                 : item.is_link ? TarEntry::Kind::kSymlink
                                : TarEntry::Kind::kFile;
    if (item.is_link) entry.link = item.content;
    else entry.content = item.content;
    appendTar(tar, entry);
  }
  endTar(tar);
  z_stream stream = {};
  constexpr int kMemory = 8;  // zlib's default
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    return Error{"zlib cannot start"};
  }
  std::string packed(deflateBound(&stream, static_cast<uLong>(tar.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(tar.data());
  stream.avail_in = static_cast<uInt>(tar.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  if (!done) return Error{"zlib cannot pack the archive"};
  return packed;
}

std::string archiveName(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::string name = path.substr(path.rfind('/') + 1);
  for (const std::string_view ending : {".gz", ".tgz", ".tar"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name;
}

Outcome<std::unique_ptr<FileTree>> openTree(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return Error{path + ": " + std::strerror(errno)};
  if (S_ISDIR(info.st_mode)) {
    const std::string root = findTreeRoot(path);
    if (root.empty()) return Error{path + ": no folder sys/ in it, nor in exactly one of its folders"};
    return makeLiveTree(root);
  }
  const Outcome<std::string> bytes = wholeFile(path, kMaxArchiveBytes + 1);
  if (!bytes.ok()) return Error{path + ": " + bytes.error()};
  Outcome<std::unique_ptr<MemoryTree>> tree = readArchive(*bytes, path);
  if (!tree.ok()) return Error{tree.error()};
  return std::unique_ptr<FileTree>(std::move(*tree));
}

}  // namespace railwise::sysfs
