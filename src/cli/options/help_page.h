// What --help shows of a command, as data: printed for people, and collected for man pages and completions,
// so that these cannot differ from the parser. Not thread-safe: the command does it before anything else.
#pragma once

#include <span>
#include <string>
#include <string_view>
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

// Help texts in the width of a terminal. The sources break their lines where they like.

// `text` with lines of at most kTextColumns (base/text/text_layout.h), as far as words allow. The lines of a
// paragraph are filled up. A line that begins with a space, with "usage:" or with "Exit status" stands for
// itself; of a row such as "  name  what it is" the text stays in its column.
std::string fitHelp(std::string_view text);

}  // namespace railwise::cli
