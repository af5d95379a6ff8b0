// Rules about <cpu>: identity, affinity, hosts.
#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <set>

#include "topo/graph/constants.h"
#include "topo/lint/rules.h"

namespace railwise::topo {
namespace {

constexpr std::size_t kMaskWords = 32;          // number of 32-bit words; NCCL's cpu_set_t has 1024 CPUs
using Mask = std::array<uint32_t, kMaskWords>;  // the word with the lowest CPUs first

std::string cpuName(const XmlNode& cpu) { return "<cpu> " + cpu.get("numaid", "without numaid"); }

// Parses the mask. Null: NCCL misreads one of its words.
std::optional<Mask> readMask(const std::string& text) {
  std::vector<uint32_t> words;
  for (std::string& word : fullPartsOf(text, ',')) {  // strtok skips empty words
    if (word.starts_with("0x") || word.starts_with("0X")) word.erase(0, 2);
    const bool hexadecimal = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return std::isxdigit(static_cast<unsigned char>(c)) != 0;
    });
    if (!hexadecimal || word.size() > 8) return std::nullopt;
    words.push_back(static_cast<uint32_t>(std::strtoul(word.c_str(), nullptr, 16)));
  }
  if (words.size() > kMaskWords) return std::nullopt;
  Mask mask = {};
  std::copy(words.rbegin(), words.rend(), mask.begin());
  return mask;
}

bool isEmpty(const Mask& mask) {
  return std::all_of(mask.begin(), mask.end(), [](uint32_t word) { return word == 0; });
}

int common(const Mask& a, const Mask& b) {
  int count = 0;
  for (std::size_t i = 0; i < kMaskWords; i++) count += std::popcount(a[i] & b[i]);
  return count;
}

void lintNumaid(Linter& linter, const XmlNode& cpu) {
  if (!cpu.has("numaid")) {
    linter.error("cpu-numaid", cpu.position, "<cpu> has no numaid; NCCL fails its init",
                 "write numaid=\"0\", \"1\", ...");
  } else if (intOf(cpu, "numaid", 0) < 0) {
    linter.note("numaid-unknown", placeOf(cpu, "numaid"),
                "numaid " + cpu.get("numaid") + " is where NCCL puts devices whose NUMA node nobody knows",
                "give its devices to the <cpu> that they belong to, if you know it");
  }
}

bool isX86(const XmlNode& cpu) { return cpuArch(cpu.get("arch")) == CpuArch::kX86; }

bool needsModel(const XmlNode& cpu) {
  const CpuVendor vendor = cpuVendor(cpu.get("vendor"));
  return isX86(cpu) && (vendor == CpuVendor::kIntel || vendor == CpuVendor::kZhaoxin);
}

std::vector<std::string> missingIdentity(const XmlNode& cpu) {
  if (!isX86(cpu)) return missingOf(cpu, {"affinity", "arch"});
  std::vector<std::string> missing = missingOf(cpu, {"affinity", "arch", "vendor", "familyid"});
  if (!cpu.has("familyid") && !cpu.has("modelid")) missing.emplace_back("modelid");
  return missing;
}

void lintComplete(Linter& linter, const XmlNode& cpu) {
  const std::vector<std::string> missing = missingIdentity(cpu);
  if (missing.empty()) return;
  const std::string what = cpuName(cpu) + " lacks " + listText(missing) + "; ";
  const std::string fix = "write " + listText(missing) + ", as NCCL_TOPO_DUMP_FILE does on that machine";
  const bool identity = missing.size() > 1 || missing[0] != "affinity";
  if (linter.describesNets() && linter.all("cpu").size() > 1 && !linter.rccl()) {
    linter.error(
        "cpu-incomplete", cpu.position,
        what +
            "only ranks with a GPU below it fill that in, so the ranks' trees differ: NCCL fails, or sees "
            "this <cpu> twice without paths between its halves",
        fix);
  } else if (linter.describes() && identity) {
    linter.warning("cpu-incomplete", cpu.position,
                   what + "NCCL takes that from the machine it runs on, and cannot build the graph without",
                   fix);
  } else {
    linter.note("cpu-incomplete", cpu.position, what + "NCCL takes that from the machine it runs on", fix);
  }
}

