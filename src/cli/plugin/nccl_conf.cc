#include "cli/plugin/nccl_conf.h"

#include <cstdlib>
#include <fstream>

namespace railwise::tools {
namespace {

void applyFile(const std::string& path, std::vector<ConfVariable>& applied) {
  std::ifstream file(path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    const auto equals = line.find('=');
    if (line.starts_with('#') || equals == std::string::npos || equals == 0) continue;
    const std::string name = line.substr(0, equals);
    if (std::getenv(name.c_str()) != nullptr) continue;
    if (setenv(name.c_str(), line.c_str() + equals + 1, 0) == 0) applied.push_back({name, path, number});
  }
}

}  // namespace

std::vector<ConfVariable> applyNcclConf(const std::string& system_file) {
  std::vector<ConfVariable> applied;
  const char* named = std::getenv("NCCL_CONF_FILE");
  const char* home = std::getenv("HOME");
  if (named != nullptr && *named != '\0') {
    applyFile(named, applied);
  } else if (home != nullptr) {
    applyFile(std::string(home) + "/.nccl.conf", applied);
  }
  applyFile(system_file, applied);
  return applied;
}

}  // namespace railwise::tools
