// NCCL's configuration files, and RCCL's, as they read them into the environment before they load plugins.
// Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace railwise {

struct ConfVariable {
  std::string name;
  std::string value;
  std::string file;
  int line = 0;

  std::string where() const { return file + ":" + std::to_string(line); }
};

// The variables of the files, in the order of their precedence; a variable that is already set stays. Lines
// are NAME=value, used unchanged; '#' in the first column begins a comment. First `named` ($NCCL_CONF_FILE),
// or .nccl.conf in `home` if it is ""; then /etc/nccl.conf. With `rccl`: .rccl.conf, /etc/rccl.conf; it heeds
// NCCL_CONF_FILE since 2.27. `read`: the text of a file; "": there is none.
// Source: NCCL 2.30.7 and RCCL 2.28.3, misc/param.cc (initEnv, setEnvFile).
std::vector<ConfVariable> ncclConfVariables(const std::string& named, const std::string& home, bool rccl,
                                            const std::function<std::string(const std::string& path)>& read);

}  // namespace railwise
