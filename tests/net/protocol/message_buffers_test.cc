// The buffers of messages where there are no immediates.
#include "net/protocol/message_buffers.h"

#include <gtest/gtest.h>

#include <vector>

namespace railwise::net {
namespace {

TEST(MessageBuffers, AreNeededOnlyWithoutImmediates) {
  EXPECT_EQ(MessageBuffers::bytesFor(kRdmaRules, 64, 8), 0U);
  EXPECT_EQ(MessageBuffers::bytesFor(kIwarpRules, 64, 8), std::size_t{64} * kPostedReceives * 8);
}

TEST(MessageBuffers, EachReceiveOfEachQueuePairHasItsOwn) {
  std::vector<std::byte> memory(MessageBuffers::bytesFor(kIwarpRules, 64, 2));
  MessageBuffers buffers;
  buffers.use(memory.data(), 64);
  EXPECT_EQ(buffers.at(0, 0), memory.data());
  EXPECT_EQ(buffers.at(0, kPostedReceives - 1) + 64, buffers.at(1, 0));
  EXPECT_EQ(buffers.at(1, kPostedReceives - 1) + 64, memory.data() + memory.size());
  const ibv_sge sge = buffers.sge(1, 3, 77);
  EXPECT_EQ(sge.addr, reinterpret_cast<uint64_t>(buffers.at(1, 3)));
  EXPECT_EQ(sge.length, 64U);
  EXPECT_EQ(sge.lkey, 77U);
}

}  // namespace
}  // namespace railwise::net
