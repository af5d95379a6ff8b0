#include "cli/options/options.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "cli/options/help_page.h"

namespace railwise::cli {
namespace {

std::string spelled(const Option& option) {
  const std::string long_form = "--" + option.long_name;
  return option.short_name == 0 ? long_form : "-" + std::string(1, option.short_name) + "/" + long_form;
}

const Option* findLong(std::span<const Option> options, std::string_view name) {
  const auto found = std::ranges::find(options, name, &Option::long_name);
  return found == options.end() ? nullptr : &*found;
}

const Option* findShort(std::span<const Option> options, char name) {
  const auto found = std::ranges::find(options, name, &Option::short_name);
  return found == options.end() || name == 0 ? nullptr : &*found;
}

// One pass over the arguments, with the state that its steps share.
class Parser {
 public:
  Parser(std::span<const Option> options, std::span<const char* const> args, bool runs_rest)
      : options_(options), args_(args), runs_rest_(runs_rest) {}

  Outcome<Arguments> run() {
    for (; at_ < args_.size() && !result_.help; ++at_) {
      const std::string_view arg = args_[at_];
      const bool is_option = arg.size() > 1 && arg.front() == '-' && arg != "--";
      if (runs_rest_ && !is_option) {
        result_.rest = args_.subspan(arg == "--" ? at_ + 1 : at_);
        break;
      }
      if (arg == "--") {
        for (++at_; at_ < args_.size(); ++at_) takeArgument(args_[at_]);
        break;
      }
      if (arg == "--help" || arg == "-h") {
        result_.help = true;
      } else if (arg.starts_with("--")) {
        if (auto read = longOption(arg.substr(2)); !read.ok()) return read.failure();
      } else if (is_option) {
        if (auto read = shortOption(arg); !read.ok()) return read.failure();
      } else {
        takeArgument(arg);
      }
    }
    return std::move(result_);
  }

 private:
  void takeArgument(std::string_view arg) {
    result_.positional.emplace_back(arg);
    result_.given.push_back({"", std::string(arg)});
  }

  Outcome<void> longOption(std::string_view text) {
    const auto equal = text.find('=');
    const std::string_view name = text.substr(0, equal);
    const Option* option = findLong(options_, name);
    if (option == nullptr) return Error{"unknown option --" + std::string(name) + meantBy(name)};
    if (equal != std::string_view::npos) {
      if (option->value == Option::kNone) return Error{"option " + spelled(*option) + " takes no value"};
      return give(*option, text.substr(equal + 1));
    }
    return giveNext(*option);
  }

  // ", did you mean --json?", or with all the options that begin so.
  std::string meantBy(std::string_view name) const {
    std::vector<std::string> names = {"help"};
    for (const Option& known : options_) names.push_back(known.long_name);
    std::vector<std::string> begun;
    for (const std::string& known : names)
      if (!name.empty() && known.starts_with(name)) begun.push_back("--" + known);
    if (begun.empty()) {
      const auto near = closest(name, names);
      return near ? ", did you mean --" + *near + "?" : "";
    }
    return ", did you mean " + listText(begun, " or ") + "?";
  }

  Outcome<void> shortOption(std::string_view arg) {
    // As nccl-tests and other tools of getopt_long_only() take them.
    const std::string_view word = arg.substr(1, arg.find('=') - 1);
    if (word.size() > 1 && (findLong(options_, word) != nullptr || word == "help"))
      return Error{"unknown option -" + std::string(word) + ", long options have two dashes: --" +
                   std::string(word)};
    const Option* option = findShort(options_, arg[1]);
    if (option == nullptr) return Error{"unknown option " + std::string(arg.substr(0, 2))};
    if (arg.size() == 2) return giveNext(*option);
    if (option->value == Option::kNone) return Error{"option " + spelled(*option) + " takes no value"};
    return give(*option, arg.substr(2));
  }

  Outcome<void> giveNext(const Option& option) {
    if (option.value != Option::kRequired) {
      option.accept({});
      return {};
    }
    if (at_ + 1 >= args_.size())
      return Error{"option " + spelled(option) + " needs a value: " + option.accepted};
    return give(option, args_[++at_]);
  }

  Outcome<void> give(const Option& option, std::string_view value) {
    result_.given.push_back({option.long_name, std::string(value)});
    if (option.accept(value)) return {};
    return Error{"option " + spelled(option) + ": '" + std::string(value) + "' is not " + option.accepted};
  }

