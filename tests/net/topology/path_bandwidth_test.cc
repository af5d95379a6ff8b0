#include "net/topology/path_bandwidth.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "cli/device/tree.h"
#include "net/net.h"
#include "net/topology/in_use.h"
#include "softdev/config/config.h"
#include "tests/ok.h"
#include "tests/topo/output_machines.h"
#include "topo/sources/sysfs.h"

namespace railwise::net {
namespace {

using topo::PathType;

// Rank 0 and mlx5_0 on one NUMA node, rank 1 and mlx5_1 on the other.
PathBandwidth twoNodes() {
  return PathBandwidth::compute(topo::test::machineOf(topo::test::twoSwitches()), 2);
}

constexpr int kPort = 400000;

TEST(PathBandwidth, IsWhatTheModelSaysOfThePath) {
  const PathBandwidth paths = twoNodes();
  ASSERT_EQ(paths.gpus(), 2);
  EXPECT_EQ(paths.type(0, 0), PathType::kPix);
  EXPECT_EQ(paths.type(0, 1), PathType::kSys) << "never through the other GPU (PXN), though NVLink is there";
  EXPECT_GT(paths.mbps(0, 0), 2 * paths.mbps(0, 1));
  EXPECT_EQ(paths.mbps(0, 0), paths.mbps(1, 1));
  EXPECT_EQ(paths.mbps(0, 1), paths.mbps(1, 0));
}

TEST(PathBandwidth, WhatIsNotKnownHasNoLimit) {
  const PathBandwidth paths = twoNodes();
  EXPECT_EQ(paths.mbps(-1, 0), PathBandwidth::kUnlimited);
  EXPECT_EQ(paths.mbps(0, 2), PathBandwidth::kUnlimited);
  EXPECT_EQ(PathBandwidth().mbps(0, 0), PathBandwidth::kUnlimited);
  EXPECT_EQ(PathBandwidth().gpus(), 0);
}

TEST(RailMbps, TheLeastOfPortAndPath) {
  const PathBandwidth paths = twoNodes();
  EXPECT_EQ(railMbps(paths, 0, {0, 100000}), 100000);
  EXPECT_EQ(railMbps(paths, 0, {1, kPort}), paths.mbps(0, 1));
  EXPECT_EQ(railMbps(paths, -1, {1, kPort}), kPort);
  EXPECT_EQ(railMbps(PathBandwidth(), 0, {0, 0}), 1) << "shares are divided by it";
}

TEST(PathBandwidth, FindsGpusInAllSpellings) {
  const PathBandwidth paths = twoNodes();
  EXPECT_EQ(paths.findGpu("0000:21:00.0"), 1);
  EXPECT_EQ(paths.findGpu("00000000:21:00.0"), 1) << "as CUDA writes it";
  EXPECT_EQ(paths.findGpu("21:00.0"), 1);
  EXPECT_EQ(paths.findGpu("0000:22:00.0"), -1) << "a NIC";
}

TEST(PathBandwidth, TheNearestGpuCarriesMost) {
  const PathBandwidth paths = twoNodes();
  const RailPort first{0, kPort};
  const RailPort second{1, kPort};
  EXPECT_EQ(paths.nearestGpu({{first}}), 0);
  EXPECT_EQ(paths.nearestGpu({{second}}), 1);
  EXPECT_EQ(paths.nearestGpu({{first, second}}), 0) << "both are as good: the first";
  EXPECT_EQ(paths.nearestGpu({{RailPort{1, 1000}}}), 1) << "both carry the port: the shorter path";
  EXPECT_EQ(PathBandwidth().nearestGpu({{first}}), -1);
}

// The built-in machine that `RAILWISE_DEVICE=software:@asymmetric` plays, by the /sys that `railwise device
// sysfs` shows.
PathBandwidth asymmetric(const std::string& host_name, std::size_t devices) {
  auto parsed = softdev::parseMachine("@asymmetric", host_name);
  EXPECT_OK(parsed);
  for (const softdev::HostConfig& host : parsed->hosts) {
    if (host.name != host_name) continue;
    const topo::Settings settings;
    topo::SysfsOptions options;
    options.nets.emplace();
    for (std::size_t i = 0; i < devices; ++i)
      options.nets->push_back({.name = host.devices[i].name,
                               .busid = host.devices[i].pci.substr(host.devices[i].pci.rfind('/') + 1),
                               .speed_mbps = static_cast<int>(host.devices[i].ports[0].speed_mbps),
                               .port = 1});
    auto document = topo::readSysfs(cli::deviceTree(host), std::nullopt, settings, options, nullptr);
    EXPECT_OK(document);
    const auto machine = topo::makeMachine(std::move(*document), settings, host_name);
    EXPECT_OK(machine);
    return PathBandwidth::compute(*machine, devices);
  }
  ADD_FAILURE() << "no host " << host_name;
  return {};
}

TEST(PathBandwidth, OfAnAsymmetricMachine) {
  const PathBandwidth a = asymmetric("A", 4);
  ASSERT_EQ(a.gpus(), 4);
  for (int gpu = 0; gpu < 4; ++gpu) {
    for (std::size_t nic = 0; nic < 4; ++nic) {
      const auto own = static_cast<std::size_t>(gpu);
      if (nic == own) continue;
      const bool same_node = own / 2 == nic / 2;
      EXPECT_EQ(a.type(gpu, nic), same_node ? PathType::kPhb : PathType::kSys) << gpu << " " << nic;
      EXPECT_GE(a.mbps(gpu, own), a.mbps(gpu, nic)) << gpu << " " << nic;
      if (!same_node) EXPECT_GT(a.mbps(gpu, own), a.mbps(gpu, nic)) << gpu << " " << nic;
    }
  }
}

TEST(PathBandwidth, IsOfThePortWhereThePathIsFaster) {
  const PathBandwidth b = asymmetric("B", 2);  // 200 Gb/s NICs on PCIe 4 x16, on node 1
  ASSERT_EQ(b.gpus(), 4);
  EXPECT_EQ(b.mbps(2, 0), 192000);
  EXPECT_LT(b.mbps(0, 0), b.mbps(2, 0)) << "from the other node";
  EXPECT_EQ(b.nearestGpu({{RailPort{0, 200000}, RailPort{1, 200000}}}), 2);
}

TEST(GpuInUse, WhatTheSettingSays) {
  const PathBandwidth paths = twoNodes();
  Config config;
  EXPECT_EQ(gpuInUse(config, paths, {{RailPort{1, kPort}}}), 1) << "the nearest";
  config.gpu = "0000:11:00.0";
  EXPECT_EQ(gpuInUse(config, paths, {{RailPort{1, kPort}}}), 0);
  config.gpu = "0000:99:00.0";
  EXPECT_EQ(gpuInUse(config, paths, {{RailPort{1, kPort}}}), 1);
  EXPECT_EQ(gpuInUse(config, PathBandwidth(), {{RailPort{1, kPort}}}), -1);
}

// The plugin's settings for host A of the built-in machine "asymmetric": its devices, and its /sys in a
// folder.
class AsymmetricHost : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    const auto machine = softdev::parseMachine("@asymmetric", "A");
    ASSERT_OK(machine);
    EXPECT_OK(cli::writeTree(cli::deviceTree(machine->hosts[0]), folder_ + "/root"));
    const std::string device = "software:@asymmetric;fabric=paths" + std::to_string(getpid());
    setenv("RAILWISE_DEVICE", device.c_str(), 1);
    setenv("RAILWISE_HOST", "A", 1);
    setenv("RAILWISE_SYSFS_ROOT", (folder_ + "/root").c_str(), 1);
  }
  void TearDown() override {
    for (const char* name :
         {"RAILWISE_DEVICE", "RAILWISE_HOST", "RAILWISE_SYSFS_ROOT", "RAILWISE_GPU", "NCCL_NET_FORCE_MERGE"})
      unsetenv(name);
    std::filesystem::remove_all(folder_);
  }

