// Atomic operations: what they return and leave, who may ask for them, and that none is lost.
#include <gtest/gtest.h>

#include <thread>

#include "softdev/endpoint.h"
#include "softdev/peer_process.h"

namespace railwise::softdev::test {
namespace {

Options atomicOptions() {
  Options options;
  options.mr_access |= IBV_ACCESS_REMOTE_ATOMIC;
  options.qp_access |= IBV_ACCESS_REMOTE_ATOMIC;
  return options;
}

// `add` for fetch and add, or compare and swap; the old value goes to `offset` of our buffer.
int sendAtomic(Endpoint& end, ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap = 0,
               uint64_t remote_offset = 0, uint32_t length = 8) {
  ibv_sge sge;
  ibv_send_wr wr;
  ibv_send_wr* bad = nullptr;
  end.fill({.opcode = opcode, .offset = 256, .length = length}, &wr, &sge);
  wr.wr.atomic.remote_addr = end.peer.memory + remote_offset;
  wr.wr.atomic.rkey = end.peer.rkey;
  wr.wr.atomic.compare_add = compare_add;
  wr.wr.atomic.swap = swap;
  return ibv_post_send(end.qp, &wr, &bad);
}

ibv_wc_status run(Endpoint& end, ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap = 0,
                  uint64_t remote_offset = 0, uint32_t length = 8) {
  EXPECT_EQ(sendAtomic(end, opcode, compare_add, swap, remote_offset, length), 0);
  const ibv_wc wc = end.wait();
  if (wc.status == IBV_WC_SUCCESS) {
    EXPECT_EQ(wc.opcode, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP);
    EXPECT_EQ(wc.byte_len, 8U);
  }
  return wc.status;
}

TEST(Atomics, FetchAndAdd) {
  const OpenDevice device;
  Pair pair(device, atomicOptions());
  *pair.b.word(0) = 40;
  EXPECT_EQ(run(pair.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 2), IBV_WC_SUCCESS);
  EXPECT_EQ(*pair.a.word(256), 40U);
  EXPECT_EQ(*pair.b.word(0), 42U);
}

TEST(Atomics, CompareAndSwap) {
  const OpenDevice device;
  Pair pair(device, atomicOptions());
  *pair.b.word(0) = 1;
  EXPECT_EQ(run(pair.a, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 7), IBV_WC_SUCCESS);
  EXPECT_EQ(*pair.a.word(256), 1U);
  EXPECT_EQ(*pair.b.word(0), 7U);
  EXPECT_EQ(run(pair.a, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 9), IBV_WC_SUCCESS);
  EXPECT_EQ(*pair.a.word(256), 7U);
  EXPECT_EQ(*pair.b.word(0), 7U);
}

TEST(Atomics, MisalignedIsAnInvalidRequest) {
  const OpenDevice device;
  Pair pair(device, atomicOptions());
  EXPECT_EQ(run(pair.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 4), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  ibv_async_event event{};
  ASSERT_EQ(getAsyncEvent(device, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_REQ_ERR);
  EXPECT_EQ(event.element.qp, pair.b.qp);
  ackAsyncEvent(&event);
}

TEST(Atomics, NeedAccessOfRegionAndQueuePair) {
  const OpenDevice device;
  Options no_region = atomicOptions();
  no_region.mr_access &= ~IBV_ACCESS_REMOTE_ATOMIC;
  Options no_queue = atomicOptions();
  no_queue.qp_access &= ~unsigned{IBV_ACCESS_REMOTE_ATOMIC};
  for (const Options& options : {no_region, no_queue}) {
    Pair pair(device, device, atomicOptions(), options);
    EXPECT_EQ(run(pair.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1), IBV_WC_REM_ACCESS_ERR);
    ibv_async_event event{};
    ASSERT_EQ(getAsyncEvent(device, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    ackAsyncEvent(&event);
  }
}

TEST(Atomics, EightBytesOnly) {
  const OpenDevice device;
  Pair pair(device, atomicOptions());
  EXPECT_EQ(run(pair.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 0, 16), IBV_WC_LOC_LEN_ERR);
}

TEST(Atomics, NoneIsLostAmongProcesses) {
  const OpenDevice device;
  Options options = atomicOptions();
  PeerProcess peer(device.fabric(), options);
  Endpoint target(device, options);  // connected to the peer process, which adds from there
  Pair pair(device, options);        // adds from here, to the same word
  connectEnds(target, peer);
  *target.word(0) = 0;
  pair.a.peer.memory = target.address().memory;
  pair.a.peer.rkey = target.mr->rkey;
  ASSERT_EQ(deregMr(pair.b.mr), 0);
  pair.b.mr = regMr(pair.b.pd, target.buffer.data(), target.buffer.size(), options.mr_access);
  ASSERT_NE(pair.b.mr, nullptr);
  pair.a.peer.rkey = pair.b.mr->rkey;
  constexpr int kAdds = 2000;
  std::thread there([&] {
    for (int i = 0; i < kAdds; ++i) {
      peer.send({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .length = 8, .remote_offset = 0, .imm = 3});
      EXPECT_EQ(peer.wait().status, IBV_WC_SUCCESS);
    }
  });
  for (int i = 0; i < kAdds; ++i) EXPECT_EQ(run(pair.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1), IBV_WC_SUCCESS);
  there.join();
  EXPECT_EQ(*target.word(0), uint64_t{kAdds} * 4);
}

}  // namespace
}  // namespace railwise::softdev::test
