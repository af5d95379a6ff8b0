#include "base/settings/setting_names.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "base/settings/config.h"
#include "base/text/words.h"

namespace railwise {
namespace {

constexpr std::string_view kNccl = "NCCL_";
constexpr std::string_view kRccl = "RCCL_";
constexpr std::string_view kRailwise = "RAILWISE_";

// A name that somebody else gives a meaning: the whole name, or its begin.
struct ForeignName {
  std::string_view text;
  bool begin;
  const char* purpose;
};

constexpr const char* kImages = "set by container images: the version that is installed";
constexpr const char* kBuild = "read by build systems that look for NCCL";
constexpr const char* kOldTorch = "read by PyTorch before 2.2, where it is TORCH_NCCL_* now";
constexpr const char* kSharpPlugin = "read by the nccl-rdma-sharp plugin of HPC-X";
constexpr const char* kGoogle = "read by Google's network plugins";
constexpr const char* kContrib = "read by programs in NCCL's folder contrib";
constexpr const char* kJobs = "set by job scripts, NCCL does not read it";
constexpr const char* kOwnPrograms = "set by Railwise's own programs and tests";

constexpr ForeignName kForeignNames[] = {
    {"NCCL_VERSION", true, kImages},
    {"NCCL_PACKAGE", true, kImages},
    {"NCCL_MAJOR", true, kImages},
    {"NCCL_MINOR", true, kImages},
    {"NCCL_DIR", false, kBuild},
    {"NCCL_EXACT_KERNEL_NAMES", false, kBuild},
    {"NCCL_EXT_DIR", false, kBuild},
    {"NCCL_HOME", false, kBuild},
    {"NCCL_INCLUDE", true, kBuild},
    {"NCCL_INSTALL", true, kBuild},
    {"NCCL_LIB", false, kBuild},
    {"NCCL_LIBRAR", true, kBuild},
    {"NCCL_LIB_", true, kBuild},
    {"NCCL_PATH", false, kBuild},
    {"NCCL_PREFIX", false, kBuild},
    {"NCCL_ROOT", true, kBuild},
    {"NCCL_SO", false, kBuild},
    {"NCCL_SO_PATH", false, kBuild},
    {"NCCL_SOURCE", true, kBuild},
    {"NCCL_SRC", true, kBuild},
    {"NCCL_STATIC", false, kBuild},
    {"NCCL_SUFFIX", false, kBuild},
    {"NCCL_URL", false, kBuild},
    {"NCCL_USE_CMAKE", false, kBuild},
    {"RCCL_DIR", false, kBuild},
    {"RCCL_HOME", false, kBuild},
    {"RCCL_INCLUDE", true, kBuild},
    {"RCCL_LIB", true, kBuild},
    {"RCCL_PATH", false, kBuild},
    {"RCCL_ROOT", true, kBuild},
    {"RCCL_VERSION", true, kImages},
    {"NCCL_TESTS", true, kJobs},
    {"RCCL_TESTS", true, kJobs},
    {"NCCL_TEST_", true, kJobs},
    {"NCCL_SLURM", true, kJobs},
    {"NCCL_ASYNC_ERROR_HANDLING", false, kOldTorch},
    {"NCCL_BLOCKING_WAIT", false, kOldTorch},
    {"NCCL_DESYNC_DEBUG", false, kOldTorch},
    {"NCCL_ENABLE_TIMING", false, kOldTorch},
    {"NCCL_NONBLOCKING_TIMEOUT", false, kOldTorch},
    {"NCCL_TRACE_BUFFER_SIZE", false, kOldTorch},
    {"NCCL_USE_COMM_NONBLOCKING", false, kOldTorch},
    {"NCCL_IBEXT_DISABLE", false, kSharpPlugin},
    {"NCCL_PLUGIN_P2P", false, kSharpPlugin},
    {"NCCL_SHARP_", true, kSharpPlugin},
    {"NCCL_UCX_", true, kSharpPlugin},
    {"NCCL_FASTRAK_", true, kGoogle},
    {"NCCL_GPUDIRECTTCPX_", true, kGoogle},
    {"NCCL_SHIMNET_", true, kGoogle},
    {"NCCL_TUNER_CONFIG_PATH", false, kGoogle},
    {"NCCL_OFI_", true, "read by the plugin aws-ofi-nccl"},
    {"NCCL_ANP_", true, "read by AMD's network plugin"},
    {"NCCL_CHECKPOINT_", true, kContrib},
    {"NCCL_EP_", true, kContrib},
    {"NCCL_RESHARD_", true, kContrib},
    {"NCCL_INSPECTOR_", true, "read by NCCL's inspector, a profiler plugin"},
    {"NCCL_PROFILE_", true, "read by NCCL's example of a profiler plugin"},
    {"RAILWISE_FAKE_", true, kOwnPrograms},
    {"RAILWISE_LAB_", true, kOwnPrograms},
    {"RAILWISE_PERF_", true, kOwnPrograms},
    {"RAILWISE_TEST_", true, kOwnPrograms},
    {"RAILWISE_TOPOLOGIES", false, kOwnPrograms},
    {"RAILWISE_DIR", false, "names the folder of an installation"},
    {"RAILWISE_HOME", false, "names the folder of an installation"},
    {"RAILWISE_ROOT", false, "names the folder of an installation"},
    {"RAILWISE_VERSION", false, kImages},
};

constexpr NcclVariable kRows[] = {
#define NCCL_INT(variable, from, to, low, high) {variable, from, to, NcclVariable::Kind::kNumber, low, high},
#define NCCL_NUMBER(variable, from, to) {variable, from, to, NcclVariable::Kind::kNumber},
#define NCCL_WORDS(variable, from, to, list) \
  {.name = variable, .since = from, .until = to, .kind = NcclVariable::Kind::kWord, .words = list},
#define NCCL_EXACT_WORDS(variable, from, to, list) \
  {.name = variable, .since = from, .until = to, .kind = NcclVariable::Kind::kExactWord, .words = list},
#define NCCL_TEXT(variable, from, to) {variable, from, to},
#define NCCL_GONE(variable, to, successor) \
  {.name = variable, .until = to, .gone = true, .instead = successor},
#define RCCL_ONLY(variable) {.name = variable, .rccl_only = true},
#include "base/settings/nccl_variables.def"
};

// Sorted by the compiler: the plugin needs both tables in each process.
constexpr auto kNcclVariables = [] {
  auto rows = std::to_array(kRows);
  std::sort(rows.begin(), rows.end(),
            [](const NcclVariable& a, const NcclVariable& b) { return std::string_view(a.name) < b.name; });
  return rows;
}();

constexpr std::string_view kConfigNames[] = {
#define RAILWISE_INT(field, env, default_value, min, max, text) env,
#define RAILWISE_STRING(field, env, default_value, form, text) env,
#define RAILWISE_CHOICE(field, env, default_value, choices, text) env,
#define RAILWISE_CHECKED(field, env, default_value, form, check, text) env,
#define RAILWISE_UNUSED(env, text) env,
#include "base/settings/config.def"
};

// The names of all settings that somebody may set today; some are in both tables.
constexpr auto kSettingNames = [] {
  constexpr auto kGone =
      std::count_if(std::begin(kRows), std::end(kRows), [](const auto& row) { return row.gone; });
  std::array<std::string_view, std::size(kConfigNames) + std::size(kRows) - kGone> names;
  auto end = std::copy(std::begin(kConfigNames), std::end(kConfigNames), names.begin());
  for (const NcclVariable& row : kRows) {
    if (!row.gone) *end++ = row.name;
  }
  std::sort(names.begin(), names.end());
  return names;
}();

bool beginsLikeSetting(std::string_view upper) {
  return upper.starts_with(kNccl) || upper.starts_with(kRccl) || upper.starts_with(kRailwise);
}

std::string_view withoutPrefix(std::string_view name) {
  const auto underscore = name.find('_');
  return underscore == std::string_view::npos ? name : name.substr(underscore + 1);
}

std::string_view prefixOf(std::string_view name) {
  return name.substr(0, name.size() - withoutPrefix(name).size());
}

bool isKnown(std::string_view name) {
  return std::binary_search(kSettingNames.begin(), kSettingNames.end(), name);
}

// Two letters of difference are a slip of the hand; more are probably another name. Names of releases to come
// must not be called misspelt, and NCCL's long names share many words.
constexpr std::size_t kMostSlips = 2;
constexpr std::size_t kShortName = 6;  // in a name this short ("IB_HCA"), two letters are too many
// "SUBSYS" and "SUBSYSTEM": one name is the begin of the other, and the rest is not a word of its own.
constexpr std::size_t kMostEnding = 4;

bool extends(std::string_view longer, std::string_view shorter) {
  return longer.size() > shorter.size() && longer.size() - shorter.size() <= kMostEnding &&
         longer.starts_with(shorter) && longer.find('_', shorter.size()) == std::string_view::npos &&
         shorter.size() >= kShortName;
}

// How far `name` is from a known one; null: too far. Both without prefix.
std::optional<std::size_t> slips(std::string_view name, std::string_view known) {
  const std::size_t most = std::min(name.size(), known.size()) <= kShortName ? 1 : kMostSlips;
  const std::size_t longer = std::max(name.size(), known.size());
  const std::size_t difference = longer - std::min(name.size(), known.size());
  if (difference <= most) {
    const std::size_t distance = editDistance(name, known);
    if (distance <= most) return distance;
  }
  if (extends(name, known) || extends(known, name)) return kMostSlips + 1;
  return std::nullopt;
}

// Names of another family count only with the same rest: RAILWISE_IB_HCA is NCCL_IB_HCA. A rest of one word
// (NCCL_HOST) is too little for that.
bool sameInOtherFamily(std::string_view rest, std::string_view known) {
  return withoutPrefix(known) == rest &&
         (!known.starts_with(kRailwise) || rest.find('_') != std::string_view::npos);
}

// NCCL_GID_INDEX is NCCL_IB_GID_INDEX. One word is too little: NCCL_TIMEOUT may be meant for a program.
std::string withIb(std::string_view rest) {
  std::string known = std::string(kNccl) + "IB_" + std::string(rest);
  return (rest.find('_') != std::string_view::npos || rest == "HCA") && isKnown(known) ? known : "";
}

// The known name nearest to `upper`.
std::string nearestName(const std::string& upper) {
  const std::string_view rest = withoutPrefix(upper);
  std::string best = withIb(rest);
  if (!best.empty()) return best;
  std::size_t best_slips = kMostSlips + 2;
  for (const std::string_view known : kSettingNames) {
    const bool family = prefixOf(known) == prefixOf(upper);
    if (!family && !sameInOtherFamily(rest, known)) continue;
    const std::optional<std::size_t> count = slips(rest, withoutPrefix(known));
    if (!count || *count >= best_slips) continue;
    best = known;
    best_slips = *count;
  }
  return best;
}

// "NCLL_IB_HCA" and "RAILWIZE_FAILOVER": a wrong prefix before the exact rest of a known name. Other
// libraries of collectives (UCCL, MSCCL, HCCL) have the same rests; they do not begin with N.
std::string withMendedPrefix(const std::string& upper) {
  const auto underscore = upper.find('_');
  if (underscore == std::string::npos) return "";
  const std::string_view prefix = std::string_view(upper).substr(0, underscore);
  for (const std::string_view right : {kNccl, kRailwise}) {
    const std::size_t most = right == kNccl ? 1 : kMostSlips;
    if (prefix.empty() || prefix[0] != right[0]) continue;
    if (editDistance(prefix, right.substr(0, right.size() - 1)) > most) continue;
    std::string mended = std::string(right) + upper.substr(underscore + 1);
    if (isKnown(mended)) return mended;
  }
  return "";
}

}  // namespace

std::span<const NcclVariable> ncclVariables() { return kNcclVariables; }

const NcclVariable* findNcclVariable(std::string_view name) {
  const auto rows = ncclVariables();
  const auto found =
      std::lower_bound(rows.begin(), rows.end(), name,
                       [](const NcclVariable& row, std::string_view n) { return row.name < n; });
  return found != rows.end() && name == found->name ? &*found : nullptr;
}

bool isSettingName(std::string_view name) { return isKnown(name) || findNcclVariable(name) != nullptr; }

const char* purposeElsewhere(std::string_view name) {
  const auto found = std::find_if(
      std::begin(kForeignNames), std::end(kForeignNames),
      [&](const ForeignName& row) { return row.begin ? name.starts_with(row.text) : name == row.text; });
  return found != std::end(kForeignNames) ? found->purpose : nullptr;
}

std::vector<UnknownName> unknownNames(const Environment& environment) {
  std::vector<UnknownName> unknown;
  for (const auto& [name, value] : environment) {
    if (isSettingName(name) || purposeElsewhere(name) != nullptr) continue;
    const std::string upper = upperCase(name);
    if (!beginsLikeSetting(upper)) {
      if (std::string mended = withMendedPrefix(upper); !mended.empty())
        unknown.push_back({name, std::move(mended), false});
      continue;
    }
    UnknownName found = {name, isSettingName(upper) ? upper : nearestName(upper),
                         name.starts_with(kRailwise)};
    // Names in lower case are seldom meant for NCCL.
    if (upper == name || !found.nearest.empty()) unknown.push_back(std::move(found));
  }
  return unknown;
}

std::string textOf(const UnknownName& unknown) {
  const std::string text = unknown.name + " is not a setting of NCCL (2.13 to 2.32) or Railwise";
  if (!unknown.nearest.empty())
    return text + ": did you mean " + unknown.nearest + "? " + unknown.name + " has no effect";
  return text + (unknown.railwise ? " and has no effect; `railwise config` lists the settings"
                                  : ", and has no effect there");
}

std::vector<UnknownName> misspeltNetworkNames(const Environment& environment) {
  std::vector<UnknownName> unknown = unknownNames(environment);
  std::erase_if(unknown, [](const UnknownName& name) {
    const auto network = [&](std::string_view prefix) { return name.nearest.starts_with(prefix); };
    return !name.railwise && !network(kRailwise) && !network("NCCL_IB") && !network("NCCL_NET") &&
           !network("NCCL_SOCKET");
  });
  return unknown;
}

}  // namespace railwise
