#include "cli/options/command_line.h"

#include <stdio_ext.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "cli/options/help_page.h"
#include "cli/options/message.h"
#include "cli/options/options.h"

namespace railwise::cli {
namespace {

constexpr std::array<Choice<ColorChoice>, 3> kColorChoices = {
    {{"auto", ColorChoice::kAuto}, {"always", ColorChoice::kAlways}, {"never", ColorChoice::kNever}}};

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string names(std::span<const Subcommand> subcommands) {
  return joined(subcommands, ", ", &Subcommand::name);
}

}  // namespace

std::optional<Arguments> parseOrLeave(const char* command, const std::vector<Option>& table, Args args,
                                      const std::string& help, std::size_t max_positional, int* status,
                                      const std::string& after_options) {
  auto arguments = parseArguments(table, args, max_positional == kRunsRest);
  if (arguments.ok() && !arguments->help && arguments->positional.size() > max_positional)
    arguments = Error{"unexpected argument '" + arguments->positional[max_positional] + "'"};
  // An unset variable of a script: `explain "$file"` must not explain this machine.
  if (arguments.ok() && std::ranges::find(arguments->positional, "") != arguments->positional.end())
    arguments = Error{"an argument is empty: is a variable unset? Leave it out, or name a file"};
  if (!arguments.ok()) {
    say("%s: %s (railwise %s --help lists what there is)", command, arguments.error().c_str(), command);
    *status = kExitUsage;
    return std::nullopt;
  }
  if (arguments->help) {
    showHelp({.intro = help, .options = table, .after_options = after_options});
    *status = kExitOk;
    return std::nullopt;
  }
  return std::move(*arguments);
}

int writeOutput(const char* command, const std::string& path, const std::string& text) {
  if (!path.empty()) {
    if (const auto written = replaceFile(path, text); !written.ok())
      return leave(kExitFailed, "%s: %s", command, written.error().c_str());
    return kExitOk;
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) == 0 && written) return kExitOk;
  say("%s: cannot write to stdout: %m", command);
  __fpurge(stdout);  // finishOutput() must not say it again
  std::clearerr(stdout);
  return kExitFailed;
}

void addOutputOptions(std::vector<Option>& table, Output& output, std::vector<std::string> formats) {
  output.format = formats.front();
  std::vector<std::string> named = formats;
  named.front() += " (default)";
  const auto has = [formats, &output](std::string_view name) {
    const bool known = std::ranges::find(formats, name) != formats.end();
    if (known) output.format = name;
    return known;
  };
  Option format =
      valueOption('f', "format", "NAME", listText(named, " or "), "one of " + joined(formats), has);
  format.choices = std::move(formats);
  table.push_back(std::move(format));
  Option json = flagOption('j', "json", nullptr, "the same as --format json");
  json.accept = [has](std::string_view) { return has("json"); };
  table.push_back(std::move(json));
  table.push_back(outputOption(&output.file));
}

Option outputOption(std::string* file) {
  return textOption('o', "output", "FILE", file, "write to FILE instead of stdout");
}

int writeOutput(const char* command, const Output& output, const std::string& text) {
  return writeOutput(command, output.file, text);
}

int finishOutput(int status) {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return status;
  // An error of an earlier write has no errno any more.
  flushed ? say("cannot write to stdout: a part of the output is lost") : say("cannot write to stdout: %m");
  return status == kExitOk ? kExitFailed : status;
}

void sayNotes(const char* command, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) say("%s: note: %s", command, note.c_str());
}

int runSubcommand(const char* group, std::span<const Subcommand> subcommands, const char* last, Args args) {
  if (args.empty()) return leave(kExitUsage, "%s: which subcommand? %s", group, names(subcommands).c_str());
  const std::string_view name = args[0];
  if (name == "--help" || name == "-h") {
    showHelp({.intro = textOf("usage: railwise %s SUBCOMMAND [options]\n\n", group),
              .after_options = std::string(last) + "\n",
              .subcommands = {subcommands.begin(), subcommands.end()},
              .is_group = true});
    return kExitOk;
  }
  std::vector<std::string> known;
  for (const Subcommand& sub : subcommands) {
    if (name == sub.name) return sub.run(args.subspan(1));
    known.emplace_back(sub.name);
  }
  const std::string near = suggestion(name, known);
  say("%s: unknown subcommand '%s'%s", group, args[0],
      near.empty() ? (": " + names(subcommands)).c_str() : near.c_str());
  return kExitUsage;
}

void addColorOption(std::vector<Option>& table, ColorChoice& choice) {
  table.push_back(
      choiceOption<ColorChoice>(0, "color", kColorChoices, &choice,
                                "auto (default: on a terminal, unless NO_COLOR is set), always or never"));
}

bool outputHasColor(ColorChoice choice) {
  if (choice != ColorChoice::kAuto) return choice == ColorChoice::kAlways;
  return isatty(STDOUT_FILENO) == 1 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

std::string paintedLines(std::string_view text,
                         const std::function<const char*(std::string_view)>& style_of) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view style = style_of(line);
    out += style;
    out += line;
    out += style.empty() ? "\n" : "\033[0m\n";
  }
  return out;
}

std::string paintedFindings(std::string_view text) {
  return paintedLines(text, [](std::string_view line) {
    const auto is = [line](std::string_view first, std::string_view inside) {
      return line.starts_with(first) || line.find(inside) != std::string_view::npos;
    };
    if (is("ERROR ", ": error: ") || line.starts_with("STUCK: ")) return kRed;
    return is("WARNING ", ": warning: ") ? kYellow : "";
  });
}

std::size_t terminalColumns(const std::string& file) {
  winsize size{};
  return file.empty() && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::size_t outputColumns(const std::string& file) {
  constexpr std::size_t kFewest = 40;
  constexpr std::size_t kMost = 100;
  const std::size_t columns = terminalColumns(file);
  return columns == 0 ? kTextColumns : std::clamp(columns, kFewest, kMost);
}

}  // namespace railwise::cli
