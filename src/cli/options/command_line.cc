#include "cli/options/command_line.h"

#include <stdio_ext.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

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
  auto arguments = parseArguments(table, args);
  if (arguments.ok() && !arguments->help && arguments->positional.size() > max_positional)
    arguments = Error{"unexpected argument '" + arguments->positional[max_positional] + "'"};
  // An unset variable of a script: `explain "$file"` must not explain this machine.
  if (arguments.ok() && std::find(arguments->positional.begin(), arguments->positional.end(), "") !=
                            arguments->positional.end())
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
  FILE* out = path.empty() ? stdout : std::fopen(path.c_str(), "wb");
  if (out == nullptr) return leave(kExitFailed, "%s: cannot write %s: %m", command, path.c_str());
  bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  written = (path.empty() ? std::fflush(out) : std::fclose(out)) == 0 && written;
  if (written) return kExitOk;
  say("%s: cannot write %s: %m", command, path.empty() ? "to stdout" : path.c_str());
  if (path.empty()) {  // finishOutput() must not say it again
    __fpurge(stdout);
    std::clearerr(stdout);
  }
  return kExitFailed;
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

std::size_t outputColumns() {
  constexpr std::size_t kFewest = 40;
  constexpr std::size_t kMost = 100;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kTextColumns;
  return std::clamp<std::size_t>(size.ws_col, kFewest, kMost);
}

}  // namespace railwise::cli
