#include "base/settings/nccl_conf.h"

#include "base/text/split.h"

namespace railwise {

std::vector<ConfVariable> ncclConfVariables(const std::string& named, const std::string& home,
                                            const std::function<std::string(const std::string& path)>& read) {
  std::vector<ConfVariable> variables;
  const std::string own = !named.empty() ? named : home.empty() ? "" : home + "/.nccl.conf";
  for (const std::string& path : {own, std::string("/etc/nccl.conf")}) {
    if (path.empty()) continue;
    int number = 0;
    for (const std::string& line : linesOf(read(path))) {
      ++number;
      const auto equals = line.find('=');
      if (line.starts_with('#') || equals == std::string::npos || equals == 0) continue;
      variables.push_back({line.substr(0, equals), line.substr(equals + 1), path, number});
    }
  }
  return variables;
}

}  // namespace railwise
