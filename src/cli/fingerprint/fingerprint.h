// The fingerprint of a node: the versions of what a job uses there. All nodes of a job should have the same
// fields; only the host's name differs. Pure functions of plain values, any thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/text_layout.h"
#include "gpu/topology.h"
#include "sysfs/file_tree.h"

namespace railwise::cli {

// So many things of one name.
struct Counted {
  std::string name;
  int count = 0;

  bool operator==(const Counted&) const = default;
};

// NICs of one type with one firmware.
struct NicGroup {
  std::string type;   // hca_type ("MT4129"), else the PCI ids ("0x1d0f:0xefa1")
  std::string board;  // board_id, NVIDIA's PSID ("MT_0000000838")
  std::string firmware;
  int count = 0;

  bool operator==(const NicGroup&) const = default;
};

// A text that is empty is not known.
struct Fingerprint {
  std::string host;
  std::string railwise;
  std::string kernel;                 // release, "6.8.0-45-generic"
  std::string gpu_vendor;             // "NVIDIA", "AMD", "NVIDIA and AMD"; empty: no GPU
  std::vector<Counted> gpus;          // by model
  std::string gpu_driver;             // "550.90.07"
  std::vector<Counted> gpu_firmware;  // number of GPUs with each VBIOS
  std::string cuda;                   // the installed toolkit
  std::string rocm;
  std::map<std::string, std::string> modules;  // kernel module and its version
  std::vector<NicGroup> nics;
  std::string rdma_core;

  bool operator==(const Fingerprint&) const = default;
};

// What must be equal on all nodes of a job. The host's name is no such field, and the vendor of the GPUs is
// in their models and their driver.
struct Field {
  std::string name;
  std::string value;  // "-": not known
};
std::vector<Field> fieldsOf(const Fingerprint& node);

// Eight hexadecimal digits, equal for equal fields: FNV-1a of 32 bits.
std::string hashOf(const Fingerprint& node);

// Host, hash, fields: in lines that are no wider than `columns`, with the newline at the end.
std::string textOf(const Fingerprint& node, std::size_t columns = kOneLine);
// One line of JSON with its newline (docs/fingerprint.md), so that the lines of many nodes can be in one
// file.
std::string jsonOf(const Fingerprint& node);

// Makes the fingerprint of a node: from its /sys, its installed files, and what the vendors' libraries say of
// its GPUs. Thread-safe, except loadedRdmaLibrary(), which loads a library.

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
