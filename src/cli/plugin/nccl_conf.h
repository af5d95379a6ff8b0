// NCCL's configuration files, which NCCL reads into the environment before it loads plugins: $NCCL_CONF_FILE,
// or
// ~/.nccl.conf when that is not set; then /etc/nccl.conf. Lines of NAME=value, taken as they are; '#' in the
// first column is a comment; what the environment has already stays. Source: NCCL 2.30.7, misc/param.cc
// (initEnv, setEnvFile).
#pragma once

#include <string>
#include <vector>

namespace railwise::tools {

struct ConfVariable {
  std::string name;
  std::string file;
  int line;
};

// Does what NCCL does, for this process; answers the variables that the files have set. From the main thread,
// before others start. A file that is not there is no error.
std::vector<ConfVariable> applyNcclConf(const std::string& system_file = "/etc/nccl.conf");

}  // namespace railwise::tools
