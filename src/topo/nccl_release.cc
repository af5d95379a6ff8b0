#include "topo/nccl_release.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace railwise::topo {
namespace {

constexpr int kAlways = 0;       // the rule is older than 2.13
constexpr int kNever = 1 << 30;  // no release has ended the rule

struct RuleLife {
  int since;  // the first release with the rule
  int until;  // the first release without it
  const char* text;
};

constexpr RuleLife kTable[] = {
#define RAILWISE_NCCL_RULE(rule, since, until, text) {since, until, text},
#include "topo/nccl_rules.def"
};

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
