// railwise config: the plugin's settings, with the values that this environment gives them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "base/config.h"
#include "base/json.h"
#include "cli/options/command_line.h"
#include "cli/options/message.h"
#include "cli/options/options.h"
#include "cli/plugin/commands.h"

namespace railwise::cli {
namespace {

// NCCL's configuration files. NCCL reads them into the environment before it loads plugins: first
// $NCCL_CONF_FILE, or ~/.nccl.conf if that is not set; then /etc/nccl.conf. They have lines NAME=value, which
// are used unchanged; '#' in the first column begins a comment; a variable that is already set stays. Source:
// NCCL 2.30.7, misc/param.cc (initEnv, setEnvFile).
struct ConfVariable {
  std::string name;
  std::string file;
  int line;
};

void applyFile(const std::string& path, std::vector<ConfVariable>& applied) {
  std::ifstream file(path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    const auto equals = line.find('=');
    if (line.starts_with('#') || equals == std::string::npos || equals == 0) continue;
    const std::string name = line.substr(0, equals);
    if (std::getenv(name.c_str()) != nullptr) continue;
    if (setenv(name.c_str(), line.c_str() + equals + 1, 0) == 0) applied.push_back({name, path, number});
  }
}

// Does the same for this process, and returns the variables that the files have set. Call it on the main
// thread before other threads start. A missing file is not an error.
std::vector<ConfVariable> applyNcclConf() {
  std::vector<ConfVariable> applied;
  const char* named = std::getenv("NCCL_CONF_FILE");
  const char* home = std::getenv("HOME");
  if (named != nullptr && *named != '\0') {
    applyFile(named, applied);
  } else if (home != nullptr) {
    applyFile(std::string(home) + "/.nccl.conf", applied);
  }
  applyFile("/etc/nccl.conf", applied);
  return applied;
}

struct ConfigOptions {
  bool markdown = false;
  bool json = false;
};

std::vector<Option> optionTable(ConfigOptions& fields) {
  return {flagOption(0, "markdown", &fields.markdown, "print the table of the documentation, without values"),
          flagOption(0, "json", &fields.json, "print JSON")};
}

constexpr const char* kConfigHelp =
    "usage: railwise config [options]\n\n"
    "Lists the environment variables that the plugin reads, with the value in force, the default, and where "
    "the value\ncomes from: the environment, one of NCCL's configuration files ($NCCL_CONF_FILE or "
    "~/.nccl.conf, and\n/etc/nccl.conf), or the default.\n\n";
constexpr const char* kConfigExitHelp = "\nExit status: 0 all right, 2 a mistake on the command line.\n";

std::string orEmpty(const std::string& text, const char* empty) { return text.empty() ? empty : text; }

// The settings that result from this environment and from NCCL's files.
struct Values {
  std::vector<ConfVariable> files = applyNcclConf();
  std::vector<SettingSource> sources;
  Config config = Config::load(&sources);

  const ConfVariable* fileOf(const char* env) const {
    const auto found =
        std::find_if(files.begin(), files.end(), [&](const ConfVariable& v) { return v.name == env; });
    return found != files.end() ? &*found : nullptr;
  }
  // Where the variable was set.
  std::string setter(const char* env) const {
    const ConfVariable* file = fileOf(env);
    return file != nullptr ? file->file + ":" + std::to_string(file->line) : "environment";
  }
  std::string source(std::size_t index, const char* env) const {
    if (sources[index] == SettingSource::kDefault) return "default";
    if (sources[index] == SettingSource::kEnvironment) return setter(env);
    return "default: " + setter(env) + " has a value that is not accepted";
  }
};

// Calls `act` for each of NCCL's variables that is set but has no meaning for the plugin.
template <typename Do>
void forUnusedThatAreSet(const Do& act) {
  for (const UnusedSetting& row : unusedSettings()) {
    const char* value = std::getenv(row.env);
    if (value != nullptr && *value != '\0') act(row, value);
  }
}

void printValues(const Values& values) {
  const auto rows = settings();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::printf("%s=%s (%s)\n    %s\n    accepted: %s; default: %s\n", rows[i].env,
                settingValue(values.config, i).c_str(), values.source(i, rows[i].env).c_str(), rows[i].text,
                rows[i].accepted.c_str(), orEmpty(rows[i].default_text, "empty").c_str());
  }
  forUnusedThatAreSet([&](const UnusedSetting& row, const char* value) {
    std::printf("%s=%s (%s)\n    has no meaning here: %s\n", row.env, value, values.setter(row.env).c_str(),
                row.text);
  });
}

void printMarkdown() {
  std::puts("| Variable | Default | Accepted | Meaning |\n|---|---|---|---|");
  for (const Setting& row : settings())
    std::printf("| `%s` | %s | %s | %s |\n", row.env, orEmpty(row.default_text, "empty").c_str(),
                row.accepted.c_str(), row.text);
  std::puts("\n## NCCL's variables without a meaning here\n\n| Variable | Why |\n|---|---|");
  for (const UnusedSetting& row : unusedSettings()) std::printf("| `%s` | %s |\n", row.env, row.text);
}

void printJson(const Values& values) {
  static constexpr const char* kSources[] = {"default", "environment", "rejected"};
  JsonWriter json;
  json.beginArray();
  const auto rows = settings();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    json.beginObject();
    json.key("name").value(rows[i].env);
    json.key("value").value(settingValue(values.config, i));
    json.key("default").value(rows[i].default_text);
    json.key("source").value(kSources[static_cast<std::size_t>(values.sources[i])]);
    if (const ConfVariable* file = values.fileOf(rows[i].env); file != nullptr) {
      json.key("file").value(file->file);
      json.key("line").value(file->line);
    }
    json.key("accepted").value(rows[i].accepted);
    json.key("text").value(rows[i].text);
    json.endObject();
  }
  forUnusedThatAreSet([&](const UnusedSetting& row, const char* value) {
    json.beginObject();
    json.key("name").value(row.env);
    json.key("value").value(value);
    json.key("source").value("unused");
    json.key("text").value(row.text);
    json.endObject();
  });
  json.endArray();
  std::fputs(json.text().c_str(), stdout);
}

}  // namespace

int configCommand(Args args) {
  ConfigOptions options;
  int status = kExitOk;
  if (!parseOrLeave("config", optionTable(options), args, kConfigHelp, 0, &status, kConfigExitHelp))
    return status;
  if (options.markdown) {
    printMarkdown();
    return kExitOk;
  }
  const Values values;
  warnOfMisspeltSettings();
  if (options.json) {
    printJson(values);
  } else {
    printValues(values);
  }
  return kExitOk;
}

}  // namespace railwise::cli
