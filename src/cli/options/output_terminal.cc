#include "cli/options/output_terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "base/text/text_layout.h"

namespace railwise::cli {
namespace {

constexpr std::array<Choice<ColorChoice>, 3> kColorChoices = {
    {{"auto", ColorChoice::kAuto}, {"always", ColorChoice::kAlways}, {"never", ColorChoice::kNever}}};

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

void addColorOption(std::vector<Option>& table, ColorChoice& choice) {
  table.push_back(
      choiceOption<ColorChoice>(0, "color", kColorChoices, &choice,
                                "auto (default: on a terminal, unless NO_COLOR is set), always or never"));
}

bool outputHasColor(ColorChoice choice) {
  if (choice != ColorChoice::kAuto) return choice == ColorChoice::kAlways;
  return isatty(STDOUT_FILENO) == 1 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

std::size_t outputColumns() {
  constexpr std::size_t kFewest = 40;
  constexpr std::size_t kMost = 100;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kTextColumns;
  return std::clamp<std::size_t>(size.ws_col, kFewest, kMost);
}

}  // namespace railwise::cli
