// Internal to lint: the names of the rules, and the collector of findings that all files of this folder
// share.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "topo/lint/lint.h"

namespace railwise::topo {

// The names of all rules.
inline constexpr std::array kLintRules = {
    // Rules of tags.cc.
    "parse-error",
    "rccl-version",
    "unknown-tag",
    "wrong-parent",
    "xgmi-in-version-1",
    "extra-system",
    "empty-system",
    "node-limit",
    "too-many-attributes",
    "empty-attribute",
    "text-after-slash",
    "unknown-attribute",
    "duplicate-attribute",
    "entity",
    "bad-number",
    "keep",
    // Rules of cpu.cc.
    "cpu-numaid",
    "numaid-unknown",
    "duplicate-numaid",
    "cpu-incomplete",
    "cpu-modelid",
    "cpu-arch",
    "cpu-vendor",
    "affinity-unreadable",
    "affinity-empty",
    "affinity-overlap",
    "host-hash",
    "several-hosts",
    // Rules of pci.cc.
    "pci-busid",
    "busid-malformed",
    "busid-case",
    "duplicate-busid",
    "pci-incomplete",
    "link-speed",
    "link-speed-unknown",
    "link-width",
    "class-unreadable",
    "class-mismatch",
    "class-drops-children",
    "nic-drops-children",
    "undescribed-device",
    "empty-bridge",
    "upstream-slower",
    "bcm-flattened",
    "pcilink-target",
    "pcilink-parent",
    "flat-machine",
    // Rules of gpu.cc.
    "gpu-without-rank",
    "gpu-incomplete",
    "gpu-sm",
    "duplicate-rank",
    "duplicate-dev",
    "busid-function",
    "mlopart-range",
    "nvlink-incomplete",
    "nvlink-count",
    "nvlink-tclass",
    "nvlink-to-self",
    "nvlink-target-missing",
    "nvlink-asymmetric",
    "c2c-incomplete",
    // Rules of net.cc.
    "net-without-dev",
    "net-name",
    "net-speed",
    "net-gdr",
    "net-incomplete",
    "duplicate-net-dev",
    "duplicate-net-name",
    "second-nic",
    "nic-on-bridge",
    "nics-merge",
    "virtual-nic",
    "virtual-nic-shared",
    "host-without-nic",
    // The rule of init/init_failure.cc.
    "init-fails",
};

// One of these names. Another name does not compile.
class Rule {
 public:
  consteval Rule(const char* name)
      : name_(name) {  // NOLINT: implicit, so that `error("link-speed", ...)` works
    if (std::none_of(kLintRules.begin(), kLintRules.end(),
                     [&](std::string_view rule) { return rule == name; }))
      throw "no such rule";
  }
  const char* name() const { return name_; }

 private:
  const char* name_;
};

class Linter {
 public:
  Linter(const XmlDocument& document, NcclVersion nccl);

  const XmlDocument& document() const { return document_; }
  bool rccl() const { return document_.version == 2; }
  NcclVersion nccl() const { return nccl_; }  // whose init
  // Does the file itself list its GPUs (with a rank) or its nets (with a name or dev), as NCCL's own dumps
  // do? If it does not, NCCL adds them on the running machine.
  bool describesGpus() const { return describes_gpus_; }
  bool describesNets() const { return describes_nets_; }
  bool describes() const { return describes_gpus_ || describes_nets_; }
  const std::vector<const XmlNode*>& all(std::string_view name) const;
  // The first <pci> on the host of `from` whose busid NCCL reads as the same number as `busid`. Null: there
  // is none.
  const XmlNode* pciAt(const XmlNode& from, std::string_view busid) const;

  void error(Rule rule, XmlPosition position, std::string text, std::string fix);
  void warning(Rule rule, XmlPosition position, std::string text, std::string fix);
  void note(Rule rule, XmlPosition position, std::string text, std::string fix);
  void add(Finding::Severity severity, Rule rule, XmlPosition position, std::string text, std::string fix);
  std::vector<Finding> take();

 private:
  const XmlDocument& document_;
  NcclVersion nccl_;
  std::map<std::string, std::vector<const XmlNode*>, std::less<>> by_name_;
  std::map<std::pair<std::string, int64_t>, const XmlNode*> by_busid_;
  bool describes_gpus_ = false;
  bool describes_nets_ = false;
  std::vector<Finding> findings_;
};

void lintTags(Linter& linter, const std::vector<XmlRemark>& remarks);
void lintCpus(Linter& linter);
void lintPci(Linter& linter);
void lintGpus(Linter& linter);
void lintNvlinks(Linter& linter);
void lintNets(Linter& linter);

// Texts and positions that several rules use.
std::string inQuotes(std::string_view value);  // in double quotes, short, without control characters
std::string pciText(const XmlNode& pci);       // "<pci 0000:45:00.0>"
// Position of the attribute, or of the tag if there is no such attribute.
XmlPosition placeOf(const XmlNode& node, std::string_view attribute);
// The names in `attributes` that the node has no attribute for.
std::vector<std::string> missingOf(const XmlNode& node, std::initializer_list<const char*> attributes);
bool hasRank(const XmlNode& pci);  // has `pci` a <gpu> child with a rank?
// For a finding about the first of several nodes: " (and 3 more like it)", or "".
std::string moreText(const std::vector<const XmlNode*>& nodes);
// True: NCCL finds a net of this NIC by its name, so it looks up nothing in /sys for the NIC.
bool hasNamedNet(const XmlNode& pci);

}  // namespace railwise::topo
