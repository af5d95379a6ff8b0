// Recorded /sys trees as .tar.gz: reads what tar(1) and railwise write, writes what tar(1) reads. The only
// part of the topology library that needs zlib; the plugin does without. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "topo/outcome.h"
#include "topo/sources/file_tree.h"

namespace railwise::topo {

inline constexpr std::size_t kMaxArchiveBytes = 64UL
                                                << 20;  // packed, and unpacked: a recorded tree has a few MiB
inline constexpr std::size_t kMaxArchiveEntries = 1UL << 18;
inline constexpr std::size_t kMaxArchivePath = 4095;  // PATH_MAX

// The tree in an archive (gzip or plain tar): the folder that holds sys/, at the top or one level below.
// `name` is for messages. Devices and the like are skipped. An error says what is wrong with the archive.
Outcome<std::unique_ptr<MemoryTree>> readArchive(std::string_view bytes, const std::string& name);

// The archive of a tree, below one top folder; the same tree gives the same bytes.
Outcome<std::string> writeArchive(const MemoryTree& tree, const std::string& top_folder);

// A folder (a root, or a folder with one recorded tree in it) or an archive.
Outcome<std::unique_ptr<FileTree>> openTree(const std::string& path);

}  // namespace railwise::topo
