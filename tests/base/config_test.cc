#include "base/config.h"

#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "base/log.h"

namespace railwise {
namespace {

std::string g_warnings;

[[gnu::format(printf, 5, 6)]] void keepWarnings(int level, unsigned long, const char*, int,
                                                const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (level == log::kWarn) g_warnings += std::string(text) + "\n";
}

class ConfigTest : public testing::Test {
 protected:
  ConfigTest() {
    for (const Setting& setting : settings()) unsetenv(setting.env);
    log::setSink(keepWarnings);
    g_warnings.clear();
  }
  ~ConfigTest() override { log::setSink(nullptr); }
};

TEST_F(ConfigTest, DefaultsAreNcclsWhereNcclHasTheSetting) {
  const Config config = Config::load();
  EXPECT_EQ(config.ib_timeout, 20);
  EXPECT_EQ(config.ib_retry_count, 7);
  EXPECT_EQ(config.ib_gid_index, -1);
  EXPECT_EQ(config.device, "");
  EXPECT_EQ(g_warnings, "");
}

TEST_F(ConfigTest, ReadsNumbersAndText) {
  setenv("NCCL_IB_TIMEOUT", "22", 1);
  setenv("NCCL_IB_PKEY", "0x10", 1);
  setenv("RAILWISE_DEVICE", "software:count=2", 1);
  const Config config = Config::load();
  EXPECT_EQ(config.ib_timeout, 22);
  EXPECT_EQ(config.ib_pkey_index, 16);
  EXPECT_EQ(config.device, "software:count=2");
  EXPECT_EQ(g_warnings, "");
}

TEST_F(ConfigTest, ABadValueWarnsAndKeepsTheDefault) {
  for (const char* bad : {"32", "0", "-1", "abc", "20x", "99999999999999999999"}) {
    g_warnings.clear();
    setenv("NCCL_IB_TIMEOUT", bad, 1);
    EXPECT_EQ(Config::load().ib_timeout, 20) << bad;
    EXPECT_EQ(g_warnings,
              std::string("NCCL_IB_TIMEOUT=") + bad + " is not a number from 1 to 31: using 20\n");
  }
}

TEST_F(ConfigTest, AnUnknownFamilyWarnsAndIsBoth) {
  setenv("NCCL_SOCKET_FAMILY", "AF_UNIX", 1);
  EXPECT_EQ(Config::load().socket_family, "");
  EXPECT_NE(g_warnings.find("NCCL_SOCKET_FAMILY=AF_UNIX"), std::string::npos);
}

TEST_F(ConfigTest, AnEmptyVariableIsUnset) {
  setenv("NCCL_IB_TIMEOUT", "", 1);
  EXPECT_EQ(Config::load().ib_timeout, 20);
  EXPECT_EQ(g_warnings, "");
}

TEST_F(ConfigTest, EverySettingIsListedOnceWithItsValue) {
  setenv("NCCL_IB_RETRY_CNT", "3", 1);
  const Config config = Config::load();
  std::set<std::string> names;
  for (size_t i = 0; i < settings().size(); ++i) {
    const Setting& setting = settings()[i];
    EXPECT_TRUE(names.insert(setting.env).second) << setting.env;
    EXPECT_NE(std::string(setting.text), "");
    const bool changed = std::string(setting.env) == "NCCL_IB_RETRY_CNT";
    EXPECT_EQ(settingValue(config, i), changed ? "3" : setting.default_text) << setting.env;
  }
}

}  // namespace
}  // namespace railwise
