// What connections have counted for themselves stays in the record when they close.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "ok.h"
#include "record/reader.h"
#include "record/writer.h"
#include "scratch.h"

namespace railwise::record {
namespace {

Snapshot readOwnRecord() {
  std::ifstream file(recordPath(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  auto snapshot = parseRecord(std::as_bytes(std::span(bytes)), false, recordPath());
  EXPECT_OK(snapshot);
  return *snapshot;
}

TEST(ClosedConnections, CountOnceAtAnyTime) {
  const test::Scratch scratch;
  start({.folder = scratch.path(), .most_connections = 8, .host = "node1", .plugin = "test"});
  ASSERT_FALSE(recordPath().empty());
  void* const memory = PageMemory::allocate(64);
  ConnectionRecord& connection = PageMemory::pageOf(memory).connection;
  openConnection(connection, Side::kSender, ConnectionState::kRunning);
  connection.counters.slow_messages = 3;
  connection.latency[12] = 4;
  connection.calls[1].ns = 5;
  EXPECT_EQ(readOwnRecord().connections.at(0).slow_messages, 3U);
  EXPECT_EQ(readOwnRecord().closed.counters.slow_messages, 0U);
  setState(connection, ConnectionState::kClosed);
  setState(connection, ConnectionState::kClosed);
  EXPECT_TRUE(readOwnRecord().connections.empty());
  EXPECT_EQ(readOwnRecord().closed.connections, 1U);
  EXPECT_EQ(readOwnRecord().closed.counters.slow_messages, 3U);
  EXPECT_EQ(readOwnRecord().closed.latency[12], 4U);
  EXPECT_EQ(readOwnRecord().closed.calls[1].ns, 5U);
  PageMemory::free(memory, 64);
  EXPECT_EQ(readOwnRecord().closed.counters.slow_messages, 3U);
  stop();
}

}  // namespace
}  // namespace railwise::record
