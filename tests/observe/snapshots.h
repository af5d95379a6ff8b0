// Reads of a machine, made by hand, for the tests of railwise top.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "record/snapshot.h"

namespace railwise::observe::top::test {

inline constexpr uint64_t kSecond = 1000000000;
inline constexpr uint64_t kNow = 1000 * kSecond;
inline constexpr uint32_t kGbps400 = 400000;

inline record::Rail makeRail(const std::string& device, uint64_t sent = 0, uint64_t received = 0) {
  record::Rail rail;
  rail.device = device;
  rail.port = 1;
  rail.link = 2;
  rail.state = record::RailState::kUp;
  rail.state_since_ns = 10 * kSecond;
  rail.claimed_mbps = kGbps400;
  rail.totals.bytes_sent = sent;
  rail.totals.bytes_received = received;
  return rail;
}

// Runs, and nothing is open.
inline record::Connection makeConnection(uint32_t slot, record::Side side = record::Side::kSender) {
  record::Connection connection;
  connection.slot = slot;
  connection.id = 100 + slot;
  connection.side = side;
  connection.state = record::ConnectionState::kRunning;
  connection.device = "mlx5_0";
  connection.peer = "node7:5123";
  connection.peer_device = "mlx5_4";
  connection.state_since_ns = 20 * kSecond;
  connection.posted = connection.completed = 50;
  record::QueuePair pair;
  pair.number = 7 + slot;
  pair.rail = 0;
  connection.queue_pairs.push_back(pair);
  return connection;
}

// Its oldest message is open for `ns`, and NCCL looks at it all the time.
inline record::Connection makeWaiting(uint32_t slot, uint64_t ns,
                                      record::WaitsFor waits_for = record::WaitsFor::kData) {
  record::Connection connection = makeConnection(slot, record::Side::kReceiver);
  connection.posted = connection.completed + 2;
  connection.oldest = connection.completed + 1;
  connection.oldest_since_ns = connection.waits_since_ns = kNow - ns;
  connection.looked_ns = kNow - 10000000;
  connection.waits_for = waits_for;
  return connection;
}

inline record::Connection makeLost(uint32_t slot, uint64_t ns) {
  record::Connection connection = makeWaiting(slot, ns, record::WaitsFor::kPath);
  connection.state = record::ConnectionState::kLost;
  connection.state_since_ns = kNow - ns;
  connection.reason = "mlx5_0 port 1 is down";
  return connection;
}

inline record::Snapshot makeSnapshot(uint32_t pid, int rank, std::vector<record::Rail> rails,
                                     std::vector<record::Connection> connections) {
  record::Snapshot snapshot;
  snapshot.file = "record." + std::to_string(pid);
  snapshot.read_ns = kNow;
  snapshot.read_unix_ns = 1700000000 * kSecond;
  snapshot.process.pid = pid;
  snapshot.process.process_start = pid;
  snapshot.process.alive = true;
  snapshot.process.rank = rank;
  snapshot.process.ranks = 8;
  snapshot.process.host = "node3";
  snapshot.process.program = "python3";
  snapshot.rails = std::move(rails);
  snapshot.connections = std::move(connections);
  return snapshot;
}

// The same machine, one second earlier.
inline record::Snapshot secondBefore(record::Snapshot snapshot) {
  snapshot.read_ns -= kSecond;
  snapshot.read_unix_ns -= kSecond;
  return snapshot;
}

}  // namespace railwise::observe::top::test
