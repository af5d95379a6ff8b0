// Variables of the environment, for tests.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace railwise::test {

// A variable for as long as this lives; afterwards it is what it was.
class Setting {
 public:
  Setting(const char* variable, const std::string& value) : variable_(variable) {
    if (const char* const set = std::getenv(variable)) before_ = set;
    setenv(variable, value.c_str(), 1);
  }
  ~Setting() {
    if (before_) setenv(variable_, before_->c_str(), 1);
    else unsetenv(variable_);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* const variable_;
  std::optional<std::string> before_;
};

// The plugin's devices from now on. `configuration`: of software devices.
inline void useSoftwareDevices(const std::string& configuration) {
  setenv("RAILWISE_DEVICE", ("software:" + configuration).c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  setenv("RAILWISE_FUSE_PLACELESS", "1", 1);  // these devices are in no PCI tree
}

}  // namespace railwise::test
