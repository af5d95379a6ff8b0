// What --help shows of a command, as data: printed for people, and collected for man pages and completions,
// so that these cannot differ from the parser. Not thread-safe: the command does it before anything else.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/options/options.h"

namespace railwise::cli {

struct Subcommand {
  const char* name;
  int (*run)(Args);
  const char* text;  // for the help
};

struct HelpPage {
  std::string intro;            // "usage: ...", an empty line, and what the command does
  std::vector<Option> options;  // as the parser has them
  std::string after_options;
  std::vector<Subcommand> subcommands;  // what may stand behind the command's name, with a page of its own
  bool is_group = false;                // the command is nothing but its subcommands

  std::string text() const;  // as --help prints it
};

// What a command does when --help is asked for. Prints the page, unless helpPageOf() wants it.
void showHelp(HelpPage page);
// Names words behind the command's name that lead to pages of their own, before showHelp() is reached. For
// commands that are not groups.
void offerSubcommands(std::span<const Subcommand> subcommands);

// The page that the command shows for --help. Prints nothing.
HelpPage helpPageOf(const Subcommand& command);

}  // namespace railwise::cli
