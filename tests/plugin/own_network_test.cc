// NCCL's own IB network beside the plugin, on the drop-in libibverbs.so.1 that both could load.
#include "api.h"
#include "tests/ok.h"

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
  EXPECT_HAS(log, "NCCL_IB_DISABLE=1 RAILWISE_DEVICE=verbs");
}

TEST_F(OwnNetwork, SwitchedOffItLeavesRailwiseItsDevices) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("the drop-in library");
  const Setting off("NCCL_IB_DISABLE", "1");
  const Setting device("RAILWISE_DEVICE", "verbs");
  const std::string log = logOfInit();
  EXPECT_HAS(log, "libibverbs: soft0");
  EXPECT_LACKS(log, "NCCL_IB_DISABLE=1 RAILWISE_DEVICE=verbs");
}

}  // namespace
}  // namespace railwise::test
