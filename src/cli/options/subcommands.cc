#include "cli/options/subcommands.h"

#include <string_view>
#include <vector>

#include "base/text/words.h"
#include "cli/options/help_text.h"
#include "cli/options/message.h"
#include "cli/options/options.h"

namespace railwise::cli {
namespace {

std::string names(std::span<const Subcommand> subcommands) {
  return joined(subcommands, ", ", &Subcommand::name);
}

}  // namespace

int runSubcommand(const char* group, std::span<const Subcommand> subcommands, const char* last, Args args) {
  if (args.empty()) {
    say("%s: which subcommand? %s", group, names(subcommands).c_str());
    return kExitUsage;
  }
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

}  // namespace railwise::cli
