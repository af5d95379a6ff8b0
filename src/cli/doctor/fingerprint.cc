// railwise fingerprint: prints the fingerprint of a node, or compares those of many.
#include "doctor/fingerprint/fingerprint.h"

#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "base/files.h"
#include "base/settings/config.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "doctor/facts/libraries.h"
#include "sysfs/tar_archive.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::cli {
namespace {

namespace fingerprint = doctor::fingerprint;

constexpr const char* kFingerprint = "fingerprint";
constexpr std::size_t kMostFingerprintFiles = 1 << 20;
constexpr std::size_t kMostFingerprintBytes = 64UL << 20;  // of a file; a node has about 1 KiB

constexpr const char* kFingerprintHelp =
    "usage: railwise fingerprint [--json|--one-line] [--root DIR|TAR]\n"
    "       railwise fingerprint --compare FILE... [--json]\n\n"
    "The versions of what a job uses on this node: kernel, GPUs with driver and firmware, CUDA, ROCm, NICs\n"
    "with firmware, rdma-core, Railwise; and a hash, which is equal on nodes that are alike. \"-\": not "
    "known.\n"
    "--compare says which of many nodes is odd. A FILE has what --json has written on one node or on many "
    "(-: standard\n"
    "input).\n"
    "Exit status: 0 all right, or all nodes alike; 1 nodes differ, or a node or a FILE cannot be read; 2 a "
    "mistake on the\n"
    "command line.\n\n";

// "-" is standard input.
Outcome<std::string> contentOf(const std::string& path) {
  auto content = wholeFile(path == "-" ? "/dev/stdin" : path, kMostFingerprintBytes + 1);
  if (!content.ok()) return Error{path + ": cannot be read: " + content.error()};
  if (content->size() > kMostFingerprintBytes)
    return Error{path + ": more than 64 MiB, which is no list of fingerprints; name another file"};
  return content;
}

struct ReadNode {
  fingerprint::ParsedFingerprint parsed;
  std::string file;
};

// A node is named by its host. Where several have one name, or none, the place in the file tells them apart.
std::vector<fingerprint::NamedNode> namedNodes(std::vector<ReadNode> read) {
  std::map<std::string, int> hosts;
  for (const ReadNode& each : read) ++hosts[each.parsed.node.host];
  std::vector<fingerprint::NamedNode> nodes;
  for (ReadNode& each : read) {
    const std::string& host = each.parsed.node.host;
    const std::string place = each.file + ":" + std::to_string(each.parsed.line);
    const std::string name = host.empty() ? place : hosts[host] > 1 ? host + " (" + place + ")" : host;
    nodes.push_back({name, std::move(each.parsed.node)});
  }
  return nodes;
}

// A file that cannot be read is reported, and the others are compared.
int compareFiles(const std::vector<std::string>& files, bool json) {
  std::vector<ReadNode> read;
  bool failed = false;
  for (const std::string& file : files) {
    const std::string name = file == "-" ? "standard input" : file;
    const Outcome<std::string> content = contentOf(file);
    Outcome<std::vector<fingerprint::ParsedFingerprint>> nodes =
        content.ok() ? fingerprint::parseFingerprints(*content, name) : content.failure();
    if (!nodes.ok()) {
      say("%s: %s", kFingerprint, nodes.error().c_str());
      failed = true;
      continue;
    }
    for (fingerprint::ParsedFingerprint& node : *nodes) read.push_back({std::move(node), name});
  }
  if (read.empty()) return kExitFailed;
  const std::vector<fingerprint::NamedNode> nodes = namedNodes(std::move(read));
  const fingerprint::Comparison comparison = fingerprint::compareNodes(nodes);
  const int written = writeOutput(kFingerprint, "",
                                  json ? fingerprint::comparisonJson(nodes, comparison)
                                       : fingerprint::comparisonText(nodes, comparison, outputColumns("")));
  return failed || !comparison.differences.empty() ? kExitFailed : written;
}

std::optional<fingerprint::Fingerprint> readNode(const std::string& root) {
  const auto tree = sysfs::openTree(root.empty() ? "/" : root);
  if (!tree.ok()) return say("%s: %s", kFingerprint, tree.error().c_str()), std::nullopt;
  const Config config = Config::load();
  // Under `railwise device run` the GPUs are those of the software machine.
  const auto gpu_tree = sysfs::openTree(root.empty() ? config.sysfs_root : root);
  if (!gpu_tree.ok()) return say("%s: %s", kFingerprint, gpu_tree.error().c_str()), std::nullopt;
  gpu::GpuTopology gpus;
  auto asked = topo::askForGpus(**gpu_tree, root.empty(), config);
  if (!asked.ok()) gpus.remarks.push_back(asked.error());
  else if (*asked != nullptr) gpus = **asked;
  sayNotes(kFingerprint, gpus.remarks);
  fingerprint::Fingerprint node = fingerprint::fingerprintOf(**tree, gpus);
  if ((*tree)->live())
    node.rdma_core = doctor::rdmaCoreVersion(doctor::loadedRdmaLibrary(config.ibverbs_library));
  else if (node.host.empty()) node.host = sysfs::archiveName(root);  // a recording has no host name
  return node;
}

}  // namespace

int fingerprintCommand(Args args) {
  bool json = false;
  bool compare = false;
  bool one_line = false;
  std::string root;
  const std::vector<Option> table = {
      flagOption('j', "json", &json, "JSON: of a node in one line"),
      flagOption('c', "compare", &compare, "compare the nodes in FILE..."),
      flagOption(0, "one-line", &one_line, "the text of a node in one line, however wide, for grep and sort"),
      textOption(0, "root", "DIR|TAR", &root,
                 "the node whose files are below DIR or recorded in TAR (railwise topo record); its\n"
                 "GPUs are as recorded, else those of the PCI bus")};
  int status = kExitOk;
  const auto arguments =
      parseOrLeave(kFingerprint, table, args, kFingerprintHelp, kMostFingerprintFiles, &status);
  if (!arguments) return status;
  const std::vector<std::string>& files = arguments->positional;
  if (compare && !root.empty())
    return say("%s: --compare reads FILEs, and --root one machine: give one of them", kFingerprint),
           kExitUsage;
  if (compare && files.empty())
    return say("%s: --compare which FILEs? On each node: railwise fingerprint --json > FILE", kFingerprint),
           kExitUsage;
  if (!compare && !files.empty())
    return say("%s: unexpected argument '%s'; --compare compares files", kFingerprint, files[0].c_str()),
           kExitUsage;
  if (compare) return compareFiles(files, json);
  const std::optional<fingerprint::Fingerprint> node = readNode(root);
  if (!node) return kExitFailed;
  return writeOutput(kFingerprint, "",
                     json ? fingerprint::jsonOf(*node)
                          : fingerprint::textOf(*node, one_line ? kOneLine : outputColumns("")));
}

}  // namespace railwise::cli
