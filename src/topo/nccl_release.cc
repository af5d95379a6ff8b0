#include "topo/nccl_release.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace railwise::topo {
namespace {

constexpr int kAlways = 0;       // the rule is older than 2.13
constexpr int kNever = 1 << 30;  // no release has ended the rule

struct RuleLife {
  NcclRule rule;
  int since;  // the first release with the rule
  int until;  // the first release without it
  const char* text;
};

// Read from NCCL's public tags (of 2.31.2 from the copy in meta-pytorch/torchcomms): a border is the first
// tag that has the rule. Between some tags were releases without one (2.30.5, 2.30.6): rulesFor() says so.
constexpr std::array<RuleLife, kRules> kTable = {{
    {NcclRule::kDeviceNodes, 23003, kNever,
     "a rank is a node behind the node of its GPU, so that paths of GPUs have two hops more"},
    {NcclRule::kGinDevices, 22907, kNever, "a <net net=\"0\"> in a topology file is no NIC for NCCL's ranks"},
    {NcclRule::kPartitions, 23007, kNever,
     "the parts of a split GPU (MLOPart) share its NVLinks and its C2C link"},
    {NcclRule::kC2cLinks, 21901, kNever, "C2C links between GPU and CPU are read"},
    {NcclRule::kC2cLinkType, 22602, kNever, "C2C is a path type of its own, no longer NVL"},
    {NcclRule::kBroadcomGen5, 22003, kNever, "the two levels of Broadcom's PCIe Gen5 switches count as one"},
    {NcclRule::kNvlink20, 21801, kNever, "an NVLink of sm 70 to 90 carries 20 GB/s, not 22"},
    {NcclRule::kHopperNvlink, 22003, kNever, "an NVLink of sm 90 carries 20.6 GB/s"},
    {NcclRule::kBlackwellNvlink, 22501, kNever, "an NVLink of sm 100 carries 40 GB/s"},
    {NcclRule::kBlackwellNvlink401, 22705, kNever, "an NVLink of sm 100 carries 40.1 GB/s"},
    {NcclRule::kSkylake10, 21801, kNever, "10 GB/s between Intel's CPUs from Skylake on, not 9"},
    {NcclRule::kAmd16, 21901, kNever, "16 GB/s between AMD's CPUs; before, no limit"},
    {NcclRule::kSapphireRapids, 22602, kNever,
     "22 GB/s between Sapphire Rapids, 40 between Emerald Rapids, not 10"},
    {NcclRule::kAmdGenerations, 23102, kNever,
     "24 GB/s between AMD's CPUs of Zen 3 and 4, 32 of Zen 5, not 16; an AMD <cpu> without familyid is "
     "refused"},
    {NcclRule::kGraniteRapids, 23102, kNever,
     "40 GB/s between Granite Rapids and between Sierra Forest, not 22"},

    {NcclRule::kTypeBeforeBandwidth, 23007, kNever,
     "a path of a better type replaces another one; before, a path of more bandwidth that is not longer"},
    {NcclRule::kReverseLinks, 23102, kNever,
     "a link without one back fails the init, also where a path over it replaces another one"},
    {NcclRule::kNearestCpu, 23007, kNever,
     "the CPU of a GPU is the one with the best path, not with the fewest hops"},
    {NcclRule::kP2c, 22703, kNever, "C2C to the CPU and PCIe to the NIC are a path type of their own, P2C"},
    {NcclRule::kP2cByCpus, 22705, kNever,
     "P2C where GPU and NIC reach the CPU by C2C and PHB, also for paths that are rerouted over the CPU"},
    {NcclRule::kRelayBeyondPxn, 22706, kNever, "PXN serves NICs that are farther than PXN, no longer P2C"},
    {NcclRule::kRelayOverC2c, 22803, kNever,
     "PXN over a GPU with P2C to the NIC is on by default (NCCL_PXN_C2C)"},
    {NcclRule::kP2cOfNearest, 22902, kNever,
     "P2C for the nearest NICs of a GPU alone, so that PXN serves the others"},
    {NcclRule::kGpuDirectC2c, 22703, kNever, "GPUDirect over C2C is on by default (NCCL_NET_GDR_C2C)"},
    {NcclRule::kGpuDirectUpToP2c, 22902, kNever,
     "GPUDirect's distance limit is P2C; before, P2C counted as C2C"},
    {NcclRule::kNetworkInsideHost, 21403, kNever,
     "GPUs of one host use their NICs where these are faster than the path between the GPUs"},
    {NcclRule::kP2pBehindSwitches, 22304, kNever,
     "P2P beyond PCIe switches is off for AMD (more than 2 GPUs) and POWER too"},
    {NcclRule::kReadsFromAmpere, 21901, kNever,
     "NICs read the memory of GPUs from sm 80 on, without an NVLink too"},
    {NcclRule::kHopperOrders, 21901, kNever, "GPUs from sm 90 on need no flush after a receive"},
    {NcclRule::kFlushC2c, 23003, kNever, "where the GPU's CPU is behind C2C, a flush goes over C2C"},
    {NcclRule::kRelayNeedsGpuDirect, 23003, kNever,
     "PXN wants GPUDirect between the relaying GPU and the NIC"},
    {NcclRule::kCliquesObeyLevel, 23102, kNever, "P2P to GPUs of another NVLink clique obeys NCCL_P2P_LEVEL"},

    {NcclRule::kNicsMirrored, 21805, kNever,
     "equally near NICs are dealt out by bit reversal, and by channel"},
    {NcclRule::kNicsByShare, 23007, 23102,
     "equally near NICs are dealt out by a GPU's number modulo the GPUs that share them"},
    {NcclRule::kNicsByShareOfCx8, 23102, kNever,
     "NICs are dealt out modulo the sharing GPUs only with sm 100 and ConnectX-8, or "
     "NCCL_TOPO_SCATTER_START_NET=1"},
    {NcclRule::kNetDevsPolicy, 22803, kNever, "NCCL_NETDEVS_POLICY says how many NICs a GPU uses"},

    {NcclRule::kFusion, 22403, kNever,
     "NICs are merged by NCCL_NET_MERGE_LEVEL, ports of one card by default"},
    {NcclRule::kEightDevicesPerNic, 23003, kNever, "a merged NIC has up to 8 devices, not 4"},
    {NcclRule::kMergePolicy, 23007, kNever, "NCCL_NET_MERGE_POLICY=RAIL merges NICs of one rail alone"},
    {NcclRule::kLinkFromNvml, 23007, kNever, "the PCIe link of a GPU is the current one, which NVML tells"},
    {NcclRule::kLinkSpelling, 23102, kNever,
     "a PCIe link that NVML does not know counts as Gen4, not as Gen3"},
    {NcclRule::kCpuidFamily, 23102, kNever,
     "the family of AMD's CPUs is 25 or 26 in files that NCCL writes, not 175 or 191"},
    {NcclRule::kOneNvswitch, 23102, kNever, "all NVSwitches are one target of a GPU's NVLinks"},
    {NcclRule::kNvlinkClassFilled, kAlways, 23102, "an <nvlink> of a topology file without tclass gets one"},
    {NcclRule::kDataDirectOrders, 23102, kNever, "NCCL's own network forces no flush for data-direct NICs"},

    {NcclRule::kSixtyFourChannels, 22501, kNever,
     "a communicator has up to 64 channels, 32 of the rings; before, 32 and 16"},
    {NcclRule::kOneGpuBandwidth, 22105, kNever, "one GPU alone has a bandwidth (totalBw); before, 0"},
    {NcclRule::kSearchErrors, 23102, kNever,
     "an error of the search fails the init, e.g. of NVLS where a GPU has no path to the NVSwitches"},
    {NcclRule::kFarNetsBeforeHopper, 22902, kNever,
     "before sm 90 a channel may reach a NIC over PHB and SYS, however near the NICs are"},
    {NcclRule::kSimpleOrderNamesNets, 22902, kNever,
     "a channel of the simple order uses the NICs of its first and last GPU, not NIC 0"},
    {NcclRule::kSpeed45, 22902, kNever, "the search tries 45 GB/s a channel between GPUs with sm 100"},
    {NcclRule::kSpeed80, 22907, kNever, "the search tries 80 GB/s a channel between hosts with sm 100"},
    {NcclRule::kSpeed86, 23003, kNever, "the search tries 86 GB/s a channel between hosts with sm 100"},
    {NcclRule::kRails, 23007, kNever,
     "the rail and the plane of a NIC decide which NICs serve one channel; before, the adapter and its port"},
    {NcclRule::kSpeed90, 23102, kNever, "the search tries 90.2 GB/s a channel between hosts with sm 100"},
    {NcclRule::kGraphFileRanks, 23003, kNever, "a graph file names ranks, not the numbers of GPUs"},

    {NcclRule::kShmBetweenParts, 23003, kNever,
     "GPUs of one host whose NICs make it two domains are connected by shared memory, not by the NICs"},
    {NcclRule::kMixedGpusLl128, 23003, kNever, "LL128 also between different GPUs from sm 90 on"},
    {NcclRule::kModelPerAlgorithm, 23102, kNever,
     "each algorithm has a cost model of its own: with sm 100 the network counts on 2 nodes too, and PAT has "
     "the lower bandwidth of GPUs and network"},
}};

constexpr bool inOrder() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (kTable[i].rule != static_cast<NcclRule>(i)) return false;
  return true;
}
static_assert(inOrder(), "the rows are in the order of NcclRule");

