#include "base/settings/strict_mode.h"

#include <algorithm>
#include <iterator>

namespace railwise {
namespace {

struct Word {
  std::string_view word;
  bool StrictMode::*field;
};

constexpr Word kWords[] = {
    {"device", &StrictMode::device},     {"gdr", &StrictMode::gdr},         {"speed", &StrictMode::speed},
    {"topology", &StrictMode::topology}, {"version", &StrictMode::version},
};

}  // namespace

std::optional<StrictMode> parseStrictMode(std::string_view text) {
  StrictMode mode;
  if (text.empty() || text == "0") return mode;
  if (text == "1") return StrictMode{true, true, true, true, true};
  for (;;) {
    const auto comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    const auto found =
        std::find_if(std::begin(kWords), std::end(kWords), [&](const Word& row) { return row.word == word; });
    if (found == std::end(kWords)) return std::nullopt;
    mode.*(found->field) = true;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  mode.device = true;
  return mode;
}

}  // namespace railwise
