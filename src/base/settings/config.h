// The plugin's settings (config.def lists them). They are read once from the environment at init and passed
// on as `const Config&`. If a value does not parse or is out of range, a WARN names the variable and the
// accepted form, and the default stays. Immutable after load(), so any thread may read it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace railwise {

// Where the value of a setting comes from.
enum class SettingSource : uint8_t {
  kDefault,
  kEnvironment,
  kRejected,  // the environment has a value that is not accepted, so the default is used
};

struct Config {
#define RAILWISE_INT(field, env, default_value, min, max, text) int field = (default_value);
#define RAILWISE_STRING(field, env, default_value, form, text) std::string field = default_value;
#define RAILWISE_CHOICE(field, env, default_value, choices, text) std::string field = default_value;
#define RAILWISE_CHECKED(field, env, default_value, form, check, text) std::string field = default_value;
#include "base/settings/config.def"

  // Reads every setting from the environment. `sources`, if not null, receives one entry for each of
  // settings().
  static Config load(std::vector<SettingSource>* sources = nullptr);
};

// Which rank of how many this process is, as its launcher says: torchrun, mpirun, srun. -1: not known.
struct LaunchedRank {
  int rank = -1;
  int ranks = -1;
};
LaunchedRank launchedRank();

// The value of one of NCCL's variables that the topology model uses (topo/settings.h lists them). Null: the
// variable is not set.
const char* environmentVariable(const char* name);
// All variables of this process, for the pure functions of setting_names.h and setting_mistakes.h.
std::map<std::string, std::string> environment();

// Logs each misspelt name of Railwise and of NCCL's network settings at WARN, once per process.
void warnOfMisspeltSettings();

// One row of config.def, for `railwise config` and the documentation.
struct Setting {
  const char* env;
  std::string default_text;
  std::string accepted;  // "1 to 31", "AF_INET or AF_INET6", or the form of a string
  const char* text;
};
std::span<const Setting> settings();
// The value of settings()[index] in `config`, as text.
std::string settingValue(const Config& config, std::size_t index);

// What the setting `env` accepts, if it does not accept `value`; "" if it does, or if there is no such
// setting.
std::string acceptedInstead(std::string_view env, std::string_view value);

// A variable of NCCL that has no meaning for the plugin, and the reason.
struct UnusedSetting {
  const char* env;
  const char* text;
};
std::span<const UnusedSetting> unusedSettings();

}  // namespace railwise
