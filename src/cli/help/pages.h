// All commands with what --help shows of them, as a list: man pages and completions are made of it. Plain
// values.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/words.h"
#include "cli/options/help_page.h"

namespace railwise::cli {

// How the values of an option, or the arguments of a command, are completed.
enum class ValueKind { kNothing, kFile, kChoice, kProgram };

struct CommandPage {
  std::string path;  // "topo show"; "": the command itself
  std::string name;  // the last word of `path`
  std::string text;  // one line
  HelpPage page;
  std::vector<std::size_t> children;  // places in the list
};
// The command itself first, then each command before its subcommands.
std::vector<CommandPage> allPages(std::span<const Subcommand> commands);

// The pages that completions are made of: those of allPages(), and below `help` a page for each command whose
// help it prints, "help topo show".
std::vector<CommandPage> completionPages(std::span<const Subcommand> commands);

// The lines of the page's intro from "usage: " on, without it: "railwise topo show [FILE] [options]".
std::vector<std::string> usageLines(const HelpPage& page);

ValueKind valueKind(const Option& option);
// What stands behind the command and is no option, by the words of its usage lines.
struct ArgumentWords {
  std::vector<std::string> words;        // subcommands, and the words of "all_reduce|sendrecv|alltoall"
  ValueKind kind = ValueKind::kNothing;  // what else: files, a program
};
ArgumentWords argumentWords(std::span<const CommandPage> pages, const CommandPage& command);

// Every option of a command, with --help.
std::vector<Option> optionsOf(const CommandPage& command);
// "--format", "-f"; the short one only if there is one.
std::vector<std::string> spellingsOf(const Option& option);

// The texts that are made of the pages of all commands. Pure.

// The name of the man page: "railwise-topo-show".
std::string manName(const CommandPage& command);
// A man page in roff (man(7)), for section 1.
std::string manText(std::span<const CommandPage> pages, const CommandPage& command);

std::string bashCompletion(std::span<const CommandPage> pages);
std::string zshCompletion(std::span<const CommandPage> pages);
std::string fishCompletion(std::span<const CommandPage> pages);

}  // namespace railwise::cli
