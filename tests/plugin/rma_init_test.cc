// init, devices and properties of the tables of one-sided communication, and how they leave the work to NCCL.
#include "rma_api.h"
#include "tests/ok.h"

namespace railwise::test {
namespace {

template <typename A>
class RmaInitTest : public testing::Test {
 protected:
  RmaInitTest() {
    useDevice();
    clearLog();
  }
  // init fails without a warning, so that NCCL takes its next network, and one line says why.
  static void expectLeftToNccl(const std::string& why) {
    void* context = kStale;
    EXPECT_EQ(A::init(&context), ncclSystemError);
    EXPECT_EQ(context, nullptr);
    EXPECT_EQ(warnings(), "");
    const std::string line = "no one-sided communication over Railwise, NCCL takes its next network: " + why;
    const size_t found = logText().find(line);
    EXPECT_NE(found, std::string::npos) << logText();
    EXPECT_EQ(logText().find("no one-sided communication", found + line.size()), std::string::npos);
  }
};
TYPED_TEST_SUITE(RmaInitTest, AllRmaVersions, VersionName);

TYPED_TEST(RmaInitTest, NeedsNoInitOfTheNetTable) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("with real devices all tests share a process, which may have a network");
  const auto& table = TypeParam::table();
  EXPECT_STREQ(table.name, "Railwise");
  int count = kUnwritten;
  EXPECT_EQ(table.devices(&count), ncclInvalidUsage);
  void *rma = nullptr, *gin = nullptr;  // NCCL calls init twice for a communicator
  ASSERT_EQ(TypeParam::init(&rma), ncclSuccess) << warnings();
  ASSERT_EQ(TypeParam::init(&gin), ncclSuccess) << warnings();
  EXPECT_NE(rma, nullptr);
  EXPECT_NE(gin, nullptr);
  EXPECT_NE(rma, gin);
  EXPECT_EQ(table.finalize(rma), ncclSuccess);
  EXPECT_EQ(table.devices(&count), ncclSuccess);
  EXPECT_EQ(count, deviceCount());
  EXPECT_EQ(table.finalize(gin), ncclSuccess);
  EXPECT_EQ(table.devices(&count), ncclInvalidUsage) << "the last finalize releases the network";
  EXPECT_EQ(table.devices(nullptr), ncclInvalidArgument);
}

TYPED_TEST(RmaInitTest, DevicesAreThoseOfTheNetTable) {
  Session<Api<12>> session("name=a;name=b,speed=100000");
  RmaRank<TypeParam> rank;
  int count = 0;
  ASSERT_EQ(TypeParam::table().devices(&count), ncclSuccess);
  EXPECT_EQ(count, deviceCount(2));
  for (int device = 0; device < count; ++device) {
    ncclNetProperties_v12_t expected;
    typename TypeParam::Properties its;
    std::memset(&its, 0x5a, sizeof its);
    ASSERT_EQ(Api<12>::table().getProperties(device, &expected), ncclSuccess);
    ASSERT_EQ(TypeParam::table().getProperties(device, &its), ncclSuccess);
    EXPECT_STREQ(its.name, expected.name);
    EXPECT_STREQ(its.pciPath != nullptr ? its.pciPath : "",
                 expected.pciPath != nullptr ? expected.pciPath : "");
    EXPECT_EQ(its.guid, expected.guid);
    EXPECT_EQ(its.ptrSupport, expected.ptrSupport);
    EXPECT_EQ(its.speed, expected.speed);
    EXPECT_EQ(its.port, expected.port);
    EXPECT_EQ(its.maxRecvs, expected.maxRecvs);
    EXPECT_EQ(its.regIsGlobal, expected.regIsGlobal);
    EXPECT_EQ(its.vProps.ndevs, 1);
    EXPECT_EQ(its.vProps.devs[0], device);
    EXPECT_EQ(its.netDeviceType, NCCL_NET_DEVICE_GIN_PROXY);
    EXPECT_EQ(expected.netDeviceType, NCCL_NET_DEVICE_HOST);
  }
  typename TypeParam::Properties its;
  EXPECT_EQ(TypeParam::table().getProperties(500, &its), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::table().getProperties(-1, &its), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::table().getProperties(0, nullptr), ncclInvalidArgument);
}

// NCCL 2.28.9 names GIN's device by the net table's number, which may be a virtual device's.
TYPED_TEST(RmaInitTest, VirtualDevicesAreKnownAndNotCounted) {
  RAILWISE_NEEDS_DEVICES(2U);
  Session<Api<12>> session("name=a;name=b");
  RmaRank<TypeParam> rank;
  ncclNetVDeviceProps_v12_t both = {.ndevs = 2, .devs = {0, 1}};
  int fused = 0, count = 0;
  ASSERT_EQ(Api<12>::table().makeVDevice(&fused, &both), ncclSuccess) << warnings();
  ASSERT_EQ(TypeParam::table().devices(&count), ncclSuccess);
  EXPECT_EQ(count, deviceCount(2));
  typename TypeParam::Properties its;
  ASSERT_EQ(TypeParam::table().getProperties(fused, &its), ncclSuccess);
  EXPECT_EQ(its.vProps.ndevs, 2);
  EXPECT_EQ(its.netDeviceType, NCCL_NET_DEVICE_GIN_PROXY);
  Handle handle;
  rank.listen(handle, fused);
}

TYPED_TEST(RmaInitTest, ASettingSwitchesItOff) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("with real devices all tests share a process, which has read its settings");
  Setting off("RAILWISE_RMA", "0");
  this->expectLeftToNccl("RAILWISE_RMA=0");
  Session<Api<12>> session;  // the net table goes on
  Pair<Api<12>> pair(session);
}

