// The tables and the life of a communicator: names, init, finalize, the contract's corner cases.
#include <filesystem>

#include "api.h"
#include "tests/ok.h"

namespace railwise::test {
namespace {

TYPED_TEST_SUITE(ApiTest, AllVersions, VersionName);

// The versions with a context per communicator, and so with finalize.
template <typename A>
class ContextTest : public ApiTest<A> {
 protected:
  // What stays open for good: the devices of librdmacm.
  static void warmUp() { Pair<A> pair; }
};
TYPED_TEST_SUITE(ContextTest, ContextVersions, VersionName);

size_t openFiles() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TYPED_TEST(ApiTest, StandsUnderBothNames) {
  EXPECT_EQ(&TypeParam::table("ncclNetPlugin_v"), &TypeParam::table("ncclNet_v"));
  EXPECT_STREQ(TypeParam::table().name, "Railwise");
}

TYPED_TEST(ApiTest, InitTwice) {
  Session<TypeParam> first;
  Session<TypeParam> second;
  int devices = 0;
  EXPECT_EQ(TypeParam::table().devices(&devices), ncclSuccess);
  EXPECT_EQ(devices, deviceCount());
}

TYPED_TEST(ApiTest, InitAgainAfterFinalize) {
  for (int round = 0; round < 3; ++round) {
    Pair<TypeParam> pair;
  }
}

TYPED_TEST(ApiTest, InitFailsWithoutLibibverbsAndSaysWhatToDo) {
  unsetenv("RAILWISE_DEVICE");
  setenv("NCCL_IBVERBS_LIB", "libno-such-verbs.so", 1);
  clearLog();
  void* context = kStale;
  EXPECT_NE(TypeParam::init(&context), ncclSuccess);
  if (TypeParam::kHasContext) EXPECT_EQ(context, nullptr);
  const std::string log = warnings();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_HAS(log, "libno-such-verbs.so");
  EXPECT_HAS(log, "Install libibverbs1");
  EXPECT_HAS(log, "RAILWISE_DEVICE=software");
  EXPECT_EQ(TypeParam::finalize(nullptr), ncclSuccess);

  int devices = kUnwritten;
  EXPECT_NE(TypeParam::table().devices(&devices), ncclSuccess);
  EXPECT_EQ(devices, 0);
  unsetenv("NCCL_IBVERBS_LIB");
  Session<TypeParam> works_now;
}

TYPED_TEST(ApiTest, InitRefusesUnknownDevice) {
  setenv("RAILWISE_DEVICE", "hardware", 1);
  clearLog();
  void* context = kStale;
  EXPECT_EQ(TypeParam::init(&context), ncclInvalidUsage);
  EXPECT_HAS(warnings(), "RAILWISE_DEVICE=hardware");
}

TYPED_TEST(ApiTest, InitIsDisabledByNcclIbDisable) {
  useDevice();
  if (onRealDevices()) setenv("RAILWISE_DEVICE", "", 1);  // "verbs" would keep Railwise's devices
  setenv("NCCL_IB_DISABLE", "1", 1);
  void* context = kStale;
  EXPECT_NE(TypeParam::init(&context), ncclSuccess);
  unsetenv("NCCL_IB_DISABLE");
}

// NCCL's own IB network reads it, if NCCL hands the context to that network's one-sided table.
TYPED_TEST(ContextTest, TheContextBeginsWithItsTrafficClass) { expectTrafficClassInContext<TypeParam>(); }

TYPED_TEST(ContextTest, ListenersNobodyConnectsToAreReclaimedByFinalize) {
  this->warmUp();
  const size_t before = openFiles();
  {
    Session<TypeParam> session;
    for (int i = 0; i < 10; ++i) {
      Handle handle;
      void* listener = nullptr;
      ASSERT_EQ(TypeParam::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
      void* send = nullptr;
      ASSERT_EQ(TypeParam::connect(session.context(), 0, handle.bytes(), &send), ncclSuccess);
      if (i % 2 == 0) {
        void* receive = nullptr;
        ASSERT_EQ(TypeParam::accept(listener, &receive), ncclSuccess);
      }
    }
    EXPECT_GT(openFiles(), before + 10);
  }
  EXPECT_EQ(openFiles(), before);
}

TYPED_TEST(ContextTest, ConnectionsNobodyClosedAreReclaimedByFinalize) {
  this->warmUp();
  const size_t before = openFiles();
  {
    Session<TypeParam> session;
    Handle handle;
    void *listener = nullptr, *send = nullptr, *receive = nullptr;
    ASSERT_EQ(TypeParam::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
    shakeHands<TypeParam>(session.context(), handle, listener, &send, &receive);
  }
  EXPECT_EQ(openFiles(), before);
}

TYPED_TEST(ContextTest, TheSecondCommunicatorOutlivesTheFirst) {
  useDevice();
  void* first = nullptr;
  ASSERT_EQ(TypeParam::init(&first), ncclSuccess);
  Session<TypeParam> second;
  ASSERT_EQ(TypeParam::finalize(first), ncclSuccess);
  Pair<TypeParam> pair(second);
  EXPECT_NE(pair.send(), nullptr);
}

TYPED_TEST(ApiTest, RefusesDevicesThatDoNotExist) {
  Session<TypeParam> session;
  typename TypeParam::Properties properties;
  Handle handle;
  void* listener = kStale;
  for (const int device : {-1, deviceCount(), 1000}) {
    EXPECT_EQ(TypeParam::table().getProperties(device, &properties), ncclInvalidArgument);
    EXPECT_EQ(TypeParam::listen(session.context(), device, handle.bytes(), &listener), ncclInvalidArgument);
    EXPECT_EQ(listener, nullptr);
  }
}

TYPED_TEST(ApiTest, RefusesNullArguments) {
  Session<TypeParam> session;
  Handle handle;
  void* out = nullptr;
  int done = kUnwritten;
  EXPECT_EQ(TypeParam::table().devices(nullptr), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::table().getProperties(0, nullptr), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::listen(session.context(), 0, nullptr, &out), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::listen(session.context(), 0, handle.bytes(), nullptr), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::connect(session.context(), 0, nullptr, &out), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::accept(nullptr, &out), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::regMr(nullptr, &done, 4, &out), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::isend(nullptr, &done, 4, 0, nullptr, &out), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::table().test(nullptr, &done, nullptr), ncclInvalidArgument);
  EXPECT_EQ(done, 0);
}

TYPED_TEST(ApiTest, OptionalFunctionsAreNullOrHarmless) {
  if constexpr (TypeParam::kVersion >= 7) {
    EXPECT_EQ(TypeParam::table().getDeviceMr, nullptr);
    EXPECT_EQ(TypeParam::table().irecvConsumed, nullptr);
  }
  if constexpr (TypeParam::kVersion >= 11) {
    ncclNetAttr_v11_t attributes = {};
    EXPECT_EQ(TypeParam::table().setNetAttr(nullptr, &attributes), ncclSuccess);
    EXPECT_EQ(TypeParam::table().finalize(nullptr), ncclSuccess);
  }
}

}  // namespace
}  // namespace railwise::test
