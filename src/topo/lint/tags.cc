// Rules about the XML itself: tags, attributes, numbers and limits.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>

#include "topo/graph/constants.h"
#include "topo/lint/rules.h"

namespace railwise::topo {
namespace {

using Names = std::vector<std::string_view>;

struct TagAttributes {
  std::string_view tag;
  Names words;     // read as text, or checked by a rule of their own
  Names integers;  // read by strtol, which finds the base by the prefix
  Names hexadecimals;
  Names floats;
};

const std::vector<TagAttributes>& knownTags() {
  static const std::vector<TagAttributes> kTags = {
      {"system", {"name"}, {"version"}, {}, {}},
      {"cpu", {"affinity", "arch", "vendor"}, {"numaid", "familyid", "modelid"}, {"host_hash"}, {}},
      {"pci",
       {"busid", "class", "link_speed", "link_width"},
       {"vendor", "device", "subsystem_vendor", "subsystem_device"},
       {},
       {}},
      {"gpu", {"gcn"}, {"dev", "sm", "rank", "gdr", "mlopart", "arch"}, {}, {}},
      {"nvlink", {"target", "tclass"}, {"count"}, {}, {}},
      {"xgmi", {"target", "tclass"}, {"count"}, {}, {}},
      {"c2c", {}, {"bw", "count"}, {}, {}},
      {"pcilink", {"target"}, {}, {}, {}},
      {"nic", {}, {}, {}, {}},
      {"net",
       {"name"},
       {"dev", "speed", "port", "gdr", "maxconn", "coll", "net", "gin", "rma", "rail", "plane"},
       {"guid"},
       {"latency"}},
  };
  return kTags;
}

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// strtol reads "010" as eight.
bool isOctal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && std::isdigit(static_cast<unsigned char>(text[1])) != 0 &&
         text.find_first_not_of('0') != std::string_view::npos;
}

void lintNumber(Linter& linter, const TagAttributes& known, const XmlAttribute& attribute) {
  const char* begin = attribute.value.c_str();
  char* end = nullptr;
  std::string reading;
  if (contains(known.integers, attribute.name)) {
    reading = std::to_string(static_cast<int>(std::strtol(begin, &end, 0)));
    if (isOctal(attribute.value) && *end == '\0') {
      linter.warning("bad-number", attribute.position,
                     attribute.name + "=" + inQuotes(attribute.value) +
                         " begins with 0, so NCCL reads it as octal: " + reading,
                     "write the number without leading zeros");
      return;
    }
  } else if (contains(known.hexadecimals, attribute.name)) {
    reading = std::to_string(std::strtoull(begin, &end, 16));
  } else if (contains(known.floats, attribute.name)) {
    reading = std::to_string(std::strtof(begin, &end));
  } else {
    return;
  }
  if (end != begin && *end == '\0') return;
  linter.error("bad-number", attribute.position,
               attribute.name + "=" + inQuotes(attribute.value) + " is no number; NCCL reads " + reading +
                   " and says nothing",
               "write a plain number (0x before hexadecimal ones)");
}

void lintAttributes(Linter& linter, const TagAttributes& known, const XmlNode& node) {
  std::set<std::string_view> seen;
  bool empty_told = false;
  for (const XmlAttribute& attribute : node.attributes) {
    if (attribute.name.empty()) {
      if (!empty_told) {
        linter.note("empty-attribute", attribute.position,
                    "two spaces, or a space before the end of <" + node.name +
                        ">: NCCL reads an attribute without a name there, which counts towards its 16",
                    "put exactly one space between attributes and none before '/>' or '>'");
      }
      empty_told = true;
      continue;
    }
    if (!seen.insert(attribute.name).second) {
      linter.error(
          "duplicate-attribute", attribute.position,
          attribute.name + " stands twice in <" + node.name + ">; NCCL takes the first and ignores this one",
          "remove one of them");
      continue;
    }
    const bool is_known = attribute.name == "keep" || contains(known.words, attribute.name) ||
                          contains(known.integers, attribute.name) ||
                          contains(known.hexadecimals, attribute.name) ||
                          contains(known.floats, attribute.name);
    if (!is_known) {
      linter.warning("unknown-attribute", attribute.position,
                     "NCCL reads no attribute " + inQuotes(attribute.name) + " in <" + node.name + ">",
                     "correct the name, or remove it");
      continue;
    }
    if (attribute.value.find('&') != std::string::npos && attribute.value.find(';') != std::string::npos) {
      linter.warning("entity", attribute.position,
                     "NCCL knows no entities: " + inQuotes(attribute.value) + " is taken letter by letter",
                     "write the character itself");
    }
    lintNumber(linter, known, attribute);
  }
}

void lintKeep(Linter& linter, const XmlNode& node) {
  if (node.get("keep") != "1") return;
  const std::string base = "keep=\"1\" makes NCCL keep this <" + node.name + "> even if no rank uses it";
  if (node.name == "gpu" && node.has("rank")) {
    linter.warning("keep", placeOf(node, "keep"),
                   base + ", with the rank that the file gives it, which is wrong in any other job",
                   "remove keep; NCCL sets it for what it uses");
  } else {
    linter.note("keep", placeOf(node, "keep"), base, "remove keep unless that is wanted");
  }
}

// Extracts the tag's name from the reader's remark: "<NAME> inside <PARENT> is unknown ...".
std::string_view skippedName(const XmlRemark& remark) {
  const std::string_view text = remark.text;
  const std::size_t end = text.find('>');
  return end == std::string_view::npos || end == 0 ? std::string_view() : text.substr(1, end - 1);
}

void lintSkipped(Linter& linter, const XmlRemark& remark) {
  const std::string_view name = skippedName(remark);
  const auto same = [name](const TagAttributes& known) { return known.tag == name; };
  const bool known = std::any_of(knownTags().begin(), knownTags().end(), same);
  if (name == "xgmi" && !linter.rccl()) {
    linter.error("xgmi-in-version-1", remark.position,
                 "NCCL drops <xgmi> from a version 1 file, and with it the link between the GPUs",
                 "write version=\"2\" for RCCL, or <nvlink> for NCCL");
  } else if (known) {
    linter.error("wrong-parent", remark.position, remark.text,
                 "move it: system > cpu > pci > gpu or nic, nic > net, gpu > nvlink or c2c, pci > pcilink");
  } else {
    linter.warning("unknown-tag", remark.position, remark.text, "remove it, or make it a comment");
  }
}

void lintRemark(Linter& linter, const XmlRemark& remark) {
  switch (remark.kind) {
    case XmlRemark::Kind::kSkippedElement:
      lintSkipped(linter, remark);
      return;
    case XmlRemark::Kind::kExtraAttributes:
      linter.error("too-many-attributes", remark.position, remark.text,
                   "remove attributes, or doubled spaces, which count too");
      return;
    case XmlRemark::Kind::kTextAfterSlash:
      linter.warning("text-after-slash", remark.position, remark.text, "write '/>'");
      return;
    case XmlRemark::Kind::kExtraSystem:
      linter.error("extra-system", remark.position, remark.text, "put all <cpu> into one <system>");
      return;
  }
}

// The tags that NCCL adds on the machine count towards the same limit of 256: a gpu with NVLinks for each
// GPU, and a nic and a net for each NIC.
int addedOnMachine(const Linter& linter) {
  int added = 0;
  for (const XmlNode* pci : linter.all("pci")) {
    if (!pci->children.empty()) continue;
    const NodeType type = classType(pci->get("class"), linter.document().version);
    if (type == NodeType::kGpu || type == NodeType::kNic) added += 2;
  }
  return added;
}

void lintSystem(Linter& linter) {
  const XmlNode* system = linter.document().system();
  if (linter.rccl() && hasNvidiaGpu(linter.document())) {
    linter.error("rccl-version", placeOf(*system, "version"),
                 "version 2 is RCCL's, and the GPUs are NVIDIA's: NCCL refuses the file",
                 "write version=\"1\"");
  } else if (linter.rccl()) {
    linter.note("rccl-version", placeOf(*system, "version"), "version 2 is RCCL's; NCCL refuses the file",
                "use it with RCCL only");
  }
  if (linter.all("cpu").empty()) {
    linter.warning("empty-system", system->position, "<system> describes no <cpu>, so the file says nothing",
                   "describe the machine, or do without a file");
  }
  constexpr int kNear = kXmlMaxNodes - 16;
  const int tags = static_cast<int>(linter.document().order().size());
  const int added = addedOnMachine(linter);
  if (tags + added < kNear) return;
  linter.warning("node-limit", system->position,
                 "the file has " + std::to_string(tags) + " tags and NCCL adds about " +
                     std::to_string(added) + " for GPUs and NICs; its limit is " +
                     std::to_string(kXmlMaxNodes) + " and it fails beyond",
                 "remove devices that NCCL does not use");
}

}  // namespace

void lintTags(Linter& linter, const std::vector<XmlRemark>& remarks) {
  for (const XmlRemark& remark : remarks) lintRemark(linter, remark);
  if (linter.document().system() != nullptr) lintSystem(linter);
  for (const TagAttributes& known : knownTags()) {
    for (const XmlNode* node : linter.all(known.tag)) {
      lintAttributes(linter, known, *node);
      lintKeep(linter, *node);
    }
  }
}

}  // namespace railwise::topo
