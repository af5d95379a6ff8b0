#include "cli/options/help_page.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "cli/options/help_text.h"

namespace railwise::cli {
namespace {

struct Collected {
  HelpPage page;
  std::vector<Subcommand> offered;
};
Collected* g_collected = nullptr;  // null: pages are printed

std::string subcommandLines(std::span<const Subcommand> subcommands) {
  constexpr std::size_t kNarrowest = 9;
  std::size_t width = kNarrowest;
  for (const Subcommand& sub : subcommands) width = std::max(width, std::strlen(sub.name));
  std::string lines;
  for (const Subcommand& sub : subcommands)
    lines +=
        "  " + std::string(sub.name) + std::string(width - std::strlen(sub.name) + 1, ' ') + sub.text + "\n";
  return lines;
}

}  // namespace

std::string HelpPage::text() const {
  if (is_group) return fitHelp(intro + subcommandLines(subcommands) + "\n" + after_options);
  return fitHelp(intro) + optionHelp(options) + fitHelp(after_options);
}

void showHelp(HelpPage page) {
  if (g_collected == nullptr) {
    std::fputs(page.text().c_str(), stdout);
    return;
  }
  for (const Subcommand& sub : g_collected->offered) page.subcommands.push_back(sub);
  for (Option& option : page.options) option.accept = nullptr;  // it fills fields that are gone soon
  g_collected->page = std::move(page);
}

void offerSubcommands(std::span<const Subcommand> subcommands) {
  if (g_collected != nullptr) g_collected->offered.assign(subcommands.begin(), subcommands.end());
}

HelpPage helpPageOf(const Subcommand& command) {
  Collected collected;
  Collected* const outer = std::exchange(g_collected, &collected);
  constexpr std::array<const char*, 1> kAsk = {"--help"};
  command.run(kAsk);
  g_collected = outer;
  return std::move(collected.page);
}

}  // namespace railwise::cli
