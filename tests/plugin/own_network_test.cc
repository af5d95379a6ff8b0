// NCCL's own IB network beside the plugin, on the drop-in libibverbs.so.1 that both could load.
#include "api.h"

namespace railwise::test {
namespace {

class OwnNetwork : public testing::Test {
 protected:
  OwnNetwork() { useDevice(); }

  // Init and finalize; what was logged meanwhile. "": init failed.
  static std::string logOfInit() {
    clearLog();
    void* context = nullptr;
    if (Api<12>::init(&context) != ncclSuccess) return "";
    EXPECT_EQ(Api<12>::finalize(context), ncclSuccess);
    return logText();
  }

  const Setting library_{"NCCL_IBVERBS_LIB", RAILWISE_DROP_IN};
};

TEST_F(OwnNetwork, IsSaidWithTheRemedy) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("the drop-in library");
  const Setting device("RAILWISE_DEVICE", "verbs");
  const std::string log = logOfInit();
  EXPECT_NE(log.find("NCCL_IB_DISABLE=1 RAILWISE_DEVICE=verbs"), std::string::npos) << log;
}

TEST_F(OwnNetwork, SwitchedOffItLeavesRailwiseItsDevices) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("the drop-in library");
  const Setting off("NCCL_IB_DISABLE", "1");
  const Setting device("RAILWISE_DEVICE", "verbs");
  const std::string log = logOfInit();
  EXPECT_NE(log.find("libibverbs: soft0"), std::string::npos) << log;
  EXPECT_EQ(log.find("NCCL_IB_DISABLE=1 RAILWISE_DEVICE=verbs"), std::string::npos) << log;
}

}  // namespace
}  // namespace railwise::test
