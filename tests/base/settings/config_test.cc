#include "base/settings/config.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "tests/ok.h"
#include "tests/said.h"

namespace railwise {
namespace {

class ConfigTest : public testing::Test {
 protected:
  ConfigTest() {
    for (const Setting& setting : settings()) unsetenv(setting.env);
  }

  test::Said said_;
};

TEST_F(ConfigTest, DefaultsAreNcclsWhereNcclHasTheSetting) {
  const Config config = Config::load();
  EXPECT_EQ(config.ib_timeout, 20);
  EXPECT_EQ(config.ib_retry_count, 7);
  EXPECT_EQ(config.ib_gid_index, -1);
  EXPECT_EQ(config.device, "");
  EXPECT_EQ(said_.warnings(), "");
}

TEST_F(ConfigTest, ReadsNumbersAndText) {
  setenv("NCCL_IB_TIMEOUT", "22", 1);
  setenv("NCCL_IB_PKEY", "0x10", 1);
  setenv("RAILWISE_DEVICE", "software:count=2", 1);
  const Config config = Config::load();
  EXPECT_EQ(config.ib_timeout, 22);
  EXPECT_EQ(config.ib_pkey_index, 16);
  EXPECT_EQ(config.device, "software:count=2");
  EXPECT_EQ(said_.warnings(), "");
}

TEST_F(ConfigTest, ABadValueWarnsAndKeepsTheDefault) {
  for (const char* bad : {"32", "0", "-1", "abc", "20x", "99999999999999999999"}) {
    said_.clear();
    setenv("NCCL_IB_TIMEOUT", bad, 1);
    EXPECT_EQ(Config::load().ib_timeout, 20) << bad;
    EXPECT_EQ(said_.warnings(),
              std::string("NCCL_IB_TIMEOUT=") + bad + " is not a number from 1 to 31: using 20\n");
  }
}

TEST_F(ConfigTest, AnUnknownFamilyWarnsAndIsBoth) {
  setenv("NCCL_SOCKET_FAMILY", "AF_UNIX", 1);
  EXPECT_EQ(Config::load().socket_family, "");
  EXPECT_HAS(said_.warnings(), "NCCL_SOCKET_FAMILY=AF_UNIX");
}

TEST_F(ConfigTest, ARejectedWordOrFormNamesWhatIsAccepted) {
  const struct {
    const char* env;
    const char* value;
    const char* said;
  } cases[] = {
      {"NCCL_IB_ADDR_FAMILY", "AF_UNIX", "is not AF_INET or AF_INET6: as if it were not set"},
      {"RAILWISE_STRICT", "nonsense",
       "is not 0, 1, or a list of device, gdr, speed, topology and version: init will fail"},
      {"NCCL_IB_ADDR_RANGE", "10.0.0.0", "is not ADDRESS/BITS, 10.1.0.0/16: as if it were not set"},
      {"RAILWISE_CONNECT", "udp", "is not auto, tcp or cm: using auto"},
      {"RAILWISE_GPU", "GPU0", "is not PCI address, 0000:3b:00.0: as if it were not set"},
      {"NCCL_IB_HCA", "mlx5_0:one",
       "is not name[:port[:rail[:plane]]],... after nothing, =, ^ or ^=: as if it"},
      {"NCCL_IB_AR_THRESHOLD", "-3", "is not a number from -2 to 1073741824: using -2"},
  };
  for (const auto& [env, value, said] : cases) {
    said_.clear();
    setenv(env, value, 1);
    std::vector<SettingSource> sources;
    (void)Config::load(&sources);
    EXPECT_HAS(said_.warnings(), std::string(env) + "=" + value + " " + said);
    EXPECT_EQ(std::count(sources.begin(), sources.end(), SettingSource::kRejected), 1) << env;
    unsetenv(env);
  }
}

TEST_F(ConfigTest, APciAddressHasADomainOrNone) {
  for (const char* good : {"0000:3b:00.0", "3b:00.0", "00000000:3B:1F.7", "ffff:ff:1f.7"}) {
    setenv("RAILWISE_GPU", good, 1);
    EXPECT_EQ(Config::load().gpu, good);
  }
  for (const char* bad :
       {"3b:00", "3b:00.8", "0000:3b:00.0 ", "000:3b:00.0", "0000:3g:00.0", "0000-3b:00.0", ":3b:00.0"}) {
    setenv("RAILWISE_GPU", bad, 1);
    EXPECT_EQ(Config::load().gpu, "") << bad;
  }
}

TEST_F(ConfigTest, AChoiceIsAWholeWord) {
  for (const char* word : {"auto", "tcp", "cm", "c", "auto,tcp"}) {
    setenv("RAILWISE_CONNECT", word, 1);
    const bool known = std::string(word) == "cm" || std::string(word) == "tcp";
    EXPECT_EQ(Config::load().connect, known ? word : "auto") << word;
  }
}

TEST_F(ConfigTest, SaysWhereValuesComeFrom) {
  setenv("NCCL_IB_RETRY_CNT", "7", 1);  // set, though to the default
  std::vector<SettingSource> sources;
  (void)Config::load(&sources);
  ASSERT_EQ(sources.size(), settings().size());
  for (size_t i = 0; i < sources.size(); ++i) {
    const bool set = std::string(settings()[i].env) == "NCCL_IB_RETRY_CNT";
    EXPECT_EQ(sources[i], set ? SettingSource::kEnvironment : SettingSource::kDefault) << settings()[i].env;
  }
}

TEST_F(ConfigTest, DefaultsAreOfTheAcceptedForm) {
  for (const Setting& setting : settings()) {
    if (!setting.default_text.empty()) setenv(setting.env, setting.default_text.c_str(), 1);
  }
  (void)Config::load();
  EXPECT_EQ(said_.warnings(), "");
}

TEST_F(ConfigTest, AVariableIsUsedOrUnusedOnce) {
  std::set<std::string> names;
  for (const Setting& setting : settings()) EXPECT_TRUE(names.insert(setting.env).second) << setting.env;
  for (const UnusedSetting& setting : unusedSettings()) {
    EXPECT_TRUE(names.insert(setting.env).second) << setting.env;
    EXPECT_NE(std::string(setting.text), "");
  }
}

TEST_F(ConfigTest, AnEmptyVariableIsUnset) {
  setenv("NCCL_IB_TIMEOUT", "", 1);
  EXPECT_EQ(Config::load().ib_timeout, 20);
  EXPECT_EQ(said_.warnings(), "");
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
