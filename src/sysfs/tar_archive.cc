#include "sysfs/tar_archive.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "base/files.h"
#include "base/text/words.h"

namespace railwise::sysfs {
namespace {

constexpr std::size_t kBlock = 512;
constexpr char kLongPath = 'L';  // GNU: the content is the path of the next entry
constexpr char kLongLink = 'K';
constexpr char kPax = 'x';  // POSIX: the content has records for the next entry
constexpr char kPaxGlobal = 'g';

// A header of POSIX.1-1988, "ustar".
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char user[32];
  char group[32];
  char major[8];
  char minor[8];
  char prefix[155];
  char unused[12];
};
static_assert(sizeof(Header) == kBlock);

template <std::size_t size>
std::string_view text(const char (&field)[size]) {
  return {field, ::strnlen(field, size)};
}

std::optional<uint64_t> octal(std::string_view digits) {
  while (!digits.empty() && digits.front() == ' ') digits.remove_prefix(1);
  digits = digits.substr(0, digits.find_first_of(std::string_view(" \0", 2)));
  return digits.empty() ? std::optional<uint64_t>(0) : numberIn<uint64_t>(digits, 8);
}

// The sum of all bytes, with blanks in place of the checksum itself.
unsigned checksum(const Header& header) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  unsigned sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) sum += bytes[i];
  for (const char c : header.checksum) sum += ' ' - static_cast<unsigned char>(c);
  return sum;
}

bool isZero(std::string_view block) {
  return std::all_of(block.begin(), block.end(), [](char c) { return c == 0; });
}

// What special entries set for the next entry.
struct Overrides {
  std::optional<std::string> path;
  std::optional<std::string> link;
};

// Reads records "LENGTH KEY=VALUE\n". Returns "" or an error text.
std::string readPax(std::string_view records, Overrides& next) {
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (error != std::errc() || length <= digits + 1 || length > records.size()) return "a bad pax record";
    const std::string_view record = records.substr(digits + 1, length - digits - 2);  // without the newline
    records.remove_prefix(length);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return "a bad pax record";
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") next.path = value;
    if (key == "linkpath") next.link = value;
    if (key == "size") return "an entry of more than 8 GiB";
  }
  return {};
}

std::string pathOf(const Header& header) {
  std::string path(text(header.name));
  const bool ustar = std::memcmp(header.magic, "ustar\0", sizeof header.magic) == 0;
  const std::string_view prefix = text(header.prefix);
  return ustar && !prefix.empty() ? std::string(prefix) + "/" + path : path;
}

std::optional<TarEntry::Kind> kindOf(char type) {
  switch (type) {
    case '0':
    case '\0':
    case '7':
      return TarEntry::Kind::kFile;
    case '1':
      return TarEntry::Kind::kHardLink;
    case '2':
      return TarEntry::Kind::kSymlink;
    case '5':
      return TarEntry::Kind::kFolder;
    default:
      return std::nullopt;  // devices, pipes, sparse files
  }
}

// Handles one entry. Returns "" or an error text.
std::string readEntry(const Header& header, std::string_view content, Overrides& next,
                      const std::function<std::string(const TarEntry&)>& take) {
  switch (header.type) {
    case kLongPath:
      next.path = content.substr(0, content.find('\0'));
      return {};
    case kLongLink:
      next.link = content.substr(0, content.find('\0'));
      return {};
    case kPax:
      return readPax(content, next);
    case kPaxGlobal:
      return {};
    default:
      break;
  }
  const std::optional<TarEntry::Kind> kind = kindOf(header.type);
  const Overrides said = std::exchange(next, {});
  if (!kind) return {};
  TarEntry entry;
  entry.kind = *kind;
  entry.path = said.path ? *said.path : pathOf(header);
  entry.link = said.link ? *said.link : std::string(text(header.link));
  entry.content = content;
  return take(entry);
}

void appendBlocks(std::string& archive, std::string_view content) {
  archive.append(content);
  archive.append((kBlock - content.size() % kBlock) % kBlock, '\0');
}

void appendHeader(std::string& archive, std::string_view path, std::string_view link, std::size_t size,
                  char type) {
  Header header = {};
  path.copy(header.name, sizeof header.name);
  link.copy(header.link, sizeof header.link);
  std::snprintf(header.mode, sizeof header.mode, "%07o", type == '5' ? 0755U : 0644U);
  std::snprintf(header.uid, sizeof header.uid, "%07o", 0U);
  std::snprintf(header.gid, sizeof header.gid, "%07o", 0U);
  std::snprintf(header.size, sizeof header.size, "%011lo", static_cast<unsigned long>(size));
  std::snprintf(header.mtime, sizeof header.mtime, "%011o", 0U);
  header.type = type;
  // Writes GNU's magic, because long names are written in GNU's way too.
  std::memcpy(header.magic, "ustar ", sizeof header.magic);
  std::memcpy(header.version, " ", 2);
  std::snprintf(header.checksum, sizeof header.checksum, "%06o", checksum(header));
  header.checksum[7] = ' ';
  archive.append(reinterpret_cast<const char*>(&header), sizeof header);
}

void appendLongName(std::string& archive, const std::string& name, std::size_t limit, char type) {
  if (name.size() <= limit) return;
  appendHeader(archive, "././@LongLink", {}, name.size() + 1, type);
  appendBlocks(archive, std::string_view(name.c_str(), name.size() + 1));
}

}  // namespace

std::string readTar(std::string_view bytes, const std::function<std::string(const TarEntry&)>& take) {
  Overrides next;
  while (bytes.size() >= kBlock) {
    if (isZero(bytes.substr(0, kBlock))) return {};
    Header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    bytes.remove_prefix(kBlock);
    const std::optional<uint64_t> sum = octal(text(header.checksum));
    if (!sum || *sum != checksum(header)) return "it is no tar archive, or a damaged one (wrong checksum)";
    const std::optional<uint64_t> size = octal(text(header.size));
    if (!size) return "an entry with a bad size";
    if (*size > bytes.size()) return "it is cut off";
    if (std::string problem = readEntry(header, bytes.substr(0, *size), next, take); !problem.empty()) {
      return problem;
    }
    const std::size_t blocks = (*size + kBlock - 1) / kBlock * kBlock;
    bytes.remove_prefix(std::min(blocks, bytes.size()));
  }
  return bytes.empty() ? "it is cut off (no end mark)" : "it is no tar archive, or a cut off one";
}

void appendTar(std::string& archive, const TarEntry& entry) {
  const char type = entry.kind == TarEntry::Kind::kFile      ? '0'
                    : entry.kind == TarEntry::Kind::kFolder  ? '5'
                    : entry.kind == TarEntry::Kind::kSymlink ? '2'
                                                             : '1';
  appendLongName(archive, entry.link, sizeof Header::link, kLongLink);
  appendLongName(archive, entry.path, sizeof Header::name, kLongPath);
  appendHeader(archive, entry.path, entry.link, entry.content.size(), type);
  appendBlocks(archive, entry.content);
}

void endTar(std::string& archive) { archive.append(2 * kBlock, '\0'); }

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
