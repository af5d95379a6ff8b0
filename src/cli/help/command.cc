#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/help/pages.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"

namespace railwise::cli {
namespace {

constexpr std::size_t kMostWords = 8;

constexpr const char* kHelpHelp =
    "usage: railwise help [COMMAND [SUBCOMMAND]] [options]\n\n"
    "Prints the help of a command, as `railwise COMMAND --help` does, or its man page:\n\n"
    "  railwise help topo show\n"
    "  railwise help --man topo show | man -l -\n"
    "  railwise help machines     which machine a command answers about\n\n"
    "Exit status: 0 all right, 1 a folder cannot be written, 2 a mistake on the command line.\n\n";

constexpr const char* kCompletionHelp =
    "usage: railwise completion bash|zsh|fish\n\n"
    "Prints the script with which a shell completes commands, options and their values.\n\n"
    "  bash  eval \"$(railwise completion bash)\"        in ~/.bashrc\n"
    "  zsh   railwise completion zsh > FOLDER/_railwise\n"
    "                                                FOLDER is in $fpath, before compinit\n"
    "  fish  railwise completion fish | source         in ~/.config/fish/config.fish\n\n"
    "Installed packages bring the scripts where the shells look for them.\n"
    "Exit status: 0 all right, 2 a mistake on the command line.\n\n";

// By the name of its man page, in which "doctor --log" is railwise-doctor-log.
const CommandPage* pageOf(const std::vector<CommandPage>& pages, const std::vector<std::string>& words) {
  const std::string name = words.empty() ? "railwise" : "railwise-" + joined(words, "-");
  for (const CommandPage& page : pages)
    if (manName(page) == name) return &page;
  return nullptr;
}

int writeManPages(const std::vector<CommandPage>& pages, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // a failure shows when the first page is written
  for (const CommandPage& page : pages) {
    const int status = writeOutput("help", folder + "/" + manName(page) + ".1", manText(pages, page));
    if (status != kExitOk) return status;
  }
  return kExitOk;
}

enum class Shell { kBash, kZsh, kFish };

}  // namespace

int helpCommand(Args args, std::span<const Subcommand> commands, std::span<const Subcommand> topics,
                int (*top)()) {
  bool man = false;
  std::string folder;
  const std::vector<Option> table = {
      flagOption(0, "man", &man, "the man page, in roff, instead of the help"),
      textOption(0, "man-pages", "FOLDER", &folder, "write the man pages of all commands into this folder")};
  int status = kExitOk;
  const auto arguments = parseOrLeave("help", table, args, kHelpHelp, kMostWords, &status);
  if (!arguments) return status;
  const std::string path = joined(arguments->positional, " ");
  if (path.empty() && !man && folder.empty()) return top();
  const std::vector<CommandPage> pages = allPages(commands);
  if (!folder.empty()) return writeManPages(pages, folder);
  for (const Subcommand& topic : topics)
    if (path == topic.name && !man) return topic.run({});
  const CommandPage* const page = pageOf(pages, arguments->positional);
  if (page == nullptr) {
    std::vector<std::string> paths;
    for (const CommandPage& one : pages) paths.push_back(one.path);
    for (const Subcommand& topic : topics) paths.emplace_back(topic.name);
    const std::string near = suggestion(path, paths);
    return leave(kExitUsage, "help: there is no command '%s'%s", path.c_str(),
                 near.empty() ? "; railwise help lists them" : near.c_str());
  }
  return writeOutput("help", "", man ? manText(pages, *page) : page->page.text());
}

int completionCommand(Args args, std::span<const Subcommand> commands) {
  constexpr std::array<Choice<Shell>, 3> kShells = {
      {{"bash", Shell::kBash}, {"zsh", Shell::kZsh}, {"fish", Shell::kFish}}};
  int status = kExitOk;
  const auto arguments = parseOrLeave("completion", {}, args, kCompletionHelp, 1, &status);
  if (!arguments) return status;
  const std::string name = arguments->first();
  for (const auto& shell : kShells) {
    if (name != shell.name) continue;
    const std::vector<CommandPage> pages = completionPages(commands);
    return writeOutput("completion", "",
                       shell.value == Shell::kBash  ? bashCompletion(pages)
                       : shell.value == Shell::kZsh ? zshCompletion(pages)
                                                    : fishCompletion(pages));
  }
  return name.empty() ? say("completion: which shell? bash, zsh or fish")
                      : say("completion: '%s' is none of bash, zsh and fish", name.c_str()),
         kExitUsage;
}

}  // namespace railwise::cli