TYPED_TEST(RmaInitTest, GpuMemoryThatNoDeviceReachesIsLeftToNccl) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("gpudirect is its setting");
  useDevice("gpudirect=off");
  void* context = nullptr;
  ASSERT_EQ(TypeParam::init(&context), ncclSuccess) << "a process without GPUs: " << warnings();
  EXPECT_EQ(TypeParam::table().finalize(context), ncclSuccess);
  ASSERT_NE(dlopen(FAKE_CUDA, RTLD_NOW), nullptr) << dlerror();
  this->expectLeftToNccl("no device reaches GPU memory");
  useDevice("link=iwarp,gpudirect=on");
  clearLog();
  this->expectLeftToNccl("no device reaches GPU memory, or all are iWARP");
  useDevice("gpudirect=on");
  ASSERT_EQ(TypeParam::init(&context), ncclSuccess) << warnings();
  EXPECT_EQ(TypeParam::table().finalize(context), ncclSuccess);
}

TYPED_TEST(RmaInitTest, NoDeviceIsLeftToNccl) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("verbs would keep Railwise's devices");
  Setting disable("NCCL_IB_DISABLE", "1");
  void* context = kStale;
  EXPECT_EQ(TypeParam::init(&context), ncclSystemError);
  EXPECT_EQ(context, nullptr);
}

// As of the net table (strict_test.cc): NCCL's init fails when it reads the second device.
TYPED_TEST(RmaInitTest, StrictModeRefusesTheMachine) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("speed is its setting");
  useDevice("name=fast,speed=400000;name=slow,speed=100000");
  Setting strict("RAILWISE_STRICT", "1");
  const auto& table = TypeParam::table();
  void* context = kStale;
  ASSERT_EQ(TypeParam::init(&context), ncclSuccess);
  EXPECT_EQ(context, nullptr);
  int count = 0;
  EXPECT_EQ(table.devices(&count), ncclSuccess);
  EXPECT_EQ(count, 2);
  typename TypeParam::Properties properties;
  EXPECT_EQ(table.getProperties(0, &properties), ncclSuccess);
  EXPECT_EQ(properties.netDeviceType, NCCL_NET_DEVICE_GIN_PROXY);
  EXPECT_EQ(table.getProperties(1, &properties), ncclSystemError);
  EXPECT_HAS(warnings(), "slow has a link of 100 Gb/s");
  Handle handle;
  void* listener = kStale;
  EXPECT_EQ(table.listen(context, 0, handle.bytes(), &listener), ncclInvalidArgument);
  EXPECT_EQ(table.finalize(context), ncclSuccess);
}

// The stand-in says that it is NCCL 2.29.7, which would lose host RMA and its own GIN.
TYPED_TEST(RmaInitTest, OnlyGinIsLeftToAnNcclWithAGinOfItsOwn) {
  void* const nccl = dlopen(NCCL_STAND_IN, RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(nccl, nullptr) << dlerror();
  if constexpr (TypeParam::kGin) {
    this->expectLeftToNccl("this NCCL has no host RMA with a GIN of a plugin");
  } else {
    void* context = nullptr;
    EXPECT_EQ(TypeParam::init(&context), ncclSuccess) << warnings();
    EXPECT_EQ(TypeParam::table().finalize(context), ncclSuccess);
  }
  dlclose(nccl);
}

TEST(RmaProperties, ASignalSettlesNoPutsOfOtherRanks) {
  useDevice();
  clearLog();
  using A = RmaApi<16>;
  RmaRanks<A> ranks(1);
  ncclRmaProperties_v16_t properties = {.flushesAllPutsOnAnySignal = true};
  EXPECT_EQ(A::table().getRmaProperties(ranks[0].group(), &properties), ncclSuccess);
  EXPECT_FALSE(properties.flushesAllPutsOnAnySignal);
  EXPECT_EQ(A::table().getRmaProperties(nullptr, &properties), ncclInvalidArgument);
  EXPECT_EQ(A::table().getRmaProperties(ranks[0].group(), nullptr), ncclInvalidArgument);
  EXPECT_EQ(A::table().getRmaProperties(ranks[0].context(), &properties), ncclInvalidArgument);
}

}  // namespace
}  // namespace railwise::test
