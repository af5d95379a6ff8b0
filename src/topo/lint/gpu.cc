// Rules about <gpu>, <nvlink>, <xgmi> and <c2c>.
#include <map>

#include "base/pci.h"
#include "topo/graph/constants.h"
#include "topo/lint/rules.h"

namespace railwise::topo {
namespace {

constexpr int kMaxParts = 2;  // NCCL_TOPO_MLOPART_DEV_MAX
constexpr int kPartMask = 3;  // NCCL_TOPO_MLOPART_MASK: bits of the address that NCCL uses itself

void lintWithoutRank(Linter& linter, const XmlNode& gpu) {
  if (!linter.describesGpus()) return;
  linter.warning("gpu-without-rank", gpu.position,
                 "this <gpu> of " + pciText(*gpu.parent) +
                     " has no rank while others have one: NCCL drops its <pci> without a word, unless a rank "
                     "of the job uses that GPU",
                 "give it a rank, or remove it");
}

std::vector<std::string> missingIn(const Linter& linter, const XmlNode& gpu) {
  return linter.rccl() ? missingOf(gpu, {"dev", "sm", "gdr", "gcn", "arch"})
                       : missingOf(gpu, {"dev", "sm", "gdr"});
}

// Writes one note for the whole file: NCCL asks the driver when the rank that uses the GPU starts.
void lintIncompleteGpus(Linter& linter) {
  std::vector<const XmlNode*> incomplete;
  for (const XmlNode* gpu : linter.all("gpu")) {
    if (!gpu->has("rank")) continue;
    const std::vector<std::string> missing = missingIn(linter, *gpu);
    if (missing.empty()) continue;
    if (gpu->get("keep") != "1") {
      incomplete.push_back(gpu);
      continue;
    }
    linter.error("gpu-incomplete", gpu->position,
                 "<gpu> of rank " + gpu->get("rank") + " lacks " + listText(missing) +
                     ", and keep=\"1\" keeps it where no rank uses it: NCCL then fails its init",
                 "remove keep, or write " + listText(missing));
  }
  if (incomplete.empty()) return;
  const std::string missing = listText(missingIn(linter, *incomplete[0]));
  linter.note("gpu-incomplete", incomplete[0]->position,
              "<gpu> of rank " + incomplete[0]->get("rank") + " lacks " + missing + moreText(incomplete) +
                  "; NCCL takes that from the driver",
              "write " + missing +
                  " if the file is to stand for itself (the notes of `railwise topo show` say "
                  "what is assumed)");
}

void lintRanked(Linter& linter, const XmlNode& gpu) {
  const int sm = intOf(gpu, "sm", 0);
  if (gpu.has("sm") && !linter.rccl() && (sm < 30 || sm > 300)) {
    linter.warning("gpu-sm", placeOf(gpu, "sm"),
                   "sm " + inQuotes(gpu.get("sm")) + " is no compute capability; NVLink speeds depend on it",
                   "write ten times the capability: 80 for A100, 90 for H100, 100 for B200");
  }
  if ((busIdToNumber(gpu.parent->get("busid")) & kPartMask) != 0) {
    linter.error("busid-function", placeOf(*gpu.parent, "busid"),
                 "the last digit of " + inQuotes(gpu.parent->get("busid")) +
                     " must leave its two lowest bits 0 for a GPU; NCCL fails its init",
                 "a GPU is function 0: write .0");
  }
}

void lintPart(Linter& linter, const XmlNode& gpu) {
  const int part = intOf(gpu, "mlopart", -1);
  if (part >= -1 && part < kMaxParts) return;
  linter.error(
      "mlopart-range", placeOf(gpu, "mlopart"),
      "mlopart " + gpu.get("mlopart") + " is out of range; NCCL fails its init or mixes up the parts",
      "write 0 or 1 for the parts of a split GPU, else leave it out");
}

// NCCL gives each GPU the rank of the process that uses it. A repeated rank survives only where NCCL keeps a
// <gpu> as it is, e.g. each but the first of a device.
bool isKept(const XmlNode& gpu) { return gpu.get("keep") == "1" || gpu.parent->child("gpu") != &gpu; }

void lintRepeatedRank(Linter& linter, const XmlNode& gpu, const XmlNode& first) {
  const std::string what =
      "rank " + gpu.get("rank") + " is in line " + std::to_string(first.position.line) + " already";
  const std::string fix = "give each <gpu> its own rank";
  if (hostOf(gpu) != hostOf(first)) {
    linter.error("duplicate-rank", placeOf(gpu, "rank"),
                 what + ", on another host; NCCL numbers the GPUs of an NVLink domain through", fix);
  } else if (isKept(gpu) || isKept(first)) {
    linter.error("duplicate-rank", placeOf(gpu, "rank"),
                 what + ", and NCCL keeps this <gpu> as it is: it finds only the first GPU of a rank", fix);
  } else {
    linter.warning("duplicate-rank", placeOf(gpu, "rank"), what + "; NCCL takes the ranks of the job", fix);
  }
}

void lintDuplicates(Linter& linter) {
  std::map<int, const XmlNode*> ranks;
  std::map<std::pair<std::string, int>, const XmlNode*> devices;
  for (const XmlNode* gpu : linter.all("gpu")) {
    if (gpu->has("rank")) {
      const auto [other, added] = ranks.emplace(intOf(*gpu, "rank", 0), gpu);
      if (!added) lintRepeatedRank(linter, *gpu, *other->second);
    }
    if (!gpu->has("dev")) continue;
    const auto [other, added] = devices.emplace(std::pair{hostOf(*gpu), intOf(*gpu, "dev", 0)}, gpu);
    // Several ranks on one GPU, or parts of one GPU.
    if (added || other->second->parent == gpu->parent) continue;
    linter.warning("duplicate-dev", placeOf(*gpu, "dev"),
                   "dev " + gpu->get("dev") + " is in line " + std::to_string(other->second->position.line) +
                       " already; NCCL chooses NICs by it",
                   "write each GPU's own NVML index");
  }
}

void lintC2c(Linter& linter, const XmlNode& c2c) {
  const std::vector<std::string> missing = missingOf(c2c, {"bw", "count"});
  if (missing.empty()) return;
  linter.error("c2c-incomplete", c2c.position, "<c2c> lacks " + listText(missing) + "; NCCL fails its init",
               "write bw (MB/s of one link) and count");
}

// Without tclass NCCL takes the class of the target from /sys; it takes what it does not find for an
// NVSwitch.
NodeType targetType(const Linter& linter, const XmlNode& link) {
  if (link.has("tclass")) return classType(link.get("tclass"), linter.document().version);
  const XmlNode* target = linter.pciAt(link, link.get("target"));
  if (target == nullptr || !target->has("class")) return NodeType::kNvs;
  return classType(target->get("class"), linter.document().version);
}

// True: there is nothing more to report about this link.
bool lintLinkAttributes(Linter& linter, const XmlNode& link) {
  std::vector<std::string> missing;
  const bool needs_target = targetType(linter, link) == NodeType::kGpu || !link.has("tclass");
  if (needs_target && !link.has("target")) missing.emplace_back("target");
  if (!link.has("count")) missing.emplace_back("count");
  if (!missing.empty()) {
    linter.error("nvlink-incomplete", link.position,
                 "<" + link.name + "> lacks " + listText(missing) + "; NCCL fails its init",
                 "write target (the other end's busid), count (links) and tclass (the other end's class)");
    return true;
  }
  if (intOf(link, "count", 0) <= 0) {
    linter.warning("nvlink-count", placeOf(link, "count"),
                   "count " + inQuotes(link.get("count")) + ": a link without bandwidth",
                   "write the number of links, or remove the tag");
  }
  return false;
}

void lintTargetClass(Linter& linter, const XmlNode& link, const XmlNode* target) {
  if (!link.has("tclass")) return;
  const NodeType type = targetType(linter, link);
  const std::string tclass = "tclass " + inQuotes(link.get("tclass"));
  const std::string fix = "write 0x030200 for a GPU, 0x068000 for an NVSwitch, 0x068001 for a POWER CPU";
  const XmlPosition place = placeOf(link, "tclass");
  const bool classed = target != nullptr && target->has("class");
  if (classed && classType(target->get("class"), linter.document().version) != type) {
    linter.warning(
        "nvlink-tclass", place,
        tclass + " is not the class " + inQuotes(target->get("class")) + " of its target in line " +
            std::to_string(target->position.line) +
            (type == NodeType::kGpu ? "" : "; NCCL adds up all such links as links to one NVSwitch"),
        fix);
  } else if (type != NodeType::kGpu && type != NodeType::kNvs && type != NodeType::kCpu) {
    linter.warning(
        "nvlink-tclass", place,
        tclass + " is neither a GPU's, an NVSwitch's nor a CPU's; NCCL takes the other end for an NVSwitch",
        fix);
  }
}

void lintLink(Linter& linter, const XmlNode& link) {
  if (lintLinkAttributes(linter, link)) return;
  const std::string busid = link.get("target");
  const XmlNode* target = linter.pciAt(link, busid);
  lintTargetClass(linter, link, target);
  if (targetType(linter, link) != NodeType::kGpu) return;
  if (target == link.parent->parent) {
    linter.warning(
        "nvlink-to-self", placeOf(link, "target"),
        "this link leads from " + pciText(*target) + " to itself, so NCCL sees no NVLink to another GPU",
        "write the address of the GPU at the other end");
  } else if (target == nullptr || (linter.describesGpus() && !hasRank(*target))) {
    linter.warning("nvlink-target-missing", placeOf(link, "target"),
                   "no described GPU has the address " + inQuotes(busid) + "; NCCL drops this link",
                   "correct the target, or leave the link out if that GPU is not visible here");
  }
}

// Writes one finding for the whole file. For RCCL, and for a release of NCCL that does so too, it is a note.
void lintClassless(Linter& linter) {
  for (const char* name : {"nvlink", "xgmi"}) {
    std::vector<const XmlNode*> classless;
    for (const XmlNode* link : linter.all(name))
      if (!link->has("tclass") && link->has("target") && link->has("count")) classless.push_back(link);
    if (classless.empty()) continue;
    const std::string what = "<" + std::string(name) + "> lacks tclass" + moreText(classless);
    const std::string filled =
        "reads the class of the target from /sys; a target that /sys does not have counts as an NVSwitch";
    const bool rccl = std::string_view(name) == "xgmi";
    if (!rccl && !linter.nccl().has(NcclRule::kNvlinkClassFilled))
      linter.error("nvlink-incomplete", classless[0]->position,
                   what + "; NCCL since 2.31 fails its init, and up to 2.30 " + filled,
                   "write tclass (the other end's class)");
    else
      linter.note("nvlink-incomplete", classless[0]->position,
                  what + (rccl ? "; RCCL " : "; NCCL since 2.31 fails its init, and up to 2.30 ") + filled,
                  "write tclass (the other end's class) if the file is to stand for itself");
  }
}

using Pair = std::pair<const XmlNode*, const XmlNode*>;

// Counts the links from GPU to GPU. If a <pci> has several <gpu>, NCCL uses the links of the first.
std::map<Pair, std::pair<int, const XmlNode*>> countLinks(const Linter& linter) {
  std::map<Pair, std::pair<int, const XmlNode*>> counts;
  for (const char* name : {"nvlink", "xgmi"}) {
    for (const XmlNode* link : linter.all(name)) {
      const XmlNode* pci = link->parent->parent;
      const XmlNode* target = linter.pciAt(*link, link->get("target"));
      if (pci->child("gpu") != link->parent || target == nullptr || target == pci) continue;
      if (targetType(linter, *link) != NodeType::kGpu) continue;
      auto& entry = counts[{pci, target}];
      entry.first += intOf(*link, "count", 0);
      entry.second = link;
    }
  }
  return counts;
}

void lintSymmetry(Linter& linter) {
  const auto counts = countLinks(linter);
  for (const auto& [pair, there] : counts) {
    const auto& [from, to] = pair;
    const auto back = counts.find({to, from});
    const int returning = back != counts.end() ? back->second.first : 0;
    if (returning >= there.first || to->child("gpu") == nullptr) continue;
    linter.warning("nvlink-asymmetric", there.second->position,
                   pciText(*from) + " has " + std::to_string(there.first) + " links to " + pciText(*to) +
                       ", which has " + std::to_string(returning) +
                       " back; NCCL counts each direction by itself",
                   "write the same count at both ends");
  }
}

}  // namespace

void lintGpus(Linter& linter) {
  for (const XmlNode* gpu : linter.all("gpu")) {
    if (gpu->has("rank")) {
      lintRanked(linter, *gpu);
    } else {
      lintWithoutRank(linter, *gpu);
    }
    lintPart(linter, *gpu);
  }
  lintIncompleteGpus(linter);
  lintDuplicates(linter);
  for (const XmlNode* c2c : linter.all("c2c")) lintC2c(linter, *c2c);
}

void lintNvlinks(Linter& linter) {
  for (const char* name : {"nvlink", "xgmi"}) {
    for (const XmlNode* link : linter.all(name)) lintLink(linter, *link);
  }
  lintClassless(linter);
  lintSymmetry(linter);
}

}  // namespace railwise::topo
