// RAILWISE_STRICT as NCCL meets it. NCCL takes its next network, perhaps sockets, if init or devices fails,
// or if device 0 cannot be described; its own init fails if another device cannot be described. Every test
// runs in a process of its own (ctest).
#include <optional>
#include <utility>

#include "api.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::test {
namespace {

template <typename A>
class StrictTest : public ApiTest<A> {
 protected:
  // What NCCL does with a network that it could use: init, devices, and the type of device 0 (plugin/net.cc,
  // ncclNetPluginInit, ncclNetCheckDeviceVersion); then every device, for its topology (graph/topo.cc).
  // Returns what its own init returns. Nothing: it goes on to the next network.
  static std::optional<ncclResult_t> ncclsInit() {
    clearLog();
    void* context = nullptr;
    if (A::init(&context) != ncclSuccess) return std::nullopt;
    int count = 0;
    typename A::Properties properties;
    std::optional<ncclResult_t> result;
    if (A::table().devices(&count) == ncclSuccess && count > 0 &&
        A::table().getProperties(0, &properties) == ncclSuccess) {
      result = ncclSuccess;
      for (int device = 0; device < count && *result == ncclSuccess; ++device)
        result = A::table().getProperties(device, &properties);
    }
    EXPECT_EQ(A::finalize(context), ncclSuccess);
    return result;
  }
};
TYPED_TEST_SUITE(StrictTest, AllVersions, VersionName);

TYPED_TEST(StrictTest, WithoutItNcclGoesOnWhenThereIsNoDevice) {
  Setting device("RAILWISE_DEVICE", "");
  Setting library("NCCL_IBVERBS_LIB", "libno-such-verbs.so");
  EXPECT_EQ(this->ncclsInit(), std::nullopt);
}

TYPED_TEST(StrictTest, WithoutADeviceNcclsInitFails) {
  Setting device("RAILWISE_DEVICE", "");
  Setting library("NCCL_IBVERBS_LIB", "libno-such-verbs.so");
  Setting strict("RAILWISE_STRICT", "gdr");
  EXPECT_EQ(this->ncclsInit(), ncclSystemError);
  EXPECT_HAS(warnings(), "RAILWISE_STRICT=gdr: no RDMA device can be used");
  // The last warning is what ncclGetLastError tells.
  EXPECT_TRUE(warnings().ends_with("or unset RAILWISE_STRICT\n")) << warnings();
}

TYPED_TEST(StrictTest, IbDisableIsNoWayOut) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("verbs would keep Railwise's devices");
  useDevice();
  Setting disable("NCCL_IB_DISABLE", "1");
  Setting strict("RAILWISE_STRICT", "1");
  EXPECT_EQ(this->ncclsInit(), ncclSystemError);
  EXPECT_HAS(warnings(), "Unset NCCL_IB_DISABLE");
}

TYPED_TEST(StrictTest, ASlowPortFailsInit) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("speed is its setting");
  useDevice("name=fast,speed=400000;name=slow,speed=100000");
  Setting strict("RAILWISE_STRICT", "1");
  EXPECT_EQ(this->ncclsInit(), ncclSystemError);
  EXPECT_HAS(warnings(), "slow has a link of 100 Gb/s, and fast, a NIC of its type, one of 400 Gb/s");
}

TYPED_TEST(StrictTest, WordsThatAreNotInTheListAreNotRefused) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("speed is its setting");
  useDevice("name=fast,speed=400000;name=slow,speed=100000");
  Setting strict("RAILWISE_STRICT", "gdr,topology,version");
  EXPECT_EQ(this->ncclsInit(), ncclSuccess);
}

TYPED_TEST(StrictTest, AGoodMachineConnects) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("a real machine may have faults");
  Setting strict("RAILWISE_STRICT", "1");
  Pair<TypeParam> pair;
}

TYPED_TEST(StrictTest, AWrongValueFailsInit) {
  useDevice();
  Setting strict("RAILWISE_STRICT", "gdrr");
  EXPECT_EQ(this->ncclsInit(), ncclSystemError);
  EXPECT_HAS(warnings(), "RAILWISE_STRICT=gdrr is not understood, so init fails");
}

TYPED_TEST(StrictTest, AMachineThatWasMendedIsTakenAtTheNextInit) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("speed is its setting");
  Setting strict("RAILWISE_STRICT", "1");
  useDevice("name=fast,speed=400000;name=slow,speed=100000");
  EXPECT_EQ(this->ncclsInit(), ncclSystemError);
  Session<TypeParam> session;
  int count = 0;
  EXPECT_EQ(TypeParam::table().devices(&count), ncclSuccess);
  EXPECT_EQ(count, 1);
  Pair<TypeParam> pair(session);
}

