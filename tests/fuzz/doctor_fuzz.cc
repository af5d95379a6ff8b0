// Arbitrary bytes as files of a machine (lines "path=content" and "path>target"; "\n" in a content is a line
// break): the doctor must read all of it, and what it says must be whole.
#include <cstdlib>
#include <string>

#include "base/text/json.h"
#include "doctor/checks/check.h"
#include "doctor/facts/trees.h"
#include "doctor/finding.h"

namespace {

using namespace railwise;

std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool line_break = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == 'n';
    result += line_break ? '\n' : text[i];
    if (line_break) ++i;
  }
  return result;
}

// A RoCE port with a GPU beside it, so that the fuzzer starts inside: its lines change it.
sysfs::MemoryTree makeMachine() {
  sysfs::MemoryTree tree;
  const std::string bridge = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
  const std::string nic = bridge + "/0000:02:00.0/0000:03:00.0";
  const std::string gpu = bridge + "/0000:02:01.0/0000:04:00.0";
  for (const std::string& folder : {nic, gpu}) {
    const std::string busid = folder.substr(folder.rfind('/') + 1);
    tree.link("/sys/bus/pci/devices/" + busid, folder).link(folder + "/subsystem", "/sys/bus/pci");
  }
  tree.file(gpu + "/class", "0x030200\n")
      .file(gpu + "/vendor", "0x10de\n")
      .file(nic + "/class", "0x020000\n");
  const std::string port = nic + "/infiniband/m0/ports/1";
  tree.file(port + "/state", "4: ACTIVE\n").file(port + "/link_layer", "Ethernet\n");
  tree.file(port + "/gids/0", "0000:0000:0000:0000:0000:ffff:0a00:0001\n")
      .file(port + "/gid_attrs/types/0", "RoCE v2\n");
  tree.link(nic + "/infiniband/m0/device", nic).link("/sys/class/infiniband/m0", nic + "/infiniband/m0");
  return tree;
}

void applyLines(sysfs::MemoryTree& tree, std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() < text.size() ? line.size() + 1 : text.size());
    const std::size_t mark = line.find_first_of("=>");
    if (mark == std::string_view::npos) continue;
    const std::string_view rest = line.substr(mark + 1);
    if (line[mark] == '=') tree.file(line.substr(0, mark), unescaped(rest));
    else tree.link(line.substr(0, mark), rest);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sysfs::MemoryTree tree = makeMachine();
  applyLines(tree, {reinterpret_cast<const char*>(data), size});
  const doctor::Diagnosis diagnosis = doctor::examine(doctor::System(tree), {});
  for (const doctor::Finding& finding : diagnosis.findings.all())
    if (finding.what.empty() || finding.fix.empty() || finding.seen.empty()) std::abort();
  if (doctor::reportText(diagnosis.findings, {.subject = "fuzz"}).empty()) std::abort();
  (void)doctor::masked(tree);
  return 0;
}
