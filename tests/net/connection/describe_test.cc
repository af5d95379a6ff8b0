// What an end says of itself in the handshake.
#include <gtest/gtest.h>

#include "loop_connection.h"
#include "net/wireup/asymmetry.h"
#include "tests/scratch.h"

namespace railwise::net {
namespace {

TEST(Describe, TellsTheGpuDriver) {
  const test::Scratch root;
  root.file("sys/module/nvidia/version", "550.90.07\n");
  const test::Setting machine("RAILWISE_SYSFS_ROOT", root.path());
  LoopConnection loop(4096);
  EXPECT_EQ(fieldText(loop.receiver().answerer().local().gpu_driver), "NVIDIA 550.90.07");
}

TEST(Describe, TellsTypeAndFirmwareOfEachNic) {
  LoopConnection loop(4096, "count=2", 2);
  const EndInfo& end = loop.receiver().answerer().local();
  ASSERT_EQ(end.rails, 2);
  for (int i = 0; i < end.rails; ++i) {
    const ibv_device_attr& nic = loop.device().rails()[static_cast<std::size_t>(i)].hca->attributes();
    EXPECT_EQ(end.rail[i].nic_vendor, nic.vendor_id);
    EXPECT_EQ(end.rail[i].nic_part, nic.vendor_part_id);
    EXPECT_EQ(fieldText(end.rail[i].nic_firmware), "railwise-" RAILWISE_VERSION);
  }
  EXPECT_TRUE(compareEnds(end, end).empty());
}

// A get does not wait for the get before it.
TEST(Describe, TellsHowManyReadsAQueuePairTakesAtOnce) {
  LoopConnection loop(4096);
  EXPECT_EQ(loop.receiver().answerer().local().rail[0].reads, verbs::kReadDepth);
  for (Connection* end :
       {static_cast<Connection*>(&loop.sender()), static_cast<Connection*>(&loop.receiver())}) {
    ibv_qp_attr attributes = {};
    ibv_qp_init_attr made = {};
    ibv_qp* const qp = end->link().endpoint.queue_pairs[0].qp;
    const int mask = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
    ASSERT_EQ(verbs::library().query_qp(qp, &attributes, mask, &made), 0);
    EXPECT_EQ(attributes.max_rd_atomic, verbs::kReadDepth);
    EXPECT_EQ(attributes.max_dest_rd_atomic, verbs::kReadDepth);
  }
}

}  // namespace
}  // namespace railwise::net
