#include "base/settings/config.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "base/interfaces.h"
#include "base/log.h"
#include "base/settings/setting_names.h"
#include "base/text/name_selection.h"
#include "base/text/words.h"

namespace railwise {
namespace {

const char* variable(const char* env) {
  const char* text = std::getenv(env);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

std::optional<int> parseNumber(const char* text, int min, int max) {
  char* end = nullptr;
  errno = 0;
  const long parsed = std::strtol(text, &end, 0);
  if (errno != 0 || *end != '\0' || parsed < min || parsed > max) return std::nullopt;
  return static_cast<int>(parsed);
}

std::string rangeText(int min, int max) { return std::to_string(min) + " to " + std::to_string(max); }

SettingSource readInt(const char* env, int min, int max, int& value) {
  const char* text = variable(env);
  if (text == nullptr) return SettingSource::kDefault;
  const std::optional<int> parsed = parseNumber(text, min, max);
  if (!parsed) {
    RAILWISE_WARN("%s=%s is not a number from %d to %d: using %d", env, text, min, max, value);
    return SettingSource::kRejected;
  }
  value = *parsed;
  RAILWISE_INFO(log::kEnv, "%s set to %d", env, value);
  return SettingSource::kEnvironment;
}

SettingSource readString(const char* env, std::string& value) {
  const char* text = variable(env);
  if (text == nullptr) return SettingSource::kDefault;
  value = text;
  RAILWISE_INFO(log::kEnv, "%s set to %s", env, text);
  return SettingSource::kEnvironment;
}

// `form`: the accepted form, for the message. `accepts`: is the text of the accepted form?
template <typename Accepts>
SettingSource readChecked(const char* env, const std::string& form, const Accepts& accepts,
                          std::string& value) {
  const char* text = variable(env);
  if (text != nullptr && !accepts(text)) {
    const bool refused = std::string_view(env) == "RAILWISE_STRICT";  // by strictMode()
    const char* const consequence = refused         ? "init will fail"
                                    : value.empty() ? "as if it were not set"
                                                    : "using ";
    RAILWISE_WARN("%s=%s is not %s: %s%s", env, text, form.c_str(), consequence, value.c_str());
    return SettingSource::kRejected;
  }
  return readString(env, value);
}

// Turns "a,b,c" into "a, b or c".
std::string choiceText(std::string_view choices) { return listText(splitAt(choices, ','), " or "); }

// Checks whether the text of a setting has the accepted form. The rows of config.def name these functions.

bool hexadecimal(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

// Is `text` one of the words in `choices`, which are separated by commas?
bool isOneOf(std::string_view text, std::string_view choices) {
  const std::vector<std::string> words = splitAt(choices, ',');
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Is `text` a PCI address such as "0000:3b:00.0", or "3b:00.0" without the domain? Hexadecimal digits may be
// of either case.
bool isPciAddress(std::string_view text) {
  if (const auto colon = text.find(':'); colon != text.rfind(':')) {
    // NCCL and CUDA write domains of four or eight digits.
    if (!hexadecimal(text.substr(0, colon), 4) && !hexadecimal(text.substr(0, colon), 8)) return false;
    text.remove_prefix(colon + 1);
  }
  return text.size() == 7 && hexadecimal(text.substr(0, 2), 2) && text[2] == ':' &&
         hexadecimal(text.substr(3, 2), 2) && text[5] == '.' && text[6] >= '0' && text[6] <= '7';
}

// Is `text` of the form "10.1.0.0/16" or "2001:db8::/32"?
bool isAddressRange(std::string_view text) { return parseAddressRange(text).has_value(); }

// NCCL_IB_HCA's grammar (name_selection.h): every field after a name is empty, -1 or a number from 0 to
// 32767.
bool isHcaSelection(std::string_view text) { return parsePortSelection(text).has_value(); }

bool isStrictMode(std::string_view text) { return parseStrictMode(text).has_value(); }

struct Word {
  std::string_view word;
  bool StrictMode::*field;
};

constexpr Word kWords[] = {
    {"device", &StrictMode::device},     {"gdr", &StrictMode::gdr},         {"speed", &StrictMode::speed},
    {"topology", &StrictMode::topology}, {"version", &StrictMode::version},
};

}  // namespace

Config Config::load(std::vector<SettingSource>* sources) {
  Config config;
  const std::vector<SettingSource> found = {
#define RAILWISE_INT(field, env, default_value, min, max, text) readInt(env, min, max, config.field),
#define RAILWISE_STRING(field, env, default_value, form, text) readString(env, config.field),
#define RAILWISE_CHOICE(field, env, default_value, choices, text)                               \
  readChecked(                                                                                  \
      env, choiceText(choices), [](std::string_view value) { return isOneOf(value, choices); }, \
      config.field),
#define RAILWISE_CHECKED(field, env, default_value, form, check, text) \
  readChecked(env, form, check, config.field),
#include "base/settings/config.def"
  };
  if (sources != nullptr) *sources = found;
  // Only NCCL_IB_* variables are reported: a user who sets one expects net_ib's behaviour. The other unused
  // variables concern NCCL itself.
  for (const UnusedSetting& unused : unusedSettings()) {
    if (std::string_view(unused.env).starts_with("NCCL_IB_") && variable(unused.env) != nullptr)
      RAILWISE_INFO(log::kEnv, "%s is set but has no meaning here: %s", unused.env, unused.text);
  }
  return config;
}

const char* environmentVariable(const char* name) { return std::getenv(name); }

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

void warnOfMisspeltSettings() {
  static std::atomic_flag said;
  if (said.test_and_set()) return;
  for (const UnknownName& unknown : misspeltNetworkNames(environment()))
    RAILWISE_WARN("%s", textOf(unknown).c_str());
}

bool isDeviceKind(std::string_view value) {
  return value == "verbs" || value == "software" || value.starts_with("software:");
}

std::string acceptedInstead(std::string_view env, std::string_view value) {
  if (value.empty()) return "";
  const std::string text(value);
#define RAILWISE_INT(field, name, default_value, min, max, description) \
  if (env == name && !parseNumber(text.c_str(), min, max)) return rangeText(min, max);
#define RAILWISE_CHOICE(field, name, default_value, choices, description) \
  if (env == name && !isOneOf(value, choices)) return choiceText(choices);
#define RAILWISE_CHECKED(field, name, default_value, form, check, description) \
  if (env == name && !check(value)) return form;
#include "base/settings/config.def"
  // Refused by verbs::load(), not by Config::load(): a device that was not meant is no device to go on with.
  if (env == "RAILWISE_DEVICE" && !isDeviceKind(value)) return "verbs, software or software:CONFIG";
  return "";
}

std::span<const Setting> settings() {
  static const std::vector<Setting> rows = {
#define RAILWISE_INT(field, env, default_value, min, max, text) \
  {env, std::to_string(default_value), rangeText(min, max), text},
#define RAILWISE_STRING(field, env, default_value, form, text) {env, default_value, form, text},
#define RAILWISE_CHOICE(field, env, default_value, choices, text) \
  {env, default_value, choiceText(choices), text},
#define RAILWISE_CHECKED(field, env, default_value, form, check, text) {env, default_value, form, text},
#include "base/settings/config.def"
  };
  return rows;
}

std::string settingValue(const Config& config, std::size_t index) {
  const std::vector<std::string> values = {
#define RAILWISE_INT(field, env, default_value, min, max, text) std::to_string(config.field),
#define RAILWISE_STRING(field, env, default_value, form, text) config.field,
#define RAILWISE_CHOICE(field, env, default_value, choices, text) config.field,
#define RAILWISE_CHECKED(field, env, default_value, form, check, text) config.field,
#include "base/settings/config.def"
  };
  return index < values.size() ? values[index] : std::string();
}

std::span<const UnusedSetting> unusedSettings() {
  static const std::vector<UnusedSetting> rows = {
#define RAILWISE_UNUSED(env, text) {env, text},
#include "base/settings/config.def"
  };
  return rows;
}

LaunchedRank launchedRank() {
  constexpr const char* kVariables[][2] = {{"RAILWISE_PERF_RANK", "RAILWISE_PERF_SIZE"},
                                           {"RANK", "WORLD_SIZE"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                           {"SLURM_PROCID", "SLURM_NTASKS"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}};
  constexpr int kMost = 1 << 24;
  for (const auto& [rank_name, ranks_name] : kVariables) {
    const char* const rank = variable(rank_name);
    const char* const ranks = variable(ranks_name);
    if (rank == nullptr || ranks == nullptr) continue;
    const std::optional<int> number = parseNumber(rank, 0, kMost);
    const std::optional<int> count = parseNumber(ranks, 1, kMost);
    if (number && count && *number < *count) return {*number, *count};
  }
  return {};
}

std::optional<StrictMode> parseStrictMode(std::string_view text) {
  StrictMode mode;
  if (text.empty() || text == "0") return mode;
  if (text == "1") return StrictMode{true, true, true, true, true};
  for (const std::string& word : splitAt(text, ',')) {
    const auto found =
        std::find_if(std::begin(kWords), std::end(kWords), [&](const Word& row) { return row.word == word; });
    if (found == std::end(kWords)) return std::nullopt;
    mode.*(found->field) = true;
  }
  mode.device = true;
  return mode;
}

std::vector<ConfVariable> ncclConfVariables(const std::string& named, const std::string& home, bool rccl,
                                            const std::function<std::string(const std::string& path)>& read) {
  std::vector<ConfVariable> variables;
  const std::string name = rccl ? "rccl.conf" : "nccl.conf";
  const std::string own = !named.empty() ? named : home.empty() ? "" : home + "/." + name;
  for (const std::string& path : {own, "/etc/" + name}) {
    if (path.empty()) continue;
    int number = 0;
    for (const std::string& line : linesOf(read(path))) {
      ++number;
      const auto equals = line.find('=');
      if (line.starts_with('#') || equals == std::string::npos || equals == 0) continue;
      variables.push_back({line.substr(0, equals), line.substr(equals + 1), path, number});
    }
  }
  return variables;
}

}  // namespace railwise
