// The inside of lint: the rules' names and the collector that the lint_*.cc files share. Not for others.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topo/lint/lint.h"

namespace railwise::topo {

enum class Rule : uint8_t {
  // tags.cc
  kParseError,
  kRcclVersion,
  kUnknownTag,
  kWrongParent,
  kXgmiInVersion1,
  kExtraSystem,
  kEmptySystem,
  kNodeLimit,
  kTooManyAttributes,
  kEmptyAttribute,
  kTextAfterSlash,
  kUnknownAttribute,
  kDuplicateAttribute,
  kEntity,
  kBadNumber,
  kKeep,
  // cpu.cc
  kCpuNumaid,
  kNumaidUnknown,
  kDuplicateNumaid,
  kCpuIncomplete,
  kCpuModelid,
  kCpuArch,
  kCpuVendor,
  kAffinityUnreadable,
  kAffinityEmpty,
  kAffinityOverlap,
  kHostHash,
  kSeveralHosts,
  // pci.cc
  kPciBusid,
  kBusidMalformed,
  kBusidCase,
  kDuplicateBusid,
  kPciIncomplete,
  kLinkSpeed,
  kLinkSpeedUnknown,
  kLinkWidth,
  kClassUnreadable,
  kClassMismatch,
  kClassDropsChildren,
  kNicDropsChildren,
  kUndescribedDevice,
  kEmptyBridge,
  kUpstreamSlower,
  kBcmFlattened,
  kPcilinkTarget,
  kPcilinkParent,
  kFlatMachine,
  // gpu.cc
  kGpuWithoutRank,
  kGpuIncomplete,
  kGpuSm,
  kDuplicateRank,
  kDuplicateDev,
  kBusidFunction,
  kMlopartRange,
  kNvlinkIncomplete,
  kNvlinkCount,
  kNvlinkTclass,
  kNvlinkToSelf,
  kNvlinkTargetMissing,
  kNvlinkAsymmetric,
  kC2cIncomplete,
  // net.cc
  kNetWithoutDev,
  kNetName,
  kNetSpeed,
  kNetGdr,
  kDuplicateNetDev,
  kSecondNic,
  kNicOnBridge,
  kNicsMerge,
  kVirtualNic,
  kVirtualNicShared,
  kCount,
};
const char* ruleName(Rule rule);

class Linter {
 public:
  explicit Linter(const XmlDocument& document);

  const XmlDocument& document() const { return document_; }
  bool rccl() const { return document_.version == 2; }
  // Whether the file itself says which GPUs (with a rank) and nets (with a dev) there are, as NCCL's own
  // dumps do; if not, NCCL adds them on the machine and fills in what is missing on the way.
  bool describesGpus() const { return describes_gpus_; }
  bool describesNets() const { return describes_nets_; }
  bool describes() const { return describes_gpus_ || describes_nets_; }
  const std::vector<const XmlNode*>& all(std::string_view name) const;
  // The first <pci> of `from`'s host whose busid NCCL reads as the same number; null: none.
  const XmlNode* pciAt(const XmlNode& from, std::string_view busid) const;

  void error(Rule rule, XmlPosition position, std::string text, std::string fix);
  void warning(Rule rule, XmlPosition position, std::string text, std::string fix);
  void note(Rule rule, XmlPosition position, std::string text, std::string fix);
  void add(Finding::Severity severity, Rule rule, XmlPosition position, std::string text, std::string fix);
  std::vector<Finding> take();

 private:
  const XmlDocument& document_;
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

// Words and places, for all rules.
std::string inQuotes(std::string_view value);  // in double quotes, short, without control characters
std::string pciText(const XmlNode& pci);       // "<pci 0000:45:00.0>"
XmlPosition placeOf(const XmlNode& node, std::string_view attribute);  // of the attribute, else of the tag
const XmlNode* cpuOf(const XmlNode& node);                             // the <cpu> above, or null
std::string hostOf(const XmlNode& node);                               // its host_hash, "" without one
bool hasRank(const XmlNode& pci);                                      // a <gpu> child with a rank
int intOf(const XmlNode& node, std::string_view attribute, int otherwise);  // strtol, as NCCL reads
std::string join(const std::vector<std::string>& words);                    // "a, b and c"

}  // namespace railwise::topo
