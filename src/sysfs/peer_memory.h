#pragma once

#include <string>
#include <string_view>

#include "sysfs/file_tree.h"

namespace railwise::sysfs {

// The loaded kernel module through which NICs read and write GPU memory that is registered by its address:
// nvidia_peermem, nv_peer_mem or that of amdgpu. "" if none is loaded.
std::string peerMemoryModule(const FileTree& tree);

inline constexpr char kKernelSymbols[] = "/proc/kallsyms";
// The lines of this file that peerMemoryModule() asks for, without their addresses.
std::string peerMemorySymbols(std::string_view symbols);

}  // namespace railwise::sysfs
