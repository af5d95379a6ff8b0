// Makes the fingerprint of a node: from its /sys, its installed files, and what the vendors' libraries say of
// its GPUs. Thread-safe, except loadedRdmaLibrary(), which loads a library.
#pragma once

#include <string>
#include <string_view>

#include "cli/fingerprint/fingerprint.h"
#include "gpu/topology.h"
#include "sysfs/file_tree.h"

namespace railwise::cli {

// `tree` is the root of the node's files: this machine's "/", a folder, or a recording, in which much may be
// missing. Where `gpus` has none, the GPUs are those of the PCI bus, by their ids.
Fingerprint fingerprintOf(const sysfs::FileTree& tree, const gpu::GpuTopology& gpus);

// The file, without links, that the dynamic linker takes for `library` ("": libibverbs.so.1) in this process;
// "": there is none.
std::string loadedRdmaLibrary(const std::string& library);
// "44.0" of ".../libibverbs.so.1.14.44.0": rdma-core puts its version behind the two numbers of the library's
// interface. "": the name has another form.
std::string rdmaCoreVersion(std::string_view file);

}  // namespace railwise::cli
