#include "base/config.h"

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/log.h"

namespace railwise {
namespace {

void readInt(const char* env, int min, int max, int& value) {
  const char* text = std::getenv(env);
  if (text == nullptr || *text == '\0') return;
  char* end = nullptr;
  errno = 0;
  const long parsed = std::strtol(text, &end, 0);
  if (errno != 0 || *end != '\0' || parsed < min || parsed > max) {
    RAILWISE_WARN("%s=%s is not a number from %d to %d: using %d", env, text, min, max, value);
    return;
  }
  value = static_cast<int>(parsed);
  RAILWISE_INFO(log::kEnv, "%s set to %d", env, value);
}

void readString(const char* env, std::string& value) {
  const char* text = std::getenv(env);
  if (text == nullptr || *text == '\0') return;
  value = text;
  RAILWISE_INFO(log::kEnv, "%s set to %s", env, text);
}

}  // namespace

Config Config::load() {
  Config config;
#define RAILWISE_INT(field, env, default_value, min, max, text) readInt(env, min, max, config.field);
#define RAILWISE_STRING(field, env, default_value, form, text) readString(env, config.field);
#include "base/config.def"
#undef RAILWISE_INT
#undef RAILWISE_STRING
  if (!config.socket_family.empty() && config.socket_family != "AF_INET" &&
      config.socket_family != "AF_INET6") {
    RAILWISE_WARN("NCCL_SOCKET_FAMILY=%s is neither AF_INET nor AF_INET6: using both",
                  config.socket_family.c_str());
    config.socket_family.clear();
  }
  return config;
}

const char* environmentVariable(const char* name) { return std::getenv(name); }

std::span<const Setting> settings() {
  static const std::vector<Setting> rows = {
#define RAILWISE_INT(field, env, default_value, min, max, text) \
  {env, std::to_string(default_value), std::to_string(min) + " to " + std::to_string(max), text},
#define RAILWISE_STRING(field, env, default_value, form, text) {env, default_value, form, text},
#include "base/config.def"
#undef RAILWISE_INT
#undef RAILWISE_STRING
  };
  return rows;
}

std::string settingValue(const Config& config, std::size_t index) {
  const std::vector<std::string> values = {
#define RAILWISE_INT(field, env, default_value, min, max, text) std::to_string(config.field),
#define RAILWISE_STRING(field, env, default_value, form, text) config.field,
#include "base/config.def"
#undef RAILWISE_INT
#undef RAILWISE_STRING
  };
  return index < values.size() ? values[index] : std::string();
}

}  // namespace railwise
