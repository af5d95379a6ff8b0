// What a connection writes into the record beside its counts: who the peer is, what it waits for, and what
// went wrong. record_agreement.cc holds the counts in every test.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <string>
#include <thread>

#include "loop_connection.h"
#include "net/loop_traffic.h"
#include "net/own_record.h"
#include "port_control.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

record::Connection connectionOf(record::Side side) {
  const Outcome<record::Snapshot> snapshot = test::ownRecord();
  EXPECT_OK(snapshot);
  for (const record::Connection& each : snapshot->connections) {
    if (each.side == side) return each;
  }
  ADD_FAILURE() << "no such connection";
  return {};
}

std::vector<record::Event> eventsOf(record::EventKind kind) {
  const Outcome<record::Snapshot> snapshot = test::ownRecord();
  EXPECT_OK(snapshot);
  std::vector<record::Event> found = snapshot->events;
  std::erase_if(found, [&](const record::Event& event) { return event.kind != kind; });
  return found;
}

// Polls `request` in vain until the record of `side` waits for something.
record::Connection pollUntilItWaits(Request* request, record::Side side, record::WaitsFor waits_for) {
  for (test::Patience patience;; patience.again()) {
    bool done = false;
    EXPECT_OK(request->connection->test(*request, &done, nullptr));
    EXPECT_FALSE(done);
    if (record::Connection its = connectionOf(side); its.waits_for == waits_for) return its;
  }
}

TEST(Recording, NamesBothEndsOfAConnection) {
  LoopConnection loop(2 * kHalf, "count=1");
  const record::Connection send = connectionOf(record::Side::kSender);
  const record::Connection receive = connectionOf(record::Side::kReceiver);
  EXPECT_EQ(send.state, record::ConnectionState::kRunning);
  EXPECT_EQ(send.device, "soft0");
  EXPECT_EQ(send.peer_device, "soft0");
  EXPECT_EQ(send.peer, receive.peer);
  EXPECT_NE(send.pair_id, 0U);
  EXPECT_EQ(send.pair_id, receive.pair_id);
  ASSERT_EQ(send.queue_pairs.size(), 1U);
  ASSERT_EQ(receive.queue_pairs.size(), 1U);
  EXPECT_EQ(send.queue_pairs[0].peer_number, receive.queue_pairs[0].number);
  ASSERT_EQ(send.pairs.size(), 1U);
  EXPECT_EQ(send.pairs[0].gid, receive.pairs[0].peer_gid);
}

TEST(Recording, CountsMessagesAtBothEnds) {
  LoopConnection loop(2 * kHalf, "count=1");
  ASSERT_TRUE(Traffic(loop).run(100, 512));
  for (const record::Side side : {record::Side::kSender, record::Side::kReceiver}) {
    const record::Connection its = connectionOf(side);
    EXPECT_EQ(its.posted, 100U);
    EXPECT_EQ(its.completed, 100U);
  }
  const Outcome<record::Snapshot> snapshot = test::ownRecord();
  EXPECT_EQ(snapshot->rails.at(0).totals.messages_sent, 100U);
  EXPECT_EQ(snapshot->rails.at(0).totals.messages_received, 100U);
  EXPECT_EQ(snapshot->rails.at(0).totals.bytes_received, 100U * 512);
}

