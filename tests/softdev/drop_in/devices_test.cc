// Where the drop-in's devices come from. It reads the environment once, so each case is a process of its own.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace railwise::drop_in::test {
namespace {

// The names of the devices, after the two variables were set ("": unset); "none" when there is no list.
std::string devicesWith(const std::string& shared, const std::string& own) {
  const auto set = [](const char* name, const std::string& value) {
    value.empty() ? unsetenv(name) : setenv(name, value.c_str(), 1);
  };
  set("RAILWISE_DEVICE", shared);
  set("RAILWISE_DROP_IN_DEVICE", own);
  ibv_device** list = ibv_get_device_list(nullptr);
  if (list == nullptr) return "none";
  std::string names;
  for (ibv_device** each = list; *each != nullptr; ++each)
    names += std::string(ibv_get_device_name(*each)) + " ";
  ibv_free_device_list(list);
  return names;
}

TEST(FrontDevices, AreThoseOfTheSharedVariable) {
  EXPECT_EQ(devicesWith("software:name=shared", ""), "shared ");
}

TEST(FrontDevices, AreThoseOfTheirOwnVariableFirst) {
  EXPECT_EQ(devicesWith("software:name=shared", "software:name=own,count=2"), "own0 own1 ");
}

// The plugin is on real verbs, or is told something that only it knows.
TEST(FrontDevices, TheirOwnVariableStandsBesideAnyOther) {
  EXPECT_EQ(devicesWith("verbs", "software:name=own"), "own ");
}

TEST(FrontDevices, AMistakeInTheirOwnVariableIsNotReplaced) {
  EXPECT_EQ(devicesWith("software:name=shared", "softwear"), "none");
}

}  // namespace
}  // namespace railwise::drop_in::test
