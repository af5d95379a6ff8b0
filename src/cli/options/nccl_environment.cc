#include "cli/options/nccl_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/files.h"
#include "sysfs/pci_devices.h"

namespace railwise::cli {
namespace {

std::vector<ConfVariable>& applied() {
  static std::vector<ConfVariable> variables;
  return variables;
}

std::string valueOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

void readNcclConf() {
  const auto text_of = [](const std::string& path) {
    std::error_code unreadable;
    if (!std::filesystem::is_regular_file(path, unreadable)) return std::string();  // a pipe might never end
    const auto text = wholeFile(path);
    return text.ok() ? *text : std::string();
  };
  const bool rccl = sysfs::runsRccl(sysfs::liveTree());
  applied() = ncclConfVariables(valueOf("NCCL_CONF_FILE"), valueOf("HOME"), rccl, text_of);
  std::erase_if(applied(), [](const ConfVariable& its) {
    return std::getenv(its.name.c_str()) != nullptr || setenv(its.name.c_str(), its.value.c_str(), 0) != 0;
  });
}

const ConfVariable* confLineOf(const char* variable) {
  const auto found = std::find_if(applied().begin(), applied().end(),
                                  [&](const ConfVariable& its) { return its.name == variable; });
  return found != applied().end() ? &*found : nullptr;
}

std::vector<const char*> environmentAlone() {
  std::vector<const char*> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (confLineOf(std::string(text.substr(0, text.find('='))).c_str()) == nullptr) all.push_back(*entry);
  }
  all.push_back(nullptr);
  return all;
}

}  // namespace railwise::cli
