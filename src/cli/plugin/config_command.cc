// railwise config: the plugin's settings, with the values that this environment gives them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/settings/config.h"
#include "base/settings/setting_mistakes.h"
#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/options/nccl_environment.h"
#include "cli/options/options.h"
#include "tuner/tuner.h"

namespace railwise::cli {
namespace {

struct ConfigOptions {
  bool changed = false;
  bool brief = false;
  bool markdown = false;
  bool json = false;
};

std::vector<Option> optionTable(ConfigOptions& fields) {
  return {flagOption('c', "changed", &fields.changed, "only settings that do not have their default"),
          flagOption('b', "brief", &fields.brief, "a setting is one line"),
          flagOption(0, "markdown", &fields.markdown, "print the table of the documentation, without values"),
          jsonOption(&fields.json)};
}

constexpr const char* kConfigHelp =
    "usage: railwise config [TEXT] [options]\n\n"
    "Lists the environment variables that the plugin reads, with the value in force, the default, and where "
    "the value\ncomes from: the environment, one of NCCL's configuration files ($NCCL_CONF_FILE or "
    "~/.nccl.conf, and\n/etc/nccl.conf; with AMD's GPUs RCCL's ~/.rccl.conf and /etc/rccl.conf), or the "
    "default. With TEXT only settings that have it in their name or description (upper or lower case).\n\n"
    "  railwise config --changed\n"
    "  railwise config timeout\n\n";
constexpr const char* kConfigExitHelp =
    "\nExit status: 0 all right, 1 no setting has TEXT, 2 a mistake on the command line.\n";

std::string orEmpty(const std::string& text, const char* empty) { return text.empty() ? empty : text; }

// With a mistake in its file the tuner's init fails.
std::string tunerMistake(std::string_view env, const std::string& path) {
  if (env != "RAILWISE_TUNER_CONFIG") return "";
  const tuner::OverrideFile file = tuner::readOverrides(path);
  return file.mistakes.empty() ? "" : "; init will fail: " + file.mistakes.front();
}

// The settings that result from this environment and from NCCL's files.
struct Values {
  std::vector<SettingSource> sources;
  Config config = Config::load(&sources);

  // Where the variable was set.
  std::string setter(const char* env) const {
    const ConfVariable* file = confLineOf(env);
    return file != nullptr ? file->where() : "environment";
  }
  std::string source(std::size_t index, const char* env) const {
    if (sources[index] == SettingSource::kDefault) return "default";
    if (sources[index] == SettingSource::kEnvironment)
      return setter(env) + (acceptedInstead(env, settingValue(config, index)).empty()
                                ? tunerMistake(env, settingValue(config, index))
                                : "; not accepted: init will fail");
    return "default: " + setter(env) + " has a value that is not accepted";
  }
};

// The settings that were asked for.
struct Shown {
  Shown(const Values& values, const ConfigOptions& options, std::string_view asked) {
    const std::string part = lowerCase(asked);
    const auto has = [&part](const char* name, const char* text) {
      return (lowerCase(name) + "\n" + lowerCase(text)).find(part) != std::string::npos;
    };
    const auto rows = settings();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool changed = values.sources[i] != SettingSource::kDefault;
      if ((changed || !options.changed) && has(rows[i].env, rows[i].text)) used.push_back(i);
    }
    for (const UnusedSetting& row : unusedSettings()) {
      const char* value = std::getenv(row.env);
      if (value != nullptr && *value != '\0' && has(row.env, row.text)) unused.push_back(&row);
    }
  }
  bool empty() const { return used.empty() && unused.empty(); }

