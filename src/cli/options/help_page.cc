#include "cli/options/help_page.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/text/text_layout.h"

namespace railwise::cli {
namespace {

// Where the further lines of a row begin: below its text ("  name  what it is"), else two columns after its
// first word.
std::size_t rowIndent(std::string_view line) {
  constexpr std::string_view kUsage = "usage: ";
  if (line.starts_with(kUsage)) return kUsage.size() + 2;
  const std::size_t first = line.find_first_not_of(' ');
  const std::size_t gap = line.find("  ", first);
  const std::size_t text = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  return text == std::string_view::npos ? first + 2 : text;
}

bool standsForItself(std::string_view line) {
  return line.starts_with(' ') || line.starts_with("usage:") || line.starts_with("Exit status");
}

// A paragraph or a row, with all of its lines.
struct Block {
  std::string text;
  std::size_t indent = 0;  // of its second line and the lines after it
};

void write(std::string& out, Block& block) {
  if (block.text.empty()) return;
  const std::size_t lead = std::min(block.text.find_first_not_of(' '), block.text.size());
  // The blanks in front of a row's text separate two columns and stay.
  const bool columns = block.indent > 0 && block.indent < block.text.size() &&
                       block.text.compare(block.indent - 2, 2, "  ") == 0;
  const std::size_t kept = columns ? block.indent : lead;
  out += block.text.substr(0, kept);
  appendWords(out, std::string_view(block.text).substr(kept), kept, std::string(block.indent, ' '));
  out += '\n';
  block = {};
}

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

std::string fitHelp(std::string_view text) {
  std::string out;
  Block block;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t first = line.find_first_not_of(' ');
    if (first == std::string_view::npos) {
      write(out, block);
      out += '\n';
    } else if (!block.text.empty() && first == block.indent && (first > 0 || !standsForItself(line))) {
      block.text += ' ' + std::string(line.substr(first));
    } else {
      write(out, block);
      block = {.text = std::string(line),
               .indent = line.starts_with(' ') || line.starts_with("usage:") ? rowIndent(line) : 0};
    }
  }
  write(out, block);
  return out;
}

}  // namespace railwise::cli
