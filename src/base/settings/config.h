// The plugin's settings (config.def lists them). They are read once from the environment at init and passed
// on as `const Config&`. If a value does not parse or is out of range, a WARN names the variable and the
// accepted form, and the default stays. Immutable after load(), so any thread may read it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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

// Is it a value of RAILWISE_DEVICE: verbs, software or software:CONFIG?
bool isDeviceKind(std::string_view value);

// What the setting `env` accepts, if it does not accept `value`; "" if it does, or if there is no such
// setting.
std::string acceptedInstead(std::string_view env, std::string_view value);

// A variable of NCCL that has no meaning for the plugin, and the reason.
struct UnusedSetting {
  const char* env;
  const char* text;
};
std::span<const UnusedSetting> unusedSettings();

// RAILWISE_STRICT: what makes init or connect fail instead of running slower than the machine can.
// Thread-safe (plain values).

struct StrictMode {
  bool device = false;    // no RDMA device that can be used
  bool gdr = false;       // a NIC that cannot register GPU memory, on a machine with GPUs
  bool speed = false;     // a port or a PCIe link below its speed; ends of different speed
  bool topology = false;  // NCCL does not see the PCIe tree
  bool version = false;   // peers that differ

  bool any() const { return device || gdr || speed || topology || version; }
  bool operator==(const StrictMode&) const = default;
};

// "" and "0": nothing; "1": everything; otherwise words with commas between them. Every list includes
// `device`, because a job without RDMA is the slowest of all. Null: another text.
std::optional<StrictMode> parseStrictMode(std::string_view text);

// NCCL's configuration files, as NCCL reads them into the environment before it loads plugins. Pure.

struct ConfVariable {
  std::string name;
  std::string value;
  std::string file;
  int line = 0;

  std::string where() const { return file + ":" + std::to_string(line); }
};

// The variables of the files, in the order of their precedence; a variable that is already set stays. Lines
// are NAME=value, used unchanged; '#' in the first column begins a comment. First `named` ($NCCL_CONF_FILE),
// or .nccl.conf in `home` if it is ""; then /etc/nccl.conf; of RCCL (`rccl`), rccl.conf; it heeds
// NCCL_CONF_FILE since 2.27. `read`: the text of a file; "": there is none. Source: NCCL 2.30.7 and
// RCCL 2.28.3, misc/param.cc (initEnv, setEnvFile).
std::vector<ConfVariable> ncclConfVariables(const std::string& named, const std::string& home, bool rccl,
                                            const std::function<std::string(const std::string& path)>& read);

}  // namespace railwise