  std::vector<std::size_t> used;             // indices of settings()
  std::vector<const UnusedSetting*> unused;  // NCCL's that are set and have no meaning for the plugin
};

void printValues(const Values& values, const Shown& shown, bool brief) {
  constexpr const char* kIndent = "    ";
  const auto rows = settings();
  std::string text;
  for (const std::size_t i : shown.used) {
    const Setting& row = rows[i];
    text += std::string(row.env) + "=" + settingValue(values.config, i) + " (" + values.source(i, row.env) +
            ")\n";
    if (brief) continue;
    text += wrappedText(row.text, kIndent);
    text += wrappedText("accepted: " + row.accepted + "; default: " + orEmpty(row.default_text, "empty"),
                        kIndent);
  }
  for (const UnusedSetting* row : shown.unused) {
    text += std::string(row->env) + "=" + std::getenv(row->env) + " (" + values.setter(row->env) + ")\n";
    text += wrappedText(std::string("not read by the plugin: ") + row->text, kIndent);
  }
  std::fputs(text.c_str(), stdout);
}

void printMarkdown() {
  std::puts("| Variable | Default | Accepted | Meaning |\n|---|---|---|---|");
  for (const Setting& row : settings())
    std::printf("| `%s` | %s | %s | %s |\n", row.env, orEmpty(row.default_text, "empty").c_str(),
                row.accepted.c_str(), row.text);
  std::puts("\n## NCCL's variables without a meaning here\n\n| Variable | Why |\n|---|---|");
  for (const UnusedSetting& row : unusedSettings()) std::printf("| `%s` | %s |\n", row.env, row.text);
}

void printJson(const Values& values, const Shown& shown) {
  static constexpr const char* kSources[] = {"default", "environment", "rejected"};
  JsonWriter json;
  json.beginArray();
  const auto rows = settings();
  for (const std::size_t i : shown.used) {
    json.beginObject();
    json.key("name").value(rows[i].env);
    json.key("value").value(settingValue(values.config, i));
    json.key("default").value(rows[i].default_text);
    json.key("source").value(kSources[static_cast<std::size_t>(values.sources[i])]);
    if (const ConfVariable* file = confLineOf(rows[i].env); file != nullptr) {
      json.key("file").value(file->file);
      json.key("line").value(file->line);
    }
    json.key("accepted").value(rows[i].accepted);
    json.key("text").value(rows[i].text);
    json.endObject();
  }
  for (const UnusedSetting* row : shown.unused) {
    json.beginObject();
    json.key("name").value(row->env);
    json.key("value").value(std::getenv(row->env));
    json.key("source").value("unused");
    json.key("text").value(row->text);
    json.endObject();
  }
  json.endArray();
  std::fputs(json.text().c_str(), stdout);
}

// Values of NCCL's own variables that make no sense. Of the plugin's settings the list tells.
void warnOfValues() {
  const auto rows = settings();
  for (const SettingMistake& mistake : valueMistakes(environment()))
    if (std::ranges::none_of(rows, [&](const Setting& row) { return mistake.name == row.env; }))
      say("%s", mistake.text.c_str());
}

// Variables that have `part` in their name, and that NCCL alone reads.
std::string ncclsOwn(const std::string& part) {
  std::vector<std::string> names;
  for (const NcclVariable& row : ncclVariables())
    if (lowerCase(row.name).find(lowerCase(part)) != std::string::npos) names.emplace_back(row.name);
  return names.empty() ? ""
                       : "; only NCCL reads " + listText(names) + " (railwise doctor looks at the values)";
}

}  // namespace

int configCommand(Args args) {
  ConfigOptions options;
  int status = kExitOk;
  const auto arguments =
      parseOrLeave("config", optionTable(options), args, kConfigHelp, 1, &status, kConfigExitHelp);
  if (!arguments) return status;
  if (options.markdown) {
    printMarkdown();
    return kExitOk;
  }
  const Values values;
  warnOfMisspeltSettings();
  warnOfValues();
  const std::string asked = arguments->first();
  const Shown shown(values, options, asked);
  if (options.json) {
    printJson(values, shown);
  } else {
    printValues(values, shown, options.brief);
  }
  if (!shown.empty()) return kExitOk;
  if (asked.empty()) return leave(kExitOk, "config: every setting has its default");
  say("config: no setting%s has '%s' in its name or description%s",
      options.changed ? " without its default" : "", asked.c_str(), ncclsOwn(asked).c_str());
  return kExitFailed;
}

}  // namespace railwise::cli
