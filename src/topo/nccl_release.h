// The releases of NCCL, and the rules in which they differ. The list in nccl_rules.def alone says with which
// release a rule begins or ends, and what it does, in words; the model asks `release.has(NcclRule::...)`.
// Plain values; thread-safe.
#pragma once

#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace railwise::topo {

// What some releases do and others do not.
enum class NcclRule : unsigned char {
#define RAILWISE_NCCL_RULE(rule, since, until, text) rule,
#include "topo/nccl_rules.def"
};

// A release, by the number that NCCL gives it (NCCL_VERSION_CODE): 2.30.7 is 23007.
struct NcclVersion {
  int code = 0;

  static const NcclVersion k2_28;    // 2.28.9
  static const NcclVersion k2_30;    // 2.30.7
  static const NcclVersion k2_31;    // 2.31.2
  static const NcclVersion kNewest;  // the newest release with rules that are known

  auto operator<=>(const NcclVersion&) const = default;
  bool has(NcclRule rule) const;
};
inline constexpr NcclVersion NcclVersion::k2_28{22809};
inline constexpr NcclVersion NcclVersion::k2_30{23007};
inline constexpr NcclVersion NcclVersion::k2_31{23102};
inline constexpr NcclVersion NcclVersion::kNewest = NcclVersion::k2_31;

std::vector<NcclVersion> knownNcclReleases();      // those with rules that are known, the oldest first
std::string ncclVersionName(NcclVersion version);  // "2.30.7"
// Reads "2.30.7", also with what packages append: "2.30.7-1", "2.30.7+cuda13.0". Nothing: it is no release.
std::optional<NcclVersion> parseNcclVersion(std::string_view text);

// The rules that the model uses for a release.
struct NcclChoice {
  NcclVersion rules = NcclVersion::kNewest;
  // Where they are not the release's own rules, or not all of them: why, in words for people. "": they are.
  std::string doubt;
  bool newer = false;  // the release is newer than kNewest
};
NcclChoice rulesFor(NcclVersion release);
// Reads a release as people write it: "2.30.7", or "2.30" for the newest release of 2.30. Nothing: it is no
// release from 2.13 to 2.32.
std::optional<NcclChoice> rulesFor(std::string_view text);

// What tells which release applies.
struct ReleaseHints {
  std::optional<NcclChoice> asked;        // what the user says: an option
  std::optional<NcclVersion> in_log;      // the log of the job
  std::optional<NcclVersion> in_process;  // the NCCL that this process has loaded
  // The libnccl that programs load on the machine. "": none is found.
  std::string library;
  std::string library_release;  // "2.30.7"; "": the library does not tell
  bool looked = false;          // somebody has looked for a library: the machine is this computer
};

// The rules that apply, and why.
struct RulesInUse {
  NcclVersion release;
  std::string note;     // for people: "the rules of NCCL 2.30.7", and why these
  std::string warning;  // "": there is none
  bool asked = false;   // the user has named the release
};
// The one place that decides: what the user says, else the log, else the NCCL of this process, else the
// installed one, else the newest release with rules that are known.
RulesInUse chooseRules(const ReleaseHints& hints);

// What changes from one release to another (in either direction), in the order of the releases.
struct RuleChange {
  NcclVersion release;  // the release that has changed it
  std::string text;     // the rule
  bool begins = true;   // false: the release ends the rule
};
std::vector<RuleChange> ruleChanges(NcclVersion from, NcclVersion to);

}  // namespace railwise::topo
