// railwise config: the plugin's settings, with the values that this environment gives them.
#include <cstdio>

#include "base/config.h"
#include "base/json.h"
#include "tools/commands.h"
#include "tools/message.h"
#include "tools/options.h"

namespace railwise::tools {
namespace {

struct ConfigOptions {
  bool markdown = false;
  bool json = false;
};

std::vector<Option> optionTable(ConfigOptions& fields) {
  return {flagOption(0, "markdown", &fields.markdown, "print the table of the documentation, without values"),
          flagOption(0, "json", &fields.json, "print JSON")};
}

std::string helpText() {
  ConfigOptions fields;
  return "usage: railwise config [options]\n\n"
         "Lists the environment variables that the plugin reads, with the values in force.\n\n" +
         optionHelp(optionTable(fields)) + "\nExit status: 0 all right, 2 a mistake on the command line.\n";
}

std::string orEmpty(const std::string& text, const char* empty) { return text.empty() ? empty : text; }

void printValues(const Config& config) {
  const auto rows = settings();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string value = settingValue(config, i);
    const char* mark = value == rows[i].default_text ? "" : " (set)";
    std::printf("%s=%s%s\n    %s\n    accepted: %s; default: %s\n", rows[i].env, value.c_str(), mark,
                rows[i].text, rows[i].accepted.c_str(), orEmpty(rows[i].default_text, "empty").c_str());
  }
}

void printMarkdown() {
  std::puts("| Variable | Default | Accepted | Meaning |\n|---|---|---|---|");
  for (const Setting& row : settings())
    std::printf("| `%s` | %s | %s | %s |\n", row.env, orEmpty(row.default_text, "empty").c_str(),
                row.accepted.c_str(), row.text);
  std::puts("\n## NCCL's variables without a meaning here\n\n| Variable | Why |\n|---|---|");
  for (const UnusedSetting& row : unusedSettings()) std::printf("| `%s` | %s |\n", row.env, row.text);
}

void printJson(const Config& config) {
  JsonWriter json;
  json.beginArray();
  const auto rows = settings();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    json.beginObject();
    json.key("name").value(rows[i].env);
    json.key("value").value(settingValue(config, i));
    json.key("default").value(rows[i].default_text);
    json.key("accepted").value(rows[i].accepted);
    json.key("text").value(rows[i].text);
    json.endObject();
  }
  json.endArray();
  std::fputs(json.text().c_str(), stdout);
}

}  // namespace

int configCommand(Args args) {
  ConfigOptions options;
  std::string error;
  const auto table = optionTable(options);
  const auto arguments = parseArguments(table, args, &error);
  if (arguments && !arguments->help && !arguments->positional.empty())
    error = "unexpected argument '" + arguments->positional[0] + "'";
  if (!error.empty()) {
    say("config: %s (railwise config --help lists what there is)", error.c_str());
    return kExitUsage;
  }
  if (arguments->help) {
    std::fputs(helpText().c_str(), stdout);
  } else if (options.markdown) {
    printMarkdown();
  } else if (options.json) {
    printJson(Config::load());
  } else {
    printValues(Config::load());
  }
  return kExitOk;
}

}  // namespace railwise::tools
