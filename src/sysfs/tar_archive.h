// Recorded /sys trees as .tar.gz: reads what tar(1) and railwise write, writes what tar(1) reads. This is the
// only part of the topology library that needs zlib; the plugin does not use it. Thread-safe. It does not use
// libarchive, for two reasons: libarchive accepts an archive that was cut off after an entry as complete, and
// it would add eight libraries to a command and a librailwise-topology that need only libstdc++ and libc.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/outcome.h"
#include "sysfs/file_tree.h"

namespace railwise::sysfs {

// The tar format, uncompressed: POSIX ustar. Reads GNU long names and pax paths; writes GNU long names.
// Thread-safe.

struct TarEntry {
  enum class Kind { kFile, kFolder, kSymlink, kHardLink };
  Kind kind = Kind::kFile;
  std::string path;  // as in the archive, "machine/sys/..."
  std::string link;
  std::string_view content;
};

// Calls `take` for each file, folder and link in order. Returns "" or an error text, of the format or of
// `take`.
std::string readTar(std::string_view bytes, const std::function<std::string(const TarEntry&)>& take);

void appendTar(std::string& archive, const TarEntry& entry);
void endTar(std::string& archive);

// Limit packed and unpacked. A recorded tree has a few MiB.
inline constexpr std::size_t kMaxArchiveBytes = 64UL << 20;
inline constexpr std::size_t kMaxArchiveEntries = 1UL << 18;
inline constexpr std::size_t kMaxArchivePath = 4095;  // PATH_MAX

// Reads the tree from an archive (gzip or plain tar): the folder that contains sys/, at the top or one level
// below. `name` is for messages. Device files and the like are skipped. An error says what is wrong with the
// archive.
Outcome<std::unique_ptr<MemoryTree>> readArchive(std::string_view bytes, const std::string& name);

// Writes a tree as an archive, below one top folder. Equal trees give equal bytes.
Outcome<std::string> writeArchive(const MemoryTree& tree, const std::string& top_folder);

// What to call the machine of a folder or an archive: "node7" for "recorded/node7.tar.gz". "": the path has
// no name.
std::string archiveName(std::string path);

// Opens a folder (a root, or a folder with one recorded tree in it) or an archive.
Outcome<std::unique_ptr<FileTree>> openTree(const std::string& path);

}  // namespace railwise::sysfs
