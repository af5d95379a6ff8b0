// Rules about <gpu>, <nvlink>, <xgmi> and <c2c>.
#include <algorithm>
#include <map>

#include "base/bus_id.h"
#include "topo/graph/constants.h"
#include "topo/lint/rules.h"

namespace railwise::topo {
namespace {

constexpr int kMaxParts = 2;  // NCCL_TOPO_MLOPART_DEV_MAX
constexpr int kPartMask = 3;  // NCCL_TOPO_MLOPART_MASK: bits of the address that NCCL uses itself

bool isLink(const XmlNode& node) { return node.name == "nvlink" || node.name == "xgmi"; }

void lintWithoutRank(Linter& linter, const XmlNode& gpu) {
  if (!linter.describesGpus()) return;
  const bool links = std::any_of(gpu.children.begin(), gpu.children.end(),
                                 [](const XmlNode* child) { return isLink(*child) || child->name == "c2c"; });
  const std::string what = "this <gpu> of " + pciText(*gpu.parent) + " has no rank while others have one: ";
  if (links) {
    linter.error(Rule::kGpuWithoutRank, gpu.position,
                 what + "NCCL drops it and then fails its init at its links", "give it a rank, or remove it");
  } else {
    linter.warning(Rule::kGpuWithoutRank, gpu.position, what + "NCCL drops its <pci> without a word",
                   "give it a rank, or remove it");
  }
}

void lintRanked(Linter& linter, const XmlNode& gpu) {
  std::vector<std::string> missing;
  for (const char* name : {"dev", "sm", "gdr"})
    if (!gpu.has(name)) missing.emplace_back(name);
  if (linter.rccl() && !gpu.has("gcn")) missing.emplace_back("gcn");
  if (linter.rccl() && !gpu.has("arch")) missing.emplace_back("arch");
  if (!missing.empty()) {
    linter.error(Rule::kGpuIncomplete, gpu.position,
                 "<gpu> of rank " + gpu.get("rank") + " lacks " + join(missing) + "; NCCL fails its init",
                 "write " + join(missing));
  }
  const int sm = intOf(gpu, "sm", 0);
  if (gpu.has("sm") && !linter.rccl() && (sm < 30 || sm > 300)) {
    linter.warning(Rule::kGpuSm, placeOf(gpu, "sm"),
                   "sm " + inQuotes(gpu.get("sm")) + " is no compute capability; NVLink speeds depend on it",
                   "write ten times the capability: 80 for A100, 90 for H100, 100 for B200");
  }
  if ((busIdToNumber(gpu.parent->get("busid")) & kPartMask) != 0) {
    linter.error(Rule::kBusidFunction, placeOf(*gpu.parent, "busid"),
                 "the last digit of " + inQuotes(gpu.parent->get("busid")) +
                     " must leave its two lowest bits 0 for a GPU; NCCL fails its init",
                 "a GPU is function 0: write .0");
  }
}

void lintPart(Linter& linter, const XmlNode& gpu) {
  const int part = intOf(gpu, "mlopart", -1);
  if (part >= -1 && part < kMaxParts) return;
  linter.error(
      Rule::kMlopartRange, placeOf(gpu, "mlopart"),
      "mlopart " + gpu.get("mlopart") + " is out of range; NCCL fails its init or mixes up the parts",
      "write 0 or 1 for the parts of a split GPU, else leave it out");
}

void lintDuplicates(Linter& linter) {
  std::map<int, const XmlNode*> ranks;
  std::map<std::pair<std::string, int>, const XmlNode*> devices;
  for (const XmlNode* gpu : linter.all("gpu")) {
    if (gpu->has("rank")) {
      const auto [other, added] = ranks.emplace(intOf(*gpu, "rank", 0), gpu);
      if (!added) {
        linter.error(Rule::kDuplicateRank, placeOf(*gpu, "rank"),
                     "rank " + gpu->get("rank") + " is in line " +
                         std::to_string(other->second->position.line) +
                         " already; NCCL finds only the first GPU",
                     "give each <gpu> its own rank");
      }
    }
    if (!gpu->has("dev")) continue;
    const auto [other, added] = devices.emplace(std::pair{hostOf(*gpu), intOf(*gpu, "dev", 0)}, gpu);
    // Several ranks on one GPU, or parts of one GPU.
    if (added || other->second->parent == gpu->parent) continue;
    linter.warning(Rule::kDuplicateDev, placeOf(*gpu, "dev"),
                   "dev " + gpu->get("dev") + " is in line " + std::to_string(other->second->position.line) +
                       " already; NCCL chooses NICs by it",
                   "write each GPU's own NVML index");
  }
}

void lintC2c(Linter& linter, const XmlNode& c2c) {
  std::vector<std::string> missing;
  for (const char* name : {"bw", "count"})
    if (!c2c.has(name)) missing.emplace_back(name);
  if (missing.empty()) return;
  linter.error(Rule::kC2cIncomplete, c2c.position, "<c2c> lacks " + join(missing) + "; NCCL fails its init",
               "write bw (MB/s of one link) and count");
}

NodeType targetType(const Linter& linter, const XmlNode& link) {
  return classType(link.get("tclass"), linter.document().version);
}

// True: there is nothing more to report about this link.
bool lintLinkAttributes(Linter& linter, const XmlNode& link) {
  std::vector<std::string> missing;
  for (const char* name : {"target", "count", "tclass"})
    if (!link.has(name)) missing.emplace_back(name);
  const bool needs_target = targetType(linter, link) == NodeType::kGpu || !link.has("tclass");
  if (!needs_target && !link.has("target")) missing.erase(missing.begin());
  if (!missing.empty()) {
    linter.error(Rule::kNvlinkIncomplete, link.position,
                 "<" + link.name + "> lacks " + join(missing) + "; NCCL fails its init",
                 "write target (the other end's busid), count (links) and tclass (the other end's class)");
    return true;
  }
  if (intOf(link, "count", 0) <= 0) {
    linter.warning(Rule::kNvlinkCount, placeOf(link, "count"),
                   "count " + inQuotes(link.get("count")) + ": a link without bandwidth",
                   "write the number of links, or remove the tag");
  }
  return false;
}

void lintTargetClass(Linter& linter, const XmlNode& link, const XmlNode* target) {
  const NodeType type = targetType(linter, link);
  const std::string tclass = "tclass " + inQuotes(link.get("tclass"));
  const std::string fix = "write 0x030200 for a GPU, 0x068000 for an NVSwitch, 0x068001 for a POWER CPU";
  const XmlPosition place = placeOf(link, "tclass");
  const bool classed = target != nullptr && target->has("class");
  if (classed && classType(target->get("class"), linter.document().version) != type) {
    linter.warning(
        Rule::kNvlinkTclass, place,
        tclass + " is not the class " + inQuotes(target->get("class")) + " of its target in line " +
            std::to_string(target->position.line) +
            (type == NodeType::kGpu ? "" : "; NCCL adds up all such links as links to one NVSwitch"),
        fix);
  } else if (type != NodeType::kGpu && type != NodeType::kNvs && type != NodeType::kCpu) {
    linter.warning(
        Rule::kNvlinkTclass, place,
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
        Rule::kNvlinkToSelf, placeOf(link, "target"),
        "this link leads from " + pciText(*target) + " to itself, so NCCL sees no NVLink to another GPU",
        "write the address of the GPU at the other end");
  } else if (target == nullptr || (linter.describesGpus() && !hasRank(*target))) {
    linter.warning(Rule::kNvlinkTargetMissing, placeOf(link, "target"),
                   "no described GPU has the address " + inQuotes(busid) + "; NCCL drops this link",
                   "correct the target, or leave the link out if that GPU is not visible here");
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
    linter.warning(Rule::kNvlinkAsymmetric, there.second->position,
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
  lintDuplicates(linter);
  for (const XmlNode* c2c : linter.all("c2c")) lintC2c(linter, *c2c);
}

void lintNvlinks(Linter& linter) {
  for (const char* name : {"nvlink", "xgmi"}) {
    for (const XmlNode* link : linter.all(name)) lintLink(linter, *link);
  }
  lintSymmetry(linter);
}

}  // namespace railwise::topo