void lintIdentity(Linter& linter, const XmlNode& cpu) {
  lintComplete(linter, cpu);
  if (cpu.has("arch") && cpuArch(cpu.get("arch")) == cpuArch("")) {
    linter.error("cpu-arch", placeOf(cpu, "arch"),
                 "arch " + inQuotes(cpu.get("arch")) +
                     " is unknown to NCCL, which then takes 5000 GB/s between sockets",
                 "write x86_64, arm64 (not aarch64) or ppc64");
  }
  if (isX86(cpu) && cpu.has("vendor") && cpuVendor(cpu.get("vendor")) == cpuVendor("")) {
    linter.warning("cpu-vendor", placeOf(cpu, "vendor"),
                   "vendor " + inQuotes(cpu.get("vendor")) +
                       " is unknown to NCCL, which then takes 5000 GB/s between sockets",
                   "write GenuineIntel or AuthenticAMD if it is one of them, or the one that comes closest");
  }
  if (needsModel(cpu) && cpu.has("familyid") && !cpu.has("modelid")) {
    linter.error(
        "cpu-modelid", cpu.position,
        cpuName(cpu) +
            " has familyid but no modelid; NCCL needs both for this vendor, never adds one alone and "
            "fails its init",
        "write modelid too, or leave out both");
  }
}

std::optional<Mask> lintAffinity(Linter& linter, const XmlNode& cpu) {
  const std::string* text = cpu.find("affinity");
  if (text == nullptr) return std::nullopt;
  const XmlPosition place = placeOf(cpu, "affinity");
  const std::optional<Mask> mask = readMask(*text);
  if (!mask) {
    linter.error("affinity-unreadable", place,
                 "affinity " + inQuotes(*text) +
                     " is no list of 32-bit hexadecimal words, so NCCL reads a wrong or empty mask",
                 "write what /sys/devices/system/node/node" + cpu.get("numaid") +
                     "/cpumap says: \"ffffffff,ffffffff\" is CPU 0 to 63");
  } else if (isEmpty(*mask) && intOf(cpu, "numaid", 0) >= 0) {
    linter.warning("affinity-empty", place,
                   "affinity " + inQuotes(*text) + " holds no CPU, so NCCL pins nothing for " + cpuName(cpu),
                   "write what /sys/devices/system/node/node" + cpu.get("numaid") + "/cpumap says");
  }
  return mask;
}

void lintOverlaps(Linter& linter, const std::vector<const XmlNode*>& cpus,
                  const std::vector<std::optional<Mask>>& masks) {
  for (std::size_t b = 1; b < cpus.size(); b++) {
    for (std::size_t a = 0; a < b; a++) {
      if (!masks[a] || !masks[b] || hostOf(*cpus[a]) != hostOf(*cpus[b])) continue;
      const int shared = common(*masks[a], *masks[b]);
      if (shared == 0) continue;
      linter.warning("affinity-overlap", placeOf(*cpus[b], "affinity"),
                     std::to_string(shared) +
                         " CPUs stand in the affinity of this <cpu> and in that of line " +
                         std::to_string(cpus[a]->position.line),
                     "give each CPU to one NUMA node, as /sys/devices/system/node/node*/cpumap does");
      break;
    }
  }
}

void lintHosts(Linter& linter, const std::vector<const XmlNode*>& cpus) {
  std::set<std::string> hosts;
  const XmlNode* first = nullptr;
  std::set<std::pair<std::string, int>> nodes;
  for (const XmlNode* cpu : cpus) {
    hosts.insert(hostOf(*cpu));
    if (first == nullptr && cpu->has("host_hash")) first = cpu;
    if (!cpu->has("numaid") || nodes.emplace(hostOf(*cpu), intOf(*cpu, "numaid", 0)).second) continue;
    linter.error("duplicate-numaid", placeOf(*cpu, "numaid"),
                 "two <cpu> with numaid " + cpu->get("numaid") +
                     ": NCCL makes two nodes of it and finds only the first",
                 "merge them into one, or give each its own numaid");
  }
  if (first == nullptr) return;
  if (hosts.size() > 1) {
    linter.warning("several-hosts", placeOf(*first, "host_hash"),
                   "the file describes " + std::to_string(hosts.size()) +
                       " hosts; NCCL overwrites host_hash in a file, so that they become one machine",
                   "keep one host per file");
  } else {
    linter.note("host-hash", placeOf(*first, "host_hash"),
                "NCCL overwrites host_hash in a file with that of the machine it runs on", "leave it out");
  }
}

}  // namespace

void lintCpus(Linter& linter) {
  const std::vector<const XmlNode*>& cpus = linter.all("cpu");
  std::vector<std::optional<Mask>> masks;
  for (const XmlNode* cpu : cpus) {
    lintNumaid(linter, *cpu);
    lintIdentity(linter, *cpu);
    masks.push_back(lintAffinity(linter, *cpu));
  }
  lintOverlaps(linter, cpus, masks);
  lintHosts(linter, cpus);
}

}  // namespace railwise::topo
