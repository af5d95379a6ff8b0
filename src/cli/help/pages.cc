#include "cli/help/pages.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text/words.h"

namespace railwise::cli {
namespace {

constexpr std::string_view kUsage = "usage: ";
constexpr std::string_view kHelpCommand = "help";

void addPage(std::vector<CommandPage>& pages, const std::string& path, const Subcommand& command) {
  const std::size_t place = pages.size();
  pages.push_back({.path = path, .name = command.name, .text = command.text, .page = helpPageOf(command)});
  const std::vector<Subcommand> subcommands = pages[place].page.subcommands;
  for (const Subcommand& sub : subcommands) {
    pages[place].children.push_back(pages.size());
    addPage(pages, path + " " + sub.name, sub);
  }
}

// Adds a page below `help` for each command below the page `command`, with the options of `help`. `to`: the
// page below which they come. `help help` is the last word of its line.
void addHelpPages(std::vector<CommandPage>& pages, std::size_t help, std::size_t to, std::size_t command) {
  const std::vector<std::size_t> commands = pages[command].children;
  for (const std::size_t child : commands) {
    // "doctor --log" is `help doctor log`.
    const std::string name = pages[child].name.substr(
        std::min(pages[child].name.find_first_not_of('-'), pages[child].name.size()));
    const std::size_t place = pages.size();
    pages[to].children.push_back(place);
    CommandPage page{.path = pages[to].path + " " + name, .name = name, .text = pages[child].text};
    page.page.is_group = true;
    page.page.options = pages[help].page.options;
    pages.push_back(std::move(page));
    if (child != help) addHelpPages(pages, help, place, child);
  }
}

// A word in capitals that names a file or folder: FILE, DIR|TAR, OUT.tar.gz.
bool namesFile(std::string_view word) {
  constexpr std::array<std::string_view, 6> kFiles = {"FILE", "DIR", "TAR", "FOLDER", "OUT", "LOG"};
  return std::ranges::any_of(
      kFiles, [word](std::string_view file) { return word.find(file) != std::string_view::npos; });
}

// "all_reduce|sendrecv|alltoall": lower case, no option.
bool isChoice(std::string_view word) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '|';
  };
  return word.find('|') != std::string_view::npos && std::ranges::all_of(word, is_plain);
}

}  // namespace

std::vector<CommandPage> allPages(std::span<const Subcommand> commands) {
  std::vector<CommandPage> pages = {{.text = "NCCL over RDMA: run, look, explain, repair"}};
  pages[0].page.is_group = true;
  pages[0].page.intro = "usage: railwise COMMAND [options]\n";
  pages[0].page.subcommands.assign(commands.begin(), commands.end());
  for (const Subcommand& command : commands) {
    pages[0].children.push_back(pages.size());
    addPage(pages, command.name, command);
  }
  return pages;
}

std::vector<CommandPage> completionPages(std::span<const Subcommand> commands) {
  std::vector<CommandPage> pages = allPages(commands);
  const auto help = std::ranges::find(pages, kHelpCommand, &CommandPage::path);
  const auto place = static_cast<std::size_t>(help - pages.begin());
  if (help != pages.end()) addHelpPages(pages, place, place, 0);
  return pages;
}

std::vector<std::string> usageLines(const HelpPage& page) {
  std::vector<std::string> usage;
  for (const std::string& line : splitAt(page.intro, '\n')) {
    if (line.empty()) break;
    usage.push_back(line.substr(std::min(line.size(), kUsage.size())));
  }
  return usage;
}

ValueKind valueKind(const Option& option) {
  if (option.value == Option::kNone) return ValueKind::kNothing;
  if (!option.choices.empty()) return ValueKind::kChoice;
  const bool is_file = namesFile(option.value_name) || option.value_name == "PATH";
  return is_file ? ValueKind::kFile : ValueKind::kNothing;
}

namespace {

// A choice may go on in the next usage line.
void addChoices(const std::string& word, std::vector<std::string>& words) {
  for (std::string& choice : splitAt(word, '|')) {
    if (std::ranges::find(words, choice) == words.end()) words.push_back(std::move(choice));
  }
}

}  // namespace

ArgumentWords argumentWords(std::span<const CommandPage> pages, const CommandPage& command) {
  ArgumentWords found;
  for (const std::size_t child : command.children) found.words.push_back(pages[child].name);
  if (command.page.is_group) return found;
  const std::string program = "railwise " + command.path + " ";
  for (const std::string& line : usageLines(command.page)) {
    if (!line.starts_with(program)) continue;
    bool is_value = false;  // of the option before it
    // Two spaces begin a remark.
    for (const std::string& word :
         splitAt(line.substr(program.size(), line.find("  ") - program.size()), ' ')) {
      const bool is_option = word.starts_with("--") || word.starts_with("[--");
      const bool is_free = !is_option && !is_value;
      is_value = is_option && !word.ends_with("]");
      if (is_free && isChoice(word)) addChoices(word, found.words);
      if (is_free && namesFile(word) && found.kind == ValueKind::kNothing) found.kind = ValueKind::kFile;
      if (is_free && word == "COMMAND") found.kind = ValueKind::kProgram;
    }
  }
  return found;
}

std::vector<Option> optionsOf(const CommandPage& command) {
  std::vector<Option> options = command.page.options;
  options.push_back({.short_name = 'h', .long_name = "help", .text = "this text"});
  return options;
}

std::vector<std::string> spellingsOf(const Option& option) {
  std::vector<std::string> spellings = {"--" + option.long_name};
  if (option.short_name != 0) spellings.push_back("-" + std::string(1, option.short_name));
  return spellings;
}

}  // namespace railwise::cli