TYPED_TEST(StrictTest, NothingWorksOnARefusedMachine) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("speed is its setting");
  useDevice("name=fast,speed=400000;name=slow,speed=100000");
  Setting strict("RAILWISE_STRICT", "1");
  void* context = nullptr;
  ASSERT_EQ(TypeParam::init(&context), ncclSuccess);
  Handle handle;
  void* listener = kStale;
  EXPECT_NE(TypeParam::listen(context, 0, handle.bytes(), &listener), ncclSuccess);
  EXPECT_EQ(TypeParam::finalize(context), ncclSuccess);
}

TYPED_TEST(StrictTest, ANameOfNoDeviceIsWarnedOf) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("the names are those of its devices");
  useDevice();
  Setting hca("NCCL_IB_HCA", "soft0,mlx5_9 ");
  EXPECT_EQ(this->ncclsInit(), ncclSuccess);
  EXPECT_HAS(warnings(), "is named \"mlx5_9 \"");
}

// The names are looked at once in a process.
TYPED_TEST(StrictTest, MisspeltNamesAreWarnedOfOnce) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE(
      "with real devices all tests share a process, which has looked at the names before");
  Setting misspelt("NCCL_IB_HCS", "mlx5_0");
  Setting unknown("RAILWISE_NO_SUCH_THING", "1");
  Setting newer("NCCL_SOME_NEWER_THING", "1");
  Setting image("NCCL_VERSION", "2.29.7-1");
  useDevice();
  (void)this->ncclsInit();
  EXPECT_HAS(warnings(), "did you mean NCCL_IB_HCA? NCCL_IB_HCS has no effect\n");
  EXPECT_HAS(warnings(), "RAILWISE_NO_SUCH_THING is not a setting");
  EXPECT_LACKS(warnings(), "NCCL_SOME_NEWER_THING");
  EXPECT_LACKS(warnings(), "NCCL_VERSION");
  (void)this->ncclsInit();
  EXPECT_LACKS(warnings(), "NCCL_IB_HCS");
}

// Connects device 0 to device 1, both in this process, until an end fails. Returns what connect and accept
// say.
template <typename A>
std::pair<ncclResult_t, ncclResult_t> connectUnequal(const std::string& strict_words) {
  Setting strict("RAILWISE_STRICT", strict_words);
  // NICs of different types, so that their speeds may differ inside a machine.
  Session<A> session(
      "name=fast,speed=400000,mtu=4096,part=0x0001;name=slow,speed=100000,mtu=1024,part=0x0002");
  Handle handle;
  void *listener = nullptr, *send = nullptr, *receive = nullptr;
  EXPECT_EQ(A::listen(session.context(), 1, handle.bytes(), &listener), ncclSuccess);
  ncclResult_t connected = ncclSuccess, accepted = ncclSuccess;
  for (Patience patience;
       (send == nullptr && connected == ncclSuccess) || (receive == nullptr && accepted == ncclSuccess);
       patience.again()) {
    if (send == nullptr && connected == ncclSuccess)
      connected = A::connect(session.context(), 0, handle.bytes(), &send);
    if (receive == nullptr && accepted == ncclSuccess) accepted = A::accept(listener, &receive);
  }
  EXPECT_EQ(A::table().closeListen(listener), ncclSuccess);
  EXPECT_EQ(A::table().closeSend(send), ncclSuccess);
  EXPECT_EQ(A::table().closeRecv(receive), ncclSuccess);
  return {connected, accepted};
}

constexpr std::pair kBothFail = {ncclRemoteError, ncclRemoteError};

TYPED_TEST(StrictTest, UnequalPeersConnectWithoutIt) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("speed and MTU are its settings");
  EXPECT_EQ(connectUnequal<TypeParam>(""), std::pair(ncclSuccess, ncclSuccess));
  EXPECT_EQ(connectUnequal<TypeParam>("device"), std::pair(ncclSuccess, ncclSuccess));
}

TYPED_TEST(StrictTest, PeersOfUnequalSpeedAreRefusedAtBothEnds) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("speed is its setting");
  EXPECT_EQ(connectUnequal<TypeParam>("speed"), kBothFail);
  EXPECT_HAS(warnings(), "RAILWISE_STRICT: the ends differ in speed: 100000 Mb/s at slow");
  EXPECT_HAS(warnings(), "without speed lets the job run so");
}

TYPED_TEST(StrictTest, PeersThatDifferOtherwiseAreRefusedAtBothEnds) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("the MTU is its setting");
  EXPECT_EQ(connectUnequal<TypeParam>("version"), kBothFail);
  EXPECT_HAS(warnings(), "RAILWISE_STRICT: the ends differ in MTU: 1024 bytes at slow");
}

}  // namespace
}  // namespace railwise::test