// The releases that were read.
constexpr std::array kReleases = {21304, 21403, 21501, 21505, 21602, 21605, 21701, 21801, 21803, 21805,
                                  21806, 21901, 21903, 21904, 22003, 22005, 22105, 22203, 22304, 22403,
                                  22501, 22602, 22603, 22605, 22606, 22703, 22705, 22706, 22707, 22803,
                                  22807, 22809, 22902, 22903, 22907, 23003, 23004, 23007, 23102};
static_assert(kReleases.back() == NcclVersion::kNewest.code);

constexpr int kReadsPciLinks = 22203;
constexpr int kPatches = 100;    // a code counts patches up to 99
constexpr int kMajor = 20000;    // of 2.x.y
constexpr int kFirstMinor = 13;  // of the releases that people can ask for
constexpr int kLastMinor = 32;

bool holds(const RuleLife& life, NcclVersion version) {
  return version.code >= life.since && version.code < life.until;
}

// The newest release that was read and is not newer than `version`; the oldest one if all are newer.
NcclVersion lastReadUpTo(NcclVersion version) {
  const auto* const after = std::upper_bound(kReleases.begin(), kReleases.end(), version.code);
  return NcclVersion{after == kReleases.begin() ? kReleases.front() : *(after - 1)};
}

// What differs in an older release besides the table, and is not modelled. "": nothing that was found.
const char* notModelled(NcclVersion release) {
  if (!release.has(NcclRule::kNicsMirrored)) return "its choice of NICs and its PXN are not modelled";
  if (release.code < kReadsPciLinks)
    return "how its own network merges ports is not modelled, nor that it knows no <pcilink> and one host "
           "only";
  if (!release.has(NcclRule::kFusion)) return "how its own network merges ports is not modelled";
  return "";
}

