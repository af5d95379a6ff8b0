// Railwise as RCCL loads and calls it, with the level numbers that NCCL and RCCL have had (nccl/logger.cc).
#include <dlfcn.h>

#include "api.h"
#include "rccl_stand_in.h"
#include "tests/ok.h"

namespace railwise::test {
namespace {

using A = Api<11>;  // the newest table that RCCL 2.28 looks up

// RCCL's own library in this process.
class StandIn {
 public:
  explicit StandIn(const char* path) : library_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) ADD_FAILURE() << dlerror();
  }
  StandInLogger* logger() const { return function<StandInLogger>("standInLog"); }
  std::string lastError() const { return function<decltype(ncclGetLastError)>("ncclGetLastError")(nullptr); }
  std::string printed() const { return function<decltype(standInPrinted)>("standInPrinted")(); }
  void warn(const char* text) const { function<decltype(standInWarn)>("standInWarn")(text); }
  void clear() const { function<decltype(standInClear)>("standInClear")(); }

 private:
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
  void* library_;
};

class RcclTest : public testing::TestWithParam<const char*> {
 protected:
  RcclTest() {
    useDevice();
    // By the name of NCCL_NET_PLUGIN=railwise, with the flags of src/plugin/plugin_open.cc.
    const std::string beside = RAILWISE_PLUGIN_PATH;
    const std::string path = beside.substr(0, beside.rfind('/')) + "/librccl-net-railwise.so";
    void* const plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(plugin, nullptr) << dlerror();
    table_ = static_cast<const ncclNet_v11_t*>(dlsym(plugin, "ncclNetPlugin_v11"));
    Session<A> other;  // after another logger the plugin looks at the next one's levels, in every test
    rccl_.clear();
  }
  ~RcclTest() override { EXPECT_EQ(table_->finalize(context_), ncclSuccess); }

  void init() {
    ncclNetCommConfig_v11_t config = {-1};
    ASSERT_EQ(table_->init(&context_, 42, &config, rccl_.logger(), nullptr), ncclSuccess) << rccl_.printed();
  }

  const StandIn rccl_{GetParam()};
  const ncclNet_v11_t* table_ = nullptr;
  void* context_ = nullptr;
};

TEST_P(RcclTest, AGoodJobPrintsNoWarning) {
  init();
  Handle handle;
  void *listener = nullptr, *send = nullptr, *receive = nullptr;
  ASSERT_EQ(table_->listen(context_, 0, handle.bytes(), &listener), ncclSuccess);
  // With RCCL_AINIC_ROCE=1 it passes a struct of its own in the place of the device handle.
  char foreign[64];
  std::memset(foreign, 0x5a, sizeof foreign);
  auto** const place = reinterpret_cast<ncclNetDeviceHandle_v11_t**>(foreign);
  for (Patience patience; send == nullptr || receive == nullptr; patience.again()) {
    if (send == nullptr) ASSERT_EQ(table_->connect(context_, 0, handle.bytes(), &send, place), ncclSuccess);
    if (receive == nullptr) ASSERT_EQ(table_->accept(listener, &receive, place), ncclSuccess);
  }
  for (const char byte : foreign) EXPECT_EQ(byte, 0x5a);
  {
    Memory<A> from(send, 64, 3);
    Memory<A> to(receive, 64);
    void* const received = startReceive<A>(receive, {{to.data(), 64, 1, to.handle()}});
    void* sent = nullptr;
    for (Patience patience; sent == nullptr; patience.again()) {
      sent = reinterpret_cast<void*>(NCCL_NET_OPTIONAL_RECV_COMPLETION);  // as RCCL has it on entry
      ASSERT_EQ(A::isend(send, from.data(), 64, 1, from.handle(), &sent), ncclSuccess);
    }
    finish<A>(sent);
    finish<A>(received);
    EXPECT_EQ(to.wrong(3, 64), 0U);
  }
  EXPECT_EQ(table_->closeSend(send), ncclSuccess);
  EXPECT_EQ(table_->closeRecv(receive), ncclSuccess);
  EXPECT_EQ(table_->closeListen(listener), ncclSuccess);
  EXPECT_EQ(rccl_.printed(), "");
}

TEST_P(RcclTest, AWarningIsOneAndIsTheLastError) {
  init();
  rccl_.clear();
  Handle handle;
  void* listener = nullptr;
  EXPECT_NE(table_->listen(context_, 99, handle.bytes(), &listener), ncclSuccess);
  EXPECT_HAS(rccl_.lastError(), "NET/Railwise : ");
  EXPECT_EQ(rccl_.printed(), "WARN " + rccl_.lastError() + "\n");
}

TEST_P(RcclTest, LookingWhichLevelIsWarnLeavesTheLastErrorAsItWas) {
  rccl_.warn("what went wrong before");
  rccl_.clear();
  init();
  EXPECT_EQ(rccl_.lastError(), "what went wrong before");
  EXPECT_EQ(rccl_.printed(), "");
}

// RCCL up to 6.1 of ROCm takes version 6, 2.21 the newest of 8 to 6, 2.28 the newest of 11 to 6.
TEST(Rccl, FindsEachVersionThatItLooksUpInEachLibraryThatItOpens) {
  const std::string beside = RAILWISE_PLUGIN_PATH;
  const std::string folder = beside.substr(0, beside.rfind('/'));
  // With NCCL_NET_PLUGIN=railwise; without it up to 2.21; without it since 2.27.
  for (const char* const name : {"librccl-net-railwise.so", "librccl-net.so", "libnccl-net.so"}) {
    void* const library = dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    for (const int version : {11, 10, 9, 8, 7, 6}) {
      const std::string symbol = "ncclNetPlugin_v" + std::to_string(version);
      const auto* const table = static_cast<const char* const*>(dlsym(library, symbol.c_str()));
      ASSERT_NE(table, nullptr) << name << " " << symbol;
      EXPECT_STREQ(*table, "Railwise");
    }
    EXPECT_EQ(dlsym(library, "ncclCollNetPlugin_v11"), nullptr);
  }
}

std::string nameOf(const testing::TestParamInfo<const char*>& each) {
  constexpr const char* kNames[] = {"Nccl", "Rccl", "Ncclx"};
  return kNames[each.index];
}
INSTANTIATE_TEST_SUITE_P(Levels, RcclTest, testing::Values(NCCL_STAND_IN, RCCL_STAND_IN, NCCLX_STAND_IN),
                         nameOf);

}  // namespace
}  // namespace railwise::test