  std::span<const Option> options_;
  std::span<const char* const> args_;
  const bool runs_rest_;
  std::size_t at_ = 0;
  Arguments result_;
};

// JSON has one meaning and three spellings, -j, --json and --format json: a command has those that suit it,
// and takes the others too.
std::vector<Option> otherJsonSpellings(std::span<const Option> options) {
  const Option* const json = findLong(options, "json");
  const Option* const format = findLong(options, "format");
  const bool formats = format != nullptr && format->accepted.find("json") != std::string::npos;
  if (json == nullptr && !formats) return {};
  Option flag{.long_name = "json", .accept = [json, format](std::string_view) {
                return json != nullptr ? json->accept({}) : format->accept("json");
              }};
  if (findShort(options, 'j') == nullptr) flag.short_name = 'j';
  std::vector<Option> others = {std::move(flag)};
  if (format == nullptr)
    others.push_back({.long_name = "format",
                      .value = Option::kRequired,
                      .accepted = "one of text, json",
                      .accept = [json](std::string_view value) {
                        const bool text = value == "text";
                        if (text && json->value != Option::kNone) return true;
                        return (text || value == "json") && json->accept(text ? "no" : "");
                      }});
  return others;
}

}  // namespace

Outcome<Arguments> parseArguments(std::span<const Option> options, std::span<const char* const> args,
                                  bool runs_rest) {
  std::vector<Option> all(options.begin(), options.end());
  for (Option& other : otherJsonSpellings(options)) all.push_back(std::move(other));
  return Parser(all, args, runs_rest).run();
}

std::string optionHelp(std::span<const Option> options) {
  constexpr std::size_t kTextColumn = 30;
  std::string help;
  const auto add = [&](std::string left, std::string_view text) {
    left += left.size() + 2 > kTextColumn ? "\n" + std::string(kTextColumn, ' ')
                                          : std::string(kTextColumn - left.size(), ' ');
    help += left;
    appendWords(help, text, kTextColumn, std::string(kTextColumn, ' '));
    help += '\n';
  };
  const char* topic = nullptr;
  for (const Option& option : options) {
    if (option.topic != nullptr) topic = option.topic;
    if (option.topic != nullptr) continue;
    std::string left = option.short_name == 0 ? "      " : "  -" + std::string(1, option.short_name) + ", ";
    left += "--" + option.long_name;
    if (option.value == Option::kRequired) left += " " + option.value_name;
    if (option.value == Option::kOptional) left += "[=" + option.value_name + "]";
    add(std::move(left), option.text);
  }
  if (topic != nullptr)
    add("  -m, --root, --nccl, ...", std::string("which machine, by whose rules: railwise help ") + topic);
  add("  -h, --help", "this text");
  return help;
}

std::optional<uint64_t> parseSize(std::string_view text) {
  static constexpr std::string_view kSizeSuffixes[] = {"", "K", "M", "G"};
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc()) return std::nullopt;
  const std::string suffix = upperCase({end, text.data() + text.size()});
  const std::size_t unit = std::ranges::find(kSizeSuffixes, suffix) - std::begin(kSizeSuffixes);
  if (unit == std::size(kSizeSuffixes)) return std::nullopt;
  const std::size_t shift = 10 * unit;
  if (value > std::numeric_limits<uint64_t>::max() >> shift) return std::nullopt;
  return value << shift;
}

std::optional<int> parseInt(std::string_view text, int min, int max) {
  const auto value = numberIn<int>(text);
  return value && *value >= min && *value <= max ? value : std::nullopt;
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  const auto near = closest(name, candidates);
  return near ? ", did you mean '" + *near + "'?" : std::string();
}

Option flagOption(char short_name, std::string long_name, bool* field, std::string text) {
  return {.short_name = short_name,
          .long_name = std::move(long_name),
          .text = std::move(text),
          .accept = [field](std::string_view value) {
            *field = value != "no";
            return true;
          }};
}

Option valueOption(char short_name, std::string long_name, std::string value_name, std::string text,
                   std::string accepted, std::function<bool(std::string_view)> accept) {
  return {.short_name = short_name,
          .long_name = std::move(long_name),
          .value = Option::kRequired,
          .value_name = std::move(value_name),
          .text = std::move(text),
          .accepted = std::move(accepted),
          .accept = std::move(accept)};
}

Option intOption(char short_name, std::string long_name, int* field, int min, int max, std::string text) {
  return intOption(short_name, std::move(long_name), min, max, std::move(text),
                   [field](int value) { *field = value; });
}

Option intOption(char short_name, std::string long_name, int min, int max, std::string text,
                 std::function<void(int)> take) {
  return valueOption(short_name, std::move(long_name), "N", std::move(text),
                     "a number from " + std::to_string(min) + " to " + std::to_string(max),
                     [min, max, take = std::move(take)](std::string_view value) {
                       const auto parsed = parseInt(value, min, max);
                       if (parsed) take(*parsed);
                       return parsed.has_value();
                     });
}

Option secondsOption(char short_name, std::string long_name, double* field, double min, double max,
                     std::string text) {
  return valueOption(short_name, std::move(long_name), "S", std::move(text),
                     formatText("a number of seconds from %g to %g", min, max),
                     [field, min, max](std::string_view value) {
                       const auto seconds = numberIn<double>(value);
                       if (seconds) *field = *seconds;
                       return seconds && *field >= min && *field <= max;
                     });
}

Option sizeOption(char short_name, std::string long_name, uint64_t* field, uint64_t max, std::string text) {
  return valueOption(short_name, std::move(long_name), "SIZE", std::move(text),
                     "a size such as 8, 64K, 32M or 1G (at most " + std::to_string(max >> 30) + "G)",
                     [=](std::string_view value) {
                       const auto parsed = parseSize(value);
                       if (!parsed || *parsed > max) return false;
                       *field = *parsed;
                       return true;
                     });
}

Option textOption(char short_name, std::string long_name, std::string value_name, std::string* field,
                  std::string text) {
  return valueOption(short_name, std::move(long_name), value_name, std::move(text), "a " + value_name,
                     [=](std::string_view value) {
                       if (value.empty()) return false;
                       *field = value;
                       return true;
                     });
}

Option formatOption(bool* json, std::string text) {
  static constexpr Choice<bool> kFormats[] = {{"text", false}, {"json", true}};
  return choiceOption<bool>('f', "format", kFormats, json, std::move(text));
}

Option jsonOption(bool* json, std::string text) { return flagOption('j', "json", json, std::move(text)); }

}  // namespace railwise::cli
