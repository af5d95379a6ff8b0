// Arbitrary bytes as an environment, NAME=VALUE a line: a recorded machine's comes from outside. Names are
// cut from the same bytes, so that known names get arbitrary values too.
#include <cstdlib>
#include <string_view>

#include "base/settings/config.h"
#include "base/settings/setting_mistakes.h"

namespace {

railwise::Environment environmentOf(std::string_view text) {
  const auto rows = railwise::ncclVariables();
  railwise::Environment environment;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) {
      if (!line.empty())
        environment.emplace(rows[static_cast<unsigned char>(line[0]) % rows.size()].name, line.substr(1));
      continue;
    }
    const bool lower = line[0] >= 'a' && line[0] <= 'z';
    environment.emplace((lower ? "NCCL_" : "") + std::string(line.substr(0, equals)),
                        line.substr(equals + 1));
  }
  return environment;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const railwise::Environment environment = environmentOf(text);
  for (const railwise::UnknownName& unknown : railwise::unknownNames(environment)) {
    if (railwise::isSettingName(unknown.name) || railwise::textOf(unknown).empty()) std::abort();
    if (!unknown.nearest.empty() && !railwise::isSettingName(unknown.nearest)) std::abort();
  }
  for (const railwise::SettingMistake& mistake : railwise::settingMistakes(environment)) {
    if (mistake.text.empty() || mistake.fix.empty() || environment.count(mistake.name) == 0) std::abort();
  }
  (void)railwise::parseStrictMode(text);
  return 0;
}
