// Which devices NCCL is shown where a NIC has a data-direct function (a fake libmlx5 says so).
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "net/device/device.h"
#include "software_device.h"
#include "tests/ok.h"
#include "verbs/drivers/fake_mlx5.h"

namespace railwise::net {
namespace {

constexpr char kFunction[] = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";

test::FakeMlx5& fake() { return test::fakeMlx5(RAILWISE_FAKE_MLX5_PATH); }

class DataDirect : public testing::Test {
 protected:
  DataDirect()
      : config_(test::softwareConfig("name=mlx5_0,pci=/sys/devices/pci0000:3a/0000:3b:00.0,speed=100000")) {
    fake() = {};
    fake().reg_dmabuf_mr = [](auto... arguments) { return verbs::library().reg_dmabuf_mr(arguments...); };
    config_.mlx5_library = RAILWISE_FAKE_MLX5_PATH;
    EXPECT_OK(verbs::load(config_));
  }
  ~DataDirect() override {
    list_ = DeviceList();
    verbs::unload();
  }
  // "NAME PATH", by index.
  std::vector<std::string> shown(int setting) {
    list_ = DeviceList();
    config_.ib_data_direct = setting;
    Result<DeviceList> list = discoverDevices(config_);
    EXPECT_OK(list);
    list_ = std::move(*list);
    std::vector<std::string> texts;
    for (const auto& device : list_.devices)
      texts.push_back(device->name() + std::string(" ") + device->properties().pci_path);
    return texts;
  }

  Config config_;
  DeviceList list_;
};

TEST_F(DataDirect, StandsForItsNicByDefault) {
  EXPECT_EQ(shown(1), std::vector<std::string>{std::string("mlx5_0_dma ") + kFunction});
  EXPECT_EQ(list_.devices[0]->properties().pointer_support, kHostPointers | kDmaBufPointers);
}

TEST_F(DataDirect, StandsBesideItOrNotAtAllWhenAskedFor) {
  const std::string itself = "mlx5_0 /sys/devices/pci0000:3a/0000:3b:00.0";
  EXPECT_EQ(shown(0), std::vector<std::string>{itself});
  EXPECT_EQ(shown(2), (std::vector<std::string>{itself, std::string("mlx5_0_dma ") + kFunction}));
  fake().data_direct_error = ENODEV;
  EXPECT_EQ(shown(2), std::vector<std::string>{itself}) << "a NIC without one";
}

TEST_F(DataDirect, OnlyItsDmaBufsGoThroughIt) {
  ASSERT_EQ(shown(2).size(), 2U);
  const int fd = memfd_create("dma-buf", 0);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  for (const auto& device : list_.devices) {
    fake().mlx5_access = -1;
    const auto handle = device->memory().acquireDmaBuf(4096, 4096, 0, fd);
    ASSERT_OK(handle);
    EXPECT_EQ(fake().mlx5_access, device->rails()[0].data_direct ? 1 : -1) << device->name();
    device->memory().release(*handle);
  }
  close(fd);
  const auto fused = fuseDevices(config_, {list_.devices[0].get(), list_.devices[1].get()});
  ASSERT_OK(fused);
  EXPECT_TRUE((*fused)->rails()[1].data_direct);
}

}  // namespace
}  // namespace railwise::net