std::string doubtOf(NcclVersion release, const std::string& name) {
  const std::string used = ncclVersionName(lastReadUpTo(release));
  if (release > NcclVersion::kNewest) {
    std::string text = "NCCL " + name + " is newer than " + used + ", the newest with rules that are known";
    if (release.code / kPatches == (kMajor / kPatches) + kLastMinor)
      text += "; its release notes name sm 107 and the rails and planes of ConnectX-9, without their rules";
    return text;
  }
  if (release.code < kReleases.front())
    return "NCCL " + name + " is older than " + used + ", the oldest with rules that are known";
  if (release.code != lastReadUpTo(release).code)
    return "NCCL " + name + " has no public tag; " + used + " is the one before it";
  const std::string missing = notModelled(release);
  return missing.empty() ? "" : "of NCCL " + name + ", " + missing;
}

NcclChoice choiceOf(NcclVersion release, const std::string& name) {
  return {lastReadUpTo(release), doubtOf(release, name), release > NcclVersion::kNewest};
}

// Reads a number and the dot in front of it, if `dot` is set.
bool readNumber(std::string_view& text, bool dot, int& number) {
  if (dot && !text.starts_with('.')) return false;
  if (dot) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number >= kPatches) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

bool NcclVersion::has(NcclRule rule) const { return holds(kTable[static_cast<std::size_t>(rule)], *this); }

