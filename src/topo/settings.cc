#include "topo/settings.h"

#include <strings.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/text/name_selection.h"
#include "base/text/words.h"
#include "railwise/topology.h"

namespace railwise::topo {
namespace {

// The old numbers for NCCL_P2P_LEVEL and NCCL_NET_GDR_LEVEL (levelsOldToNew in NCCL's paths.cc).
constexpr std::array<PathType, 6> kOldLevels = {PathType::kLoc, PathType::kPix, PathType::kPxb,
                                                PathType::kPhb, PathType::kSys, PathType::kSys};

class Reader {
 public:
  Reader(const Lookup& lookup, Settings& settings) : lookup_(lookup), settings_(settings) {}

  const char* text(const char* name) {
    const char* value = lookup_(name);
    if (value != nullptr) settings_.from_environment.push_back(std::string(name) + "=" + value);
    return value;
  }

  // As NCCL_PARAM: strtoll with base 0. An empty value counts as not set. A text that is not a number reads
  // as 0.
  void number(const char* name, int& field) {
    const char* value = text(name);
    if (value == nullptr || *value == 0) return;
    errno = 0;
    char* end = nullptr;
    const long long read = std::strtoll(value, &end, 0);
    if (errno != 0) return warn(name, value, "is out of range: NCCL keeps its default");
    if (*end != 0) warn(name, value, "is not a number: NCCL reads it as " + std::to_string(read));
    field = static_cast<int>(read);
  }

  void numbers(std::span<const NumberSetting> table) {
    for (const NumberSetting& setting : table)
      if (!setting.since || settings_.nccl.has(*setting.since))
        number(setting.variable, settings_.*setting.field);
  }

  // As ncclGetLevel: the exact names LOC to SYS; otherwise the leading digit is an old number.
  void level(const char* name, int& field) {
    const char* value = text(name);
    if (value == nullptr) return;
    for (int i = 0; i <= static_cast<int>(PathType::kSys); ++i) {
      if (std::strcmp(value, pathTypeName(static_cast<PathType>(i))) != 0) continue;
      field = i;
      return;
    }
    if (*value < '0' || *value > '9')
      return warn(name, value, "is no level: NCCL ignores it; use LOC, NVL, PIX, PXB, P2C, PXN, PHB or SYS");
    const long old = std::min(std::strtol(value, nullptr, 0), static_cast<long>(kOldLevels.size()) - 1);
    field = static_cast<int>(kOldLevels[static_cast<std::size_t>(std::max(old, 0L))]);
  }

  void disable(const char* name, int& field) {
    const char* value = text(name);
    if (value != nullptr && std::strtol(value, nullptr, 0) == 1) field = static_cast<int>(PathType::kLoc);
  }

  // GPUs of other NVLink cliques are not in the model of a host; what P2P with them obeys is only said.
  void crossClique(bool obeys_level) {
    int cross_clique = 0;
    number("NCCL_MNNVL_CROSS_CLIQUE", cross_clique);
    if (cross_clique != 1 || settings_.p2p_level != static_cast<int>(PathType::kLoc)) return;
    warn("NCCL_MNNVL_CROSS_CLIQUE", "1",
         obeys_level
             ? "has no effect: NCCL since 2.31 obeys NCCL_P2P_LEVEL and NCCL_P2P_DISABLE there too"
             : "allows P2P to other NVLink cliques: NCCL before 2.31 does not ask NCCL_P2P_LEVEL there");
  }

  void netDevsPolicy() {
    const char* value = text("NCCL_NETDEVS_POLICY");
    if (value == nullptr || strcasecmp(value, "AUTO") == 0) return;
    if (strcasecmp(value, "ALL") == 0) {
      settings_.netdevs_policy = Settings::NetDevsPolicy::kAll;
    } else if (strncasecmp(value, "MAX:", 4) == 0 && std::atoi(value + 4) > 0) {
      settings_.netdevs_policy = Settings::NetDevsPolicy::kMax;
      settings_.netdevs_max = std::atoi(value + 4);
    } else {
      warn("NCCL_NETDEVS_POLICY", value, "is unknown: NCCL uses AUTO; use AUTO, ALL or MAX:N");
    }
  }

