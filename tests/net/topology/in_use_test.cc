#include "net/topology/in_use.h"

#include <gtest/gtest.h>

#include "tests/scratch.h"

namespace railwise::net {
namespace {

std::string driverOf(const test::Scratch& root) {
  Config config;
  config.sysfs_root = root.path();
  return gpuDriver(config);
}

TEST(GpuDriver, IsReadFromTheModule) {
  test::Scratch root;
  EXPECT_EQ(driverOf(root), "") << "a machine without GPUs";
  root.file("sys/module/amdgpu/version", "6.8.5\n");
  EXPECT_EQ(driverOf(root), "AMD 6.8.5");
  root.file("sys/module/nvidia/version", "550.90.07\n");
  EXPECT_EQ(driverOf(root), "NVIDIA 550.90.07");
}

TEST(GpuDriver, MayTellNoVersion) {
  test::Scratch root;
  root.file("sys/module/amdgpu/refcnt", "0\n");
  EXPECT_EQ(driverOf(root), "");
}

}  // namespace
}  // namespace railwise::net