std::vector<NcclVersion> knownNcclReleases() {
  std::vector<NcclVersion> releases;
  for (const int code : kReleases) releases.push_back(NcclVersion{code});
  return releases;
}

std::string ncclVersionName(NcclVersion version) {
  return std::to_string(version.code / (kPatches * kPatches)) + "." +
         std::to_string(version.code / kPatches % kPatches) + "." + std::to_string(version.code % kPatches);
}

std::optional<NcclVersion> parseNcclVersion(std::string_view text) {
  int major = 0;
  int minor = 0;
  int patch = 0;
  if (!readNumber(text, false, major) || !readNumber(text, true, minor) || !readNumber(text, true, patch))
    return std::nullopt;
  if (!text.empty() && text[0] != '-' && text[0] != '+') return std::nullopt;
  return NcclVersion{(major * kPatches + minor) * kPatches + patch};
}

NcclChoice rulesFor(NcclVersion release) { return choiceOf(release, ncclVersionName(release)); }

std::optional<NcclChoice> rulesFor(std::string_view text) {
  std::string_view rest = text;
  int major = 0;
  int minor = 0;
  if (!readNumber(rest, false, major) || !readNumber(rest, true, minor)) return std::nullopt;
  if (major != kMajor / (kPatches * kPatches) || minor < kFirstMinor || minor > kLastMinor)
    return std::nullopt;
  if (!rest.empty()) {
    const auto release = parseNcclVersion(text);
    return release ? std::optional(rulesFor(*release)) : std::nullopt;
  }
  const NcclVersion first{kMajor + minor * kPatches};
  const NcclVersion newest = lastReadUpTo(NcclVersion{first.code + kPatches - 1});
  return newest < first ? choiceOf(first, std::string(text)) : rulesFor(newest);
}

RulesInUse chooseRules(const ReleaseHints& hints) {
  const auto chosen = [](const NcclChoice& choice, const std::string& where, bool asked) {
    const std::string note = "the rules of NCCL " + ncclVersionName(choice.rules) + where;
    if (choice.newer) return RulesInUse{choice.rules, note, choice.doubt, asked};
    return RulesInUse{choice.rules, note + (choice.doubt.empty() ? "" : ": " + choice.doubt), "", asked};
  };
  if (hints.asked) return chosen(*hints.asked, "", true);
  if (hints.in_log) return chosen(rulesFor(*hints.in_log), ", which the log names", false);
  if (hints.in_process) return chosen(rulesFor(*hints.in_process), ", which this process has loaded", false);
  if (const auto release = parseNcclVersion(hints.library_release))
    return chosen(rulesFor(*release), ", for " + hints.library, false);
  const std::string why = !hints.library.empty()
                              ? ": " + hints.library + " does not tell its release (--nccl names one)"
                          : hints.looked ? ": no libnccl.so.2 is found here (--nccl names a release)"
                                         : " (--nccl=2.30 takes those of another release)";
  const NcclVersion newest = NcclVersion::kNewest;
  return {newest, "the rules of NCCL " + ncclVersionName(newest) + ", the newest that are known" + why, "",
          false};
}

std::vector<RuleChange> ruleChanges(NcclVersion from, NcclVersion to) {
  std::vector<RuleChange> changes;
  for (const RuleLife& life : kTable) {
    if (holds(life, from) == holds(life, to)) continue;
    const bool begins = std::min(from, to).code < life.since;
    changes.push_back({NcclVersion{begins ? life.since : life.until}, life.text, begins});
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const RuleChange& a, const RuleChange& b) { return a.release < b.release; });
  return changes;
}

}  // namespace railwise::topo