 private:
  std::string folder_ = "/tmp/railwise-paths-XXXXXX";
};

// A device of two rails on different NUMA nodes, a GPU beside one.
TEST_F(AsymmetricHost, RailBandwidthsOfADeviceAcrossSockets) {
  setenv("RAILWISE_GPU", "0000:04:00.0", 1);  // beside mlx5_0
  const Result<Net*> net = Net::acquire();
  ASSERT_OK(net);
  const int members[] = {0, 2};
  const Device& fused = *(*net)->device(*(*net)->makeVirtualDevice(members));
  const auto mbps = (*net)->railBandwidths(fused);
  EXPECT_EQ(mbps[0], 384000) << "PCIe 5 x16, less than the port's 400 Gb/s";
  EXPECT_GT(mbps[1], 0);
  EXPECT_LE(mbps[1], mbps[0] / 2) << "through the other socket: 24 GB/s by the rules of 2.31";
  Net::release();
}

// NCCL makes the fused devices itself, by makeVDevice: the rails are numbered as without the setting.
TEST_F(AsymmetricHost, ForcedMergesDoNotChangeTheRails) {
  for (const char* merges : {"mlx5_0,mlx5_1", "mlx5_0:1,mlx5_2:1;mlx5_1:1,mlx5_3:1"}) {
    setenv("NCCL_NET_FORCE_MERGE", merges, 1);
    const Result<Net*> net = Net::acquire();
    ASSERT_OK(net) << merges;
    ASSERT_EQ((*net)->deviceCount(), 4) << merges;
    (void)(*net)->paths();  // numbers the rails
    for (int i = 0; i < 4; ++i) EXPECT_EQ((*net)->device(i)->properties().rail, i) << merges;
    Net::release();
  }
}

// The stand-in for NVIDIA's driver library answers GPU 0000:11:00.0 (fake_cuda.c).
TEST(GpuInUse, TheCurrentDeviceOfCuda) {
  EXPECT_EQ(currentGpu(), "") << "a driver that nobody has loaded is not loaded";
  void* const driver = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr) << dlerror();
  EXPECT_EQ(currentGpu(), "0000:11:00.0");
  EXPECT_EQ(gpuInUse({}, twoNodes(), {{RailPort{1, kPort}}}), 0);
  const auto set_error = reinterpret_cast<void (*)(int)>(dlsym(driver, "fakeCudaError"));
  set_error(201);  // CUDA_ERROR_INVALID_CONTEXT: no device is current
  EXPECT_EQ(currentGpu(), "");
  EXPECT_EQ(gpuInUse({}, twoNodes(), {{RailPort{1, kPort}}}), 1);
  dlclose(driver);
}

}  // namespace
}  // namespace railwise::net