  void mergeLevel() {
    const char* value = text("NCCL_NET_MERGE_LEVEL");
    if (value == nullptr) return;
    struct Name {
      const char* name;
      PathType level;
    };
    static constexpr std::array<Name, 8> kNames = {{{"LOC", PathType::kLoc},
                                                    {"PORT", PathType::kNvl},
                                                    {"PIX", PathType::kPix},
                                                    {"PXB", PathType::kPxb},
                                                    {"P2C", PathType::kP2c},
                                                    {"PXN", PathType::kPxn},
                                                    {"PHB", PathType::kPhb},
                                                    {"SYS", PathType::kSys}}};
    for (const Name& entry : kNames) {
      if (std::strncmp(value, entry.name, std::strlen(entry.name)) != 0) continue;
      settings_.net_merge_level = entry.level;
      return;
    }
    settings_.net_merge_level = PathType::kLoc;
    warn("NCCL_NET_MERGE_LEVEL", value, "is unknown: NCCL takes it as LOC, no fusion");
  }

  void mergePolicy() {
    const char* value = text("NCCL_NET_MERGE_POLICY");
    if (value == nullptr || strcasecmp(value, "ALL") == 0) return;
    settings_.net_merge_rail = strcasecmp(value, "RAIL") == 0;
    if (!settings_.net_merge_rail)
      warn("NCCL_NET_MERGE_POLICY", value, "is unknown: NCCL uses ALL; use ALL or RAIL");
  }

 private:
  void warn(const char* name, const char* value, const std::string& what) {
    settings_.warnings.push_back(std::string(name) + "='" + value + "' " + what);
  }

  const Lookup& lookup_;
  Settings& settings_;
};

}  // namespace

const char* pathTypeName(PathType type) {
  return topology::pathTypeName(static_cast<topology::PathType>(type));
}

const char* pathTypeMeaning(PathType type) {
#define RAILWISE_MEANING(value, name, since, meaning) meaning,
  constexpr const char* kMeanings[] = {RAILWISE_PATH_TYPES(RAILWISE_MEANING)};
#undef RAILWISE_MEANING
  return kMeanings[static_cast<std::size_t>(type)];
}

Settings settingsFromEnvironment(const Lookup& lookup, NcclVersion version) {
  Settings settings;
  settings.nccl = version;
  if (!version.has(NcclRule::kGpuDirectC2c)) settings.net_gdr_c2c = 0;
  if (!version.has(NcclRule::kRelayOverC2c)) settings.pxn_c2c = 0;
  Reader read(lookup, settings);
  read.level("NCCL_P2P_LEVEL", settings.p2p_level);
  read.disable("NCCL_P2P_DISABLE", settings.p2p_level);  // this variable has precedence over NCCL_P2P_LEVEL
  read.level("NCCL_NET_GDR_LEVEL", settings.net_gdr_level);
  read.numbers(kNumberSettings);
  if (version.has(NcclRule::kDeviceNodes)) read.crossClique(version.has(NcclRule::kCliquesObeyLevel));
  if (version.has(NcclRule::kNetDevsPolicy)) read.netDevsPolicy();
  read.mergeLevel();
  read.mergePolicy();
  if (const char* groups = read.text("NCCL_NET_FORCE_MERGE")) settings.net_force_merge = groups;
  read.numbers(kNicSettings);
  if (const char* ports = read.text("NCCL_IB_HCA")) settings.ib_hca = ports;
  return settings;
}

bool Settings::usesPort(std::string_view device, int port) const {
  const auto selection = parsePortSelection(ib_hca);
  return !selection || choosePort(*selection, device, port).selected;
}

std::string Settings::leftOutText(const std::string& nics, const char* how) const {
  return nics + ": left out" + how + " by NCCL_IB_HCA or --hca (" + ib_hca + ")";
}

std::string Settings::noDeviceText(const std::vector<std::string>& devices) const {
  constexpr std::size_t kMostNamed = 16;
  const auto selection = parsePortSelection(ib_hca);
  if (!selection || devices.empty()) return "";
  const std::vector<std::string> names = namesOfNoDevice(*selection, devices);
  if (names.empty()) return "";
  return joined(names) + ": no device here has such a name, which NCCL_IB_HCA or --hca (" + ib_hca +
         ") gives; the devices are " + firstItems(devices, kMostNamed);
}

}  // namespace railwise::topo