TEST(Recording, CountsMessagesThatAreSpreadOverRails) {
  LoopConnection loop(2 * kHalf, "count=2", 2);
  ASSERT_TRUE(Traffic(loop).run(20, 100'000));
  for (const record::Side side : {record::Side::kSender, record::Side::kReceiver}) {
    const record::Connection its = connectionOf(side);
    EXPECT_EQ(its.posted, 20U);
    EXPECT_EQ(its.completed, 20U);
    EXPECT_EQ(its.queue_pairs.size(), 2U);
  }
  const Outcome<record::Snapshot> snapshot = test::ownRecord();
  uint64_t received = 0;
  for (const record::Rail& rail : snapshot->rails) received += rail.totals.bytes_received;
  EXPECT_EQ(received, 20U * 100'000);
}

TEST(Recording, CountsMessagesOfSeveralQueuePairs) {
  const test::Setting two("NCCL_IB_QPS_PER_CONNECTION", "2");
  LoopConnection loop(2 * kHalf, "count=1");
  ASSERT_TRUE(Traffic(loop).run(20, 512));
  const record::Connection its = connectionOf(record::Side::kSender);
  EXPECT_EQ(its.queue_pairs.size(), 2U);
  EXPECT_EQ(its.posted, 20U);
  EXPECT_EQ(its.completed, 20U);
}

TEST(Recording, SamplesTheTimeAndSizeOfMessages) {
  LoopConnection loop(2 * kHalf, "count=1");
  ASSERT_TRUE(Traffic(loop).run(64 + 4 * record::kSample, 512));
  const record::Connection its = connectionOf(record::Side::kSender);
  uint32_t timed = 0;
  for (const uint32_t count : its.latency) timed += count;
  EXPECT_GE(timed, 4U);
  EXPECT_EQ(its.size.at(9), timed);  // 512 bytes
}

TEST(Recording, SamplesTheTimeAndSizeOfGroups) {
  for (const std::size_t bytes : {8, 512, 65536}) {
    LoopConnection loop(2 * kHalf, "count=1");
    for (uint64_t i = 0; i < 64 + 4 * record::kSample; ++i) {
      Request* const receive = loop.receive(2, kHalf, bytes);
      Request* const sends[] = {loop.send(0, bytes), loop.send(0, bytes)};
      for (Request* request : {sends[0], sends[1], receive})
        ASSERT_TRUE(request != nullptr && LoopConnection::finish(request));
    }
    const record::Connection its = connectionOf(record::Side::kSender);
    uint32_t timed = 0;
    for (const uint32_t count : its.latency) timed += count;
    EXPECT_GE(timed, 4U) << bytes;
    EXPECT_EQ(its.size.at(static_cast<std::size_t>(std::countr_zero(2 * bytes))), timed) << bytes;
  }
}

TEST(Recording, AReceiverWithoutDataWaitsForThem) {
  LoopConnection loop(2 * kHalf, "count=1");
  Request* const receive = loop.receive(1, kHalf, 4096);
  const record::Connection its = pollUntilItWaits(receive, record::Side::kReceiver, record::WaitsFor::kData);
  EXPECT_EQ(its.oldest, 1U);
  EXPECT_EQ(its.oldest_bytes, 4096U);
}

TEST(Recording, ASenderWithoutAReceiveWaitsForAClearToSend) {
  LoopConnection loop(2 * kHalf, "count=1");
  for (test::Patience patience;; patience.again()) {
    EXPECT_EQ(loop.send(0, 64), nullptr);
    if (connectionOf(record::Side::kSender).waits_for == record::WaitsFor::kClearToSend) break;
  }
}

TEST(Recording, ASlowMessageIsNotedOnce) {
  const test::Setting slow("RAILWISE_SLOW_MESSAGE", "1");
  LoopConnection loop(2 * kHalf, "count=1");
  Request* const receive = loop.receive(1, kHalf, 64);
  for (test::Patience patience; eventsOf(record::EventKind::kSlowMessage).empty(); patience.again()) {
    bool done = false;
    ASSERT_OK(receive->connection->test(*receive, &done, nullptr));
  }
  const std::vector<record::Event> events = eventsOf(record::EventKind::kSlowMessage);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].numbers[0], 1U);
  EXPECT_EQ(events[0].text, "data of the peer");
}

TEST(Recording, AFailoverLeavesItsReasonAndItsEvents) {
  LoopConnection loop(2 * kHalf, "count=2");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(64, 512));
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(64, 512));
  const record::Connection its = connectionOf(record::Side::kSender);
  EXPECT_EQ(its.state, record::ConnectionState::kRunning);
  EXPECT_EQ(its.epoch, 2U);
  EXPECT_EQ(its.failovers, 1U);
  EXPECT_TRUE(its.degraded);
  EXPECT_EQ(its.completed, 128U);
  const Outcome<record::Snapshot> snapshot = test::ownRecord();
  ASSERT_GE(snapshot->rails.size(), 2U);
  EXPECT_EQ(snapshot->rails[0].device, "soft0");
  EXPECT_EQ(snapshot->rails[0].state, record::RailState::kDown);
  EXPECT_GE(snapshot->rails[0].failovers, 1U);
  EXPECT_EQ(snapshot->rails.at(static_cast<size_t>(its.queue_pairs.at(0).rail)).device, "soft1");
  EXPECT_FALSE(eventsOf(record::EventKind::kPortDown).empty());
  EXPECT_FALSE(eventsOf(record::EventKind::kPathLost).empty());
  EXPECT_FALSE(eventsOf(record::EventKind::kPathFound).empty());
}

TEST(Recording, AConnectionWithoutAPathSaysSo) {
  LoopConnection loop(2 * kHalf, "count=1");
  ASSERT_TRUE(Traffic(loop).run(8, 512));
  Request* const receive = loop.receive(1, kHalf, 64);
  test::changePort("soft0:1", "down");
  const record::Connection its = pollUntilItWaits(receive, record::Side::kReceiver, record::WaitsFor::kPath);
  EXPECT_NE(its.reason, "");
  EXPECT_NE(its.state, record::ConnectionState::kRunning);
}

TEST(Recording, AClosedConnectionLeavesItsCountsToItsRail) {
  LoopConnection loop(2 * kHalf, "count=1");
  ASSERT_TRUE(Traffic(loop).run(10, 512));
  loop.useAnother();
  Context::close(&loop.sender());
  Context::close(&loop.receiver());
  const Outcome<record::Snapshot> snapshot = test::ownRecord();
  EXPECT_EQ(snapshot->connections.size(), 2U);
  EXPECT_EQ(snapshot->rails.at(0).totals.bytes_received, 10U * 512);
  EXPECT_EQ(snapshot->closed.connections, 2U);
  EXPECT_EQ(eventsOf(record::EventKind::kClosed).size(), 2U);
}

TEST(Recording, AListenerIsInTheRecordUntilItsPeerHasCome) {
  LoopConnection loop(2 * kHalf, "count=1");
  char handle[kHandleBytes];
  Listener* const listener = *loop.context().listen(loop.device(), handle);
  EXPECT_EQ(connectionOf(record::Side::kListener).state, record::ConnectionState::kListening);
  Context::close(listener);
  const Outcome<record::Snapshot> snapshot = test::ownRecord();
  EXPECT_EQ(snapshot->connections.size(), 2U);
}

TEST(Recording, WithoutARecordEverythingWorks) {
  const test::Setting no_record("RAILWISE_METRICS", "0");
  LoopConnection loop(2 * kHalf, "count=2");
  loop.usesDevicesItself();  // there is no record to compare with
  EXPECT_EQ(record::recordPath(), "");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(64, 512));
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(64, 512));
}

}  // namespace
}  // namespace railwise::net
