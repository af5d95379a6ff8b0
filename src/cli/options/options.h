// The option parser of the command. A table of Option rows defines the parser, the messages and the --help
// text, so they cannot disagree. Accepts -n 5, -n5, --iters 5, --iters=5 and "--" (everything after it is
// positional).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
#include "base/text/words.h"

namespace railwise::cli {

// The arguments after a subcommand's name.
using Args = std::span<const char* const>;

// Exit statuses of the command.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNothing = 3;  // of a command that judges: there was nothing to look at

struct Option {
  enum Value { kNone, kRequired, kOptional };

  char short_name = 0;  // 0: none
  std::string long_name;
  Value value = kNone;
  std::string value_name;            // in --help, e.g. "SIZE"
  std::string text;                  // in --help
  std::string accepted;              // completes "'x' is not ...", e.g. "a number from 1 to 32"
  std::vector<std::string> choices;  // all values that there are; empty: not a choice among names
  const char* topic = nullptr;       // the page of `railwise help` that describes it; null: --help does
  // Takes the value; it is empty if the option has none. False: the value is not accepted.
  std::function<bool(std::string_view)> accept;
};

// The options of a topic: `railwise help machines`.
inline constexpr const char* kMachinesTopic = "machines";

struct Arguments {
  // An argument, or the value of an option.
  struct Given {
    std::string option;  // its long name; "": an argument
    std::string value;
  };

  std::vector<std::string> positional;
  std::vector<Given> given;  // in the order of the command line
  bool help = false;         // --help or -h was given; the parser did not read further
  Args rest;                 // of a command that runs another one: the words of that

  std::string first() const { return positional.empty() ? "" : positional[0]; }
};

// Reads `args`, which do not include the command's name. The error is a usage error in one sentence.
// `runs_rest`: the options end where another command begins, with or without "--".
Outcome<Arguments> parseArguments(std::span<const Option> options, std::span<const char* const> args,
                                  bool runs_rest = false);
// The help text: one aligned line or more per option, including --help. Options of a topic are one row
// together, which names its page.
std::string optionHelp(std::span<const Option> options);

// Parses "8", "64K", "32M" or "1G" (powers of 1024). Null: another form, or a number that needs more than 64
// bits.
std::optional<uint64_t> parseSize(std::string_view text);
std::optional<int> parseInt(std::string_view text, int min, int max);
// Returns ", did you mean 'x'?", or "" if no candidate is close.
std::string suggestion(std::string_view name, std::span<const std::string> candidates);

// The last one given counts: `accept` with "no" takes the flag back.
Option flagOption(char short_name, std::string long_name, bool* field, std::string text);
// An option with a value, which `accept` takes or refuses. `accepted` says what it takes.
Option valueOption(char short_name, std::string long_name, std::string value_name, std::string text,
                   std::string accepted, std::function<bool(std::string_view)> accept);
Option intOption(char short_name, std::string long_name, int* field, int min, int max, std::string text);
// A time, with a fraction.
Option secondsOption(char short_name, std::string long_name, double* field, double min, double max,
                     std::string text);
// `take` gets the number.
Option intOption(char short_name, std::string long_name, int min, int max, std::string text,
                 std::function<void(int)> take);
Option sizeOption(char short_name, std::string long_name, uint64_t* field, uint64_t max, std::string text);
Option textOption(char short_name, std::string long_name, std::string value_name, std::string* field,
                  std::string text);
// --format text|json. `text`: for the help.
Option formatOption(bool* json, std::string text = "text (default) or json");
// -j, --json, of a command that has no other form than text.
Option jsonOption(bool* json, std::string text = "JSON instead of text");

template <typename Enum>
struct Choice {
  const char* name;
  Enum value;
};
// The name of `value`; "?" if no choice has it.
template <typename Choices, typename Enum>
const char* nameOf(const Choices& choices, Enum value) {
  for (const auto& choice : choices)
    if (choice.value == value) return choice.name;
  return "?";
}
template <typename Choices>
std::vector<std::string> namesOf(const Choices& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.emplace_back(choice.name);
  return names;
}
// Gives `field` the value that has this name. False: no choice has it.
template <typename Choices, typename Enum>
bool choose(const Choices& choices, std::string_view name, Enum* field) {
  for (const auto& choice : choices)
    if (name == choice.name) return *field = choice.value, true;
  return false;
}

template <typename Enum>
Option choiceOption(char short_name, std::string long_name, std::span<const Choice<Enum>> choices,
                    Enum* field, std::string text) {
  Option option = valueOption(
      short_name, std::move(long_name), "NAME", std::move(text), "one of " + joined(namesOf(choices)),
      [choices, field](std::string_view value) { return choose(choices, value, field); });
  option.choices = namesOf(choices);
  return option;
}

}  // namespace railwise::cli
