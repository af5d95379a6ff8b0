// What a clear-to-send says, and which work request carries it, without a device.
#include "net/receiver/clear_to_send_writer.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "record/writer.h"

namespace railwise::net {
namespace {

constexpr uint64_t kPeerRing = 0x10000;
constexpr uint64_t kOneReceive = kSlots + 3;  // in slot 3

MemoryHandle memoryWithKeys(uint32_t first_key) {
  MemoryHandle memory = {};
  for (uint32_t rail = 0; rail < kMaxRails; ++rail) memory.keys[rail] = MemoryKeys{0, first_key + rail};
  return memory;
}

class ClearToSendWriterTest : public testing::Test {
 protected:
  explicit ClearToSendWriterTest(uint32_t entry_bytes = sizeof(ClearToSend)) {
    writer_.use(ring_.data()->bytes, entry_bytes);
    queue_pair_.setSendSize(ClearToSendWriter::kDepth);
    queue_pair_.window_key = 8;
    queue_pair_.peer_window_key = 9;
    queue_pair_.index = 2;
  }

  void stage(const std::vector<ReceiveBuffer>& buffers, uint64_t stamp, std::size_t rails) {
    receive_.open(kOneReceive, static_cast<uint32_t>(buffers.size()), 64);
    for (std::size_t i = 0; i < buffers.size(); ++i) receive_.rooms[i] = buffers[i].room();
    writer_.stage(receive_, buffers, stamp, rails);
  }

