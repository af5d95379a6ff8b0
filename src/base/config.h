// The plugin's settings, read once from the environment at init and passed on as `const Config&` (config.def
// lists them). A value that does not parse or is out of range is reported at WARN with the variable and the
// accepted form, and the default stays. Immutable after load(), so any thread may read it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace railwise {

struct Config {
#define RAILWISE_INT(field, env, default_value, min, max, text) int field = (default_value);
#define RAILWISE_STRING(field, env, default_value, form, text) std::string field = default_value;
#include "base/config.def"
#undef RAILWISE_INT
#undef RAILWISE_STRING

  // Reads every setting from the environment.
  static Config load();
};

// A variable of NCCL's that the model of the machine honours (topo/settings.h lists them); null: not set.
const char* environmentVariable(const char* name);

// One row of config.def, for `railwise config` and the documentation.
struct Setting {
  const char* env;
  std::string default_text;
  std::string accepted;  // "1 to 31" or the form of a string
  const char* text;
};
std::span<const Setting> settings();
// The value in force of settings()[i], as text.
std::string settingValue(const Config& config, std::size_t index);

}  // namespace railwise
