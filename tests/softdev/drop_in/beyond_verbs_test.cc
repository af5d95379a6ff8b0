// What the plugin calls beside verbs (include/railwise/device.h). The devices are chosen once in a process,
// so each case is a process of its own.
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "railwise/device.h"
#include "tests/ok.h"

namespace railwise::drop_in::test {
namespace {

std::string& logged() {
  static std::string it;
  return it;
}

[[gnu::format(printf, 5, 6)]] void keep(int level, unsigned long, const char*, int, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  logged() += std::to_string(level) + " " + text + "\n";
}

int configure(const std::string& devices) {
  return railwise_device_configure(devices.c_str(), "", ("test" + std::to_string(getpid())).c_str(), keep);
}

// The first device of the list, opened; closed at the end.
class Opened {
 public:
  Opened() {
    ibv_device** list = ibv_get_device_list(nullptr);
    if (list != nullptr) context_ = ibv_open_device(list[0]);
    if (list != nullptr) ibv_free_device_list(list);
  }
  ~Opened() {
    if (context_ != nullptr) ibv_close_device(context_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ibv_context* context() const { return context_; }

 private:
  ibv_context* context_ = nullptr;
};

TEST(BeyondVerbs, ConfigureComesBeforeTheEnvironment) {
  setenv("RAILWISE_DEVICE", "software:name=environment", 1);
  ASSERT_EQ(configure("name=told"), 0);
  const Opened device;
  ASSERT_NE(device.context(), nullptr);
  EXPECT_STREQ(ibv_get_device_name(device.context()->device), "told");
}

TEST(BeyondVerbs, AWrongTextIsLoggedAndRefused) {
  EXPECT_EQ(configure("speed=fast"), EINVAL);
  EXPECT_EQ(logged().rfind("2 ", 0), 0U) << logged();
  EXPECT_HAS(logged(), "bad value \"fast\"");
}

TEST(BeyondVerbs, OpenDevicesKeepTheirConfiguration) {
  ASSERT_EQ(configure("name=told"), 0);
  const Opened device;
  EXPECT_EQ(configure("name=told"), 0);
  EXPECT_EQ(configure("name=other"), EBUSY);
}

TEST(BeyondVerbs, ADeviceSaysItsPlaceAndItsGpuMemory) {
  ASSERT_EQ(configure("name=told,pci=0000:3b:00.0,gpudirect=peermem"), 0);
  const Opened device;
  ASSERT_NE(device.context(), nullptr);
  EXPECT_HAS(std::string(railwise_device_pci_path(device.context()->device)), "0000:3b:00.0");
  EXPECT_EQ(railwise_device_gpu_memory(device.context()->device), RAILWISE_DEVICE_GPU_BY_ADDRESS);
}

TEST(BeyondVerbs, DevicesOfOneFabricReachEachOther) {
  ASSERT_EQ(configure("name=told"), 0);
  const Opened one, other;
  EXPECT_NE(railwise_device_fabric(one.context()), 0U);
  EXPECT_EQ(railwise_device_fabric(one.context()), railwise_device_fabric(other.context()));
}

TEST(BeyondVerbs, TheConnectionManagerIsFoundByNames) {
  EXPECT_NE(railwise_device_cm("rdma_connect"), nullptr);
  EXPECT_NE(railwise_device_cm("railwise_local_addresses"), nullptr);
  EXPECT_EQ(railwise_device_cm("rdma_join_multicast"), nullptr);
}

}  // namespace
}  // namespace railwise::drop_in::test