  // The way of several buffers writes what the quick way has just written: ring_, work_ and sge_.
  void expectTheSameOf(const std::vector<ReceiveBuffer>& buffers, uint64_t stamp, std::size_t rails) {
    const std::vector<Line> first = ring_;
    ring_.assign(ring_.size(), {});
    stage(buffers, stamp, rails);
    ibv_send_wr work = {};
    ibv_sge sge = {};
    writer_.fillNext(work, sge, queue_pair_, kPeerRing, kOneReceive, static_cast<uint32_t>(buffers.size()),
                     false);
    EXPECT_EQ(0, std::memcmp(first.data(), ring_.data(), ring_.size() * sizeof(Line)));
    EXPECT_EQ(sge.addr, sge_.addr);
    EXPECT_EQ(sge.length, sge_.length);
    EXPECT_EQ(work.opcode, work_.opcode);
    EXPECT_EQ(work.wr.rdma.remote_addr, work_.wr.rdma.remote_addr);
  }

  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> ring_ = std::vector<Line>(kRingEntries);
  struct Free {
    void operator()(void* memory) const { record::PageMemory::free(memory, QueuePairs::kBytes); }
  };
  const std::unique_ptr<void, Free> memory_{record::PageMemory::allocate(QueuePairs::kBytes)};
  QueuePairs queue_pairs_{memory_.get()};
  LaneQueuePair& queue_pair_ = queue_pairs_.add();
  MemoryHandle buffer_memory_ = memoryWithKeys(100);
  const ReceiveBuffer buffer_ = {0x7000, 4096, 5, &buffer_memory_, nullptr};
  ClearToSendWriter writer_;
  Receive receive_;
  ibv_send_wr work_ = {};
  ibv_sge sge_ = {};
};

TEST_F(ClearToSendWriterTest, OfOneBufferIsOneEntry) {
  writer_.stageOne<false>(kOneReceive, buffer_, 4096, 1);
  writer_.fillOne(work_, sge_, queue_pair_, kPeerRing, kOneReceive, 1);
  const std::size_t offset = std::size_t{ringPlace(kOneReceive)} * sizeof(ClearToSend);
  EXPECT_EQ(sge_.length, sizeof(ClearToSend) - kUnwrittenBytes);
  EXPECT_EQ(work_.wr.rdma.remote_addr, kPeerRing + offset + kUnwrittenBytes);
  EXPECT_EQ(work_.wr.rdma.rkey, 9U);
  const auto& entry = *reinterpret_cast<const ClearToSend*>(sge_.addr - kUnwrittenBytes);
  EXPECT_EQ(entry.remote_key, 100U);
  EXPECT_EQ(entry.address, 0x7000U);
  EXPECT_EQ(entry.tag, 5U);
  EXPECT_EQ(entry.bytes, 4096U);
  EXPECT_EQ(entry.stamp, makeStamp(kOneReceive, 1, 0));
}

// The two ways of a single buffer must tell the sender one thing.
TEST_F(ClearToSendWriterTest, BothWaysWriteTheSame) {
  writer_.stageOne<false>(kOneReceive, buffer_, 4096, 1);
  writer_.fillOne(work_, sge_, queue_pair_, kPeerRing, kOneReceive, 1);
  expectTheSameOf({buffer_}, makeStamp(kOneReceive, 1, 0), 1);
}

// And so must the two ways of several buffers. What goes beyond one entry counts as control bytes.
TEST_F(ClearToSendWriterTest, BothWaysWriteTheSameForSeveralBuffers) {
  queue_pair_.counts().control_each = sizeof(ClearToSend) - kUnwrittenBytes;
  const std::vector<ReceiveBuffer> buffers = {
      buffer_, {0x9000, 64, 6, &buffer_memory_, nullptr}, {0, 0, 7, nullptr, nullptr}};
  const uint64_t stamp = makeStamp(kOneReceive, 3, 0);
  ClearToSend* const entries = writer_.entriesOf(kOneReceive);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    writer_.stageInGroup(entries[i], kOneReceive, i, buffers[i], buffers[i].room());
    entries[i].stamp = stamp;
  }
  writer_.fillOne(work_, sge_, queue_pair_, kPeerRing, kOneReceive, 1, 3);
  const int64_t control = queue_pair_.counts().control_extra;
  expectTheSameOf(buffers, stamp, 1);
  EXPECT_EQ(control, int64_t{2 * sizeof(ClearToSend)});
  EXPECT_EQ(queue_pair_.counts().control_extra, 2 * control);
}

TEST_F(ClearToSendWriterTest, OneOfSoManyIsSignalledAndCoversAllBefore) {
  writer_.setDepth(16);
  int signalled = 0;
  for (uint64_t number = 1; number <= 24; ++number) {
    writer_.fillOne(work_, sge_, queue_pair_, kPeerRing, number, 1);
    EXPECT_EQ(workQueuePair(work_.wr_id), 2U);
    if ((work_.send_flags & IBV_SEND_SIGNALED) == 0) continue;
    ++signalled;
    EXPECT_EQ(number % 12, 0U);
    EXPECT_EQ(workRequestsEnded(work_.wr_id), 12U);
  }
  EXPECT_EQ(signalled, 2);
}

TEST_F(ClearToSendWriterTest, AShortSendQueueIsNeverFullOfUnsignalledOnes) {
  for (uint32_t depth = 1; depth <= ClearToSendWriter::kDepth; ++depth) {
    writer_.setDepth(depth);
    bool signalled = false;
    for (uint32_t i = 0; i < depth; ++i) {
      writer_.fillOne(work_, sge_, queue_pair_, kPeerRing, 1 + i, 1);
      signalled = signalled || (work_.send_flags & IBV_SEND_SIGNALED) != 0;
    }
    EXPECT_TRUE(signalled) << depth;
    queue_pair_.cover();
  }
}

class ClearToSendWriterOfRailsTest : public ClearToSendWriterTest {
 protected:
  ClearToSendWriterOfRailsTest() : ClearToSendWriterTest(entryBytes(2)) {}
  const ClearToSend& entry(uint32_t i) {
    const std::size_t at = std::size_t{ringPlace(kOneReceive) + i} * entryBytes(2) + sizeof(MoreKeys);
    return *reinterpret_cast<const ClearToSend*>(reinterpret_cast<const std::byte*>(ring_.data()) + at);
  }
};

TEST_F(ClearToSendWriterOfRailsTest, AnEntryHasAKeyForEachRail) {
  const MemoryHandle other = memoryWithKeys(200);
  const ReceiveBuffer second = {0x9000, 64, 6, &other, nullptr};
  const uint64_t stamp = makeStamp(kOneReceive, 2, kStampHost);
  stage({buffer_, second}, stamp, 3);
  for (uint8_t rail = 0; rail < 3; ++rail) {
    EXPECT_EQ(keyOfRail(entry(0), rail), 100U + rail);
    EXPECT_EQ(keyOfRail(entry(1), rail), 200U + rail);
  }
  EXPECT_EQ(entry(1).bytes, 64U);
  writer_.fillNext(work_, sge_, queue_pair_, kPeerRing, kOneReceive, 2, false);
  EXPECT_EQ(sge_.addr + sge_.length, reinterpret_cast<uint64_t>(&entry(1) + 1));
  EXPECT_EQ(sge_.length, 2 * entryBytes(2) - kUnwrittenBytes);
}

TEST_F(ClearToSendWriterOfRailsTest, BothWaysWriteTheSame) {
  writer_.stageOne<true>(kOneReceive, buffer_, 4096, 3);
  writer_.fillOne(work_, sge_, queue_pair_, kPeerRing, kOneReceive, kMaxRails);
  expectTheSameOf({buffer_}, makeStamp(kOneReceive, 1, 0), 3);
}

TEST_F(ClearToSendWriterOfRailsTest, AnotherEpochHasOtherKeys) {
  stage({buffer_}, makeStamp(kOneReceive, 1, 0), 2);
  const auto key = [&](const MemoryHandle& memory, uint8_t rail) -> Result<MemoryKeys> {
    EXPECT_EQ(&memory, &buffer_memory_);
    return MemoryKeys{0, 500U + rail};
  };
  EXPECT_TRUE(writer_.stageKeys(receive_, 2, key));
  EXPECT_EQ(keyOfRail(entry(0), 0), 500U);
  EXPECT_EQ(keyOfRail(entry(0), 1), 501U);
  EXPECT_EQ(entry(0).stamp, makeStamp(kOneReceive, 1, 0));
  const auto none = [](const MemoryHandle&, uint8_t) -> Result<MemoryKeys> {
    return Status{Code::kSystem, ENOMEM};
  };
  EXPECT_FALSE(writer_.stageKeys(receive_, 2, none));
}

}  // namespace
}  // namespace railwise::net
