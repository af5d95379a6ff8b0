// Arbitrary bytes as a /sys tree (lines "path=content" and "path>target") for the walk, generate and record;
// and as an archive. Whatever is accepted must be usable.
#include <cstdlib>
#include <string>

#include "sysfs/tar_archive.h"
#include "topo/sources/generate/generate.h"
#include "topo/sources/record.h"
#include "topo/sources/sysfs.h"

namespace {

using namespace railwise::topo;
namespace sysfs = railwise::sysfs;

// A small machine, so that the fuzzer starts inside: its lines change it.
sysfs::MemoryTree makeMachine() {
  sysfs::MemoryTree tree;
  const std::string root = "/sys/devices/pci0000:00";
  const std::string gpu = root + "/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0";
  const std::string nic = root + "/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0";
  for (const std::string& folder : {gpu, nic}) {
    const std::string busid = folder.substr(folder.size() - 12);
    const std::string bus = folder.substr(0, folder.rfind('/')) + "/pci_bus/" + busid.substr(0, 7);
    tree.folder(bus).link("/sys/class/pci_bus/" + busid.substr(0, 7), bus);
    tree.link("/sys/bus/pci/devices/" + busid, folder).link(folder + "/subsystem", "/sys/bus/pci");
    tree.file(folder + "/numa_node", "0\n");
  }
  tree.file(gpu + "/class", "0x030200\n")
      .file(gpu + "/vendor", "0x10de\n")
      .file(nic + "/class", "0x020700\n");
  tree.file(nic + "/infiniband/m0/ports/1/state", "4: ACTIVE\n").link(nic + "/infiniband/m0/device", nic);
  tree.link("/sys/class/infiniband/m0", nic + "/infiniband/m0");
  tree.file("/sys/devices/system/node/node0/cpumap", "ff\n")
      .file("/railwise/cpu", "x86_64,GenuineIntel,6,143\n");
  return tree;
}

void applyLines(sysfs::MemoryTree& tree, std::string_view text) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() < text.size() ? line.size() + 1 : text.size());
    const std::size_t mark = line.find_first_of("=>");
    if (mark == std::string_view::npos) continue;
    const std::string_view rest = line.substr(mark + 1);
    if (line[mark] == '=') tree.file(line.substr(0, mark), std::string(rest) + "\n");
    else tree.link(line.substr(0, mark), rest);
  }
}

// A tree of accepted XML: no node above itself.
void requireTree(const XmlNode* node, int depth) {
  constexpr int kDeepest = 4096;
  if (depth > kDeepest) std::abort();
  for (const XmlNode* child : node->children) requireTree(child, depth + 1);
}

void use(const sysfs::FileTree& tree) {
  std::vector<std::string> remarks;
  const auto document = readSysfs(tree, std::nullopt, Settings(), {}, &remarks);
  if (document.ok()) requireTree(document->system(), 0);
  for (const Pairing pairing : {Pairing::kOrder, Pairing::kBus}) {
    (void)generateTopology(tree, {.pairing = pairing, .force = true}, &remarks);
  }
  (void)recordTree(tree, {.anonymise = true});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto archive = sysfs::readArchive(bytes, "fuzz"); archive.ok()) use(**archive);
  sysfs::MemoryTree tree = makeMachine();
  applyLines(tree, bytes);
  use(tree);
  (void)generateTopology(makeMachine(),
                         {.pairing = Pairing::kTable, .table = std::string(bytes), .force = true}, nullptr);
  return 0;
}
