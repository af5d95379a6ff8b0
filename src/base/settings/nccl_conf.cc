#include "base/settings/nccl_conf.h"

#include "base/text/split.h"

namespace railwise {

std::vector<ConfVariable> ncclConfVariables(const std::string& named, const std::string& home, bool rccl,
                                            const std::function<std::string(const std::string& path)>& read) {
  std::vector<ConfVariable> variables;
  const std::string name = rccl ? "rccl.conf" : "nccl.conf";
  const std::string own = !named.empty() ? named : home.empty() ? "" : home + "/." + name;
  for (const std::string& path : {own, "/etc/" + name}) {
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
