// The fingerprint of a node: the versions of what a job uses there. All nodes of a job should have the same
// fields; only the host's name differs. Pure functions of plain values; thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "gpu/topology.h"
#include "sysfs/file_tree.h"

namespace railwise::doctor::fingerprint {

// So many things of one name.
struct Counted {
  std::string name;
  int count = 0;

  auto operator<=>(const Counted&) const = default;
};

// NICs of one type with one firmware.
struct NicGroup {
  std::string type;   // hca_type ("MT4129"), else the PCI ids ("0x1d0f:0xefa1")
  std::string board;  // board_id, NVIDIA's PSID ("MT_0000000838")
  std::string firmware;
  int count = 0;

  auto operator<=>(const NicGroup&) const = default;
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

// Makes the fingerprint of a node: from its /sys, its installed files, and what the vendors' libraries say of
// its GPUs. `tree` is the root of the node's files: this machine's "/", a folder, or a recording, in which
// much may be missing. Where `gpus` has none, the GPUs are those of the PCI bus, by their ids.
Fingerprint fingerprintOf(const sysfs::FileTree& tree, const gpu::GpuTopology& gpus);

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
// One line of JSON with its newline (docs/doctor.md), so that the lines of many nodes can be in one
// file.
std::string jsonOf(const Fingerprint& node);

// The fields of a node, into the object that is open.
void writeFields(JsonWriter& json, const Fingerprint& node);

// What jsonOf() has written, perhaps on another node by another version of Railwise: everything comes from
// outside.
struct ParsedFingerprint {
  Fingerprint node;
  int line = 0;  // in the text, from 1
};
// `text` has one JSON object or several, one behind the other or in arrays. `name` is the file's name for the
// error, which says what is wrong, where, and what to do. A field that is missing is not known.
Outcome<std::vector<ParsedFingerprint>> parseFingerprints(std::string_view text, const std::string& name);

// Which of many nodes is odd: for each field of the fingerprints the value that most nodes have, and the
// nodes that have another one.

// A node and its name in the output.
struct NamedNode {
  std::string name;
  Fingerprint node;
};

struct ValueGroup {
  std::string value;
  std::vector<std::size_t> nodes;  // indexes, ascending
};

// A field in which the nodes differ.
struct FieldDifference {
  std::string field;
  std::vector<ValueGroup> groups;  // the largest first
  // The first group has more nodes than any other. Without a majority nobody can tell which node is odd.
  bool majority = false;
};

struct OddNode {
  std::size_t node = 0;
  std::vector<std::string> fields;  // in which it has not the majority's value
};

struct Comparison {
  std::vector<FieldDifference> differences;
  std::vector<OddNode> odd;  // the node with most such fields first
};
Comparison compareNodes(const std::vector<NamedNode>& nodes);

// For people in lines that are no wider than `columns`, and as JSON (docs/doctor.md); each ends with a
// newline.
std::string comparisonText(const std::vector<NamedNode>& nodes, const Comparison& comparison,
                           std::size_t columns = kOneLine);
std::string comparisonJson(const std::vector<NamedNode>& nodes, const Comparison& comparison);

}  // namespace railwise::doctor::fingerprint
