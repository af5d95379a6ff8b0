// The software device in force for one test, on a fabric of its own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/settings/config.h"
#include "tests/ok.h"
#include "tests/one_device.h"
#include "verbs/handles.h"

namespace railwise::test {

inline Config softwareConfig(const std::string& more = "") {
  Config config;
  config.device = "software:fabric=test" + std::to_string(getpid()) + "," + oneDeviceAtLeast(more);
  return config;
}

class SoftwareDevice {
 public:
  explicit SoftwareDevice(const std::string& more = "") : config_(softwareConfig(more)) {
    EXPECT_OK(verbs::load(config_));
  }
  ~SoftwareDevice() { verbs::unload(); }
  SoftwareDevice(const SoftwareDevice&) = delete;
  SoftwareDevice& operator=(const SoftwareDevice&) = delete;

  const Config& config() const { return config_; }

  // Device `index` of the configuration, opened.
  verbs::Context open(int index = 0) const {
    int count = 0;
    ibv_device** list = verbs::library().get_device_list(&count);
    EXPECT_LT(index, count);
    verbs::Context context(verbs::library().open_device(list[index]));
    verbs::library().free_device_list(list);
    EXPECT_NE(context, nullptr);
    return context;
  }

 private:
  const Config config_;
};

}  // namespace railwise::test
