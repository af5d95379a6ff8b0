#include "observe/top/model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

#include "observe/top/text.h"

namespace railwise::observe::top {
namespace {

using record::Connection;
using record::ConnectionState;
using record::growth;
using record::kNotCalledNs;
using record::RailCounters;
using record::RailState;
using record::Snapshot;
using record::Totals;
using record::WaitsFor;

uint64_t age(uint64_t since_ns, uint64_t now_ns) { return since_ns == 0 ? 0 : growth(since_ns, now_ns); }

void add(Traffic& sum, const Traffic& more) {
  sum.known = sum.known || more.known;
  sum.bytes_in += more.bytes_in;
  sum.bytes_out += more.bytes_out;
  sum.messages_in += more.messages_in;
  sum.messages_out += more.messages_out;
}

Traffic trafficOf(const Totals& grown, double seconds) {
  const auto rate = [&](uint64_t count) { return static_cast<double>(count) / seconds; };
  return {true, rate(grown.bytes_received), rate(grown.bytes_sent), rate(grown.messages_received),
          rate(grown.messages_sent)};
}

Totals totalsOf(const Snapshot& snapshot) {
  Totals sum = {};
  for (const record::Rail& rail : snapshot.rails) add(sum, rail.totals);
  return sum;
}

// A process in both reads. `before` is null where the earlier read has no such process, or no time lies
// between them.
struct Reads {
  const Snapshot* before = nullptr;
  const Snapshot* now = nullptr;
  double seconds = 0;
  bool counts_rails = true;  // false: another record of the process counts the ports already
};

std::vector<Reads> pairReads(const std::vector<Snapshot>& before, const std::vector<Snapshot>& now) {
  std::vector<Reads> pairs;
  for (const Snapshot& snapshot : now) {
    Reads reads{.now = &snapshot};
    const Snapshot* const earlier = earlierRead(before, snapshot);
    if (earlier != nullptr && earlier->read_ns < snapshot.read_ns) {
      reads.before = earlier;
      reads.seconds = static_cast<double>(snapshot.read_ns - earlier->read_ns) / 1e9;
    }
    // The spy in front of Railwise sees what Railwise counts itself.
    reads.counts_rails = snapshot.process.alive &&
                         !(snapshot.process.spy && std::ranges::any_of(now, [&](const Snapshot& other) {
                             return !other.process.spy && other.process.pid == snapshot.process.pid;
                           }));
    pairs.push_back(reads);
  }
  return pairs;
}

const record::Rail* railBefore(const Reads& reads, const record::Rail& rail) {
  if (reads.before == nullptr) return nullptr;
  for (const record::Rail& earlier : reads.before->rails)
    if (earlier.device == rail.device && earlier.port == rail.port) return &earlier;
  return nullptr;
}

// Down is worse than failed: a device that has failed is opened anew by Railwise.
int badness(RailState state) {
  constexpr int kBadness[] = {0, 1, 3, 2};
  return kBadness[static_cast<std::size_t>(state)];
}

void addRail(RailRow& row, const record::Rail& rail, const Reads& reads) {
  if (badness(rail.state) > badness(row.state)) {
    row.state = rail.state;
    row.state_age_ns = 0;
  }
  if (rail.state == row.state)
    row.state_age_ns = std::max(row.state_age_ns, age(rail.state_since_ns, reads.now->read_ns));
  row.link = std::max(row.link, rail.link);
  row.rail = std::max(row.rail, rail.rail);
  row.plane = std::max(row.plane, rail.plane);
  row.claimed_mbps = std::max(row.claimed_mbps, rail.claimed_mbps);
  row.measured_mbps = std::max(row.measured_mbps, rail.measured_mbps);
  ++row.processes;
  row.connections += rail.connections;
  add<RailCounters>(row, rail);
  const record::Rail* const before = railBefore(reads, rail);
  if (before == nullptr) return;
  const auto grown = growth<RailCounters>(*before, rail);
  add(row.grown, grown);
  add(row.traffic, trafficOf(grown.totals, reads.seconds));
}

// The only rail of a connection that sends messages; -1: it has several, or other work.
int onlyRail(const Connection& connection) {
  if (connection.side != record::Side::kSender || isOneSided(connection) || connection.queue_pairs.empty())
    return -1;
  const int rail = connection.queue_pairs.front().rail;
  const bool only = std::all_of(connection.queue_pairs.begin(), connection.queue_pairs.end(),
                                [&](const record::QueuePair& pair) { return pair.rail == rail; });
  return only ? rail : -1;
}

// What the samples of the connections of `rail`, a place in the later read, have added between both reads.
void addTimes(RailRow& row, int rail, const Reads& reads) {
  for (const Connection& connection : reads.now->connections) {
    if (onlyRail(connection) != rail) continue;
    const Connection* const before = earlierState(reads.before, connection);
    if (before == nullptr) continue;
    for (std::size_t bucket = 0; bucket < connection.latency.size(); ++bucket) {
      const uint64_t grown = growth(uint64_t{before->latency[bucket]}, uint64_t{connection.latency[bucket]});
      row.timed += grown;
      row.timed_ns += static_cast<double>(grown) * std::ldexp(1.5, static_cast<int>(bucket));  // its middle
    }
  }
}

std::vector<RailRow> railRows(const std::vector<Reads>& pairs) {
  std::vector<RailRow> rows;
  for (const Reads& reads : pairs) {
    if (!reads.counts_rails) continue;
    for (std::size_t place = 0; place < reads.now->rails.size(); ++place) {
      const record::Rail& rail = reads.now->rails[place];
      const std::string host = hostOf(reads.now->process);
      auto row = std::ranges::find_if(rows, [&](const RailRow& other) {
        return other.host == host && other.device == rail.device && other.port == rail.port;
      });
      if (row == rows.end()) {
        rows.push_back({.host = host, .device = rail.device, .port = rail.port});
        row = rows.end() - 1;
      }
      addRail(*row, rail, reads);
      addTimes(*row, static_cast<int>(place), reads);
    }
  }
  std::ranges::sort(rows, [](const RailRow& a, const RailRow& b) {
    if (a.host != b.host) return nameBefore(a.host, b.host);
    return a.device != b.device ? nameBefore(a.device, b.device) : a.port < b.port;
  });
  return rows;
}

// A queue pair that is not in the earlier read is new and has counted from 0.
uint64_t newBytes(const Connection& before, const Connection& now) {
  uint64_t bytes = 0;
  for (const record::QueuePair& pair : now.queue_pairs) {
    const auto earlier = std::ranges::find_if(before.queue_pairs, [&](const record::QueuePair& other) {
      return other.number == pair.number && other.rail == pair.rail && other.lane == pair.lane &&
             before.epoch == now.epoch;
    });
    bytes += earlier == before.queue_pairs.end() ? pair.bytes : growth(earlier->bytes, pair.bytes);
  }
  return bytes;
}

Traffic trafficOf(const Connection& before, const Connection& now, double seconds) {
  Totals grown = {};
  const bool sends = now.side == record::Side::kSender;
  (sends ? grown.bytes_sent : grown.bytes_received) = newBytes(before, now);
  (sends ? grown.messages_sent : grown.messages_received) = growth(before.completed, now.completed);
  return trafficOf(grown, seconds);
}

// The age of the oldest open message. The oldest message is noted at looks: where it is complete by now, a
// younger one is the oldest, and its age is not known.
uint64_t oldestAge(const Connection& connection, uint64_t now_ns) {
  const bool open = connection.posted > connection.completed;
  return open && connection.oldest > connection.completed ? age(connection.oldest_since_ns, now_ns) : 0;
}

ConnectionRow connectionRow(const Reads& reads, const Connection& connection) {
  const uint64_t now_ns = reads.now->read_ns;
  ConnectionRow row{.snapshot = reads.now, .connection = &connection};
  row.open = growth(connection.completed, connection.posted);
  row.age_ns = age(connection.state_since_ns, now_ns);
  if (const Connection* before = earlierState(reads.before, connection))
    row.traffic = trafficOf(*before, connection, reads.seconds);
  if (!reads.now->process.alive) {
    row.stage = Stage::kGone;
    return row;
  }
  switch (connection.state) {
    case ConnectionState::kFailed:
      row.stage = Stage::kFailed;
      break;
    case ConnectionState::kLost:
    case ConnectionState::kReconnecting:
      row.stage = Stage::kNoPath;
      // It can go to and fro between both states.
      if (connection.waits_for == WaitsFor::kPath || connection.waits_for == WaitsFor::kPeer)
        row.age_ns = std::max(row.age_ns, age(connection.waits_since_ns, now_ns));
      break;
    case ConnectionState::kListening:
    case ConnectionState::kConnecting:
      row.stage = Stage::kComingUp;
      break;
    default:
      row.age_ns = oldestAge(connection, now_ns);
      row.stage = row.open == 0 ? Stage::kIdle : row.age_ns >= kWaitNs ? Stage::kWaiting : Stage::kWorking;
  }
  return row;
}

std::vector<ConnectionRow> connectionRows(const std::vector<Reads>& pairs) {
  std::vector<ConnectionRow> rows;
  for (const Reads& reads : pairs)
    for (const Connection& connection : reads.now->connections)
      rows.push_back(connectionRow(reads, connection));
  std::ranges::stable_sort(rows, [](const ConnectionRow& a, const ConnectionRow& b) {
    return a.stage != b.stage ? a.stage < b.stage : a.age_ns > b.age_ns;
  });
  return rows;
}

bool isUp(const Connection& connection) { return connection.state == ConnectionState::kRunning; }

// For how long NCCL has not called while messages were open; 0: it calls, or nothing is open.
uint64_t notCalled(const Reads& reads) {
  uint64_t youngest = UINT64_MAX;
  for (const Connection& connection : reads.now->connections) {
    if (!isUp(connection) || connection.posted <= connection.completed) continue;
    // Whoever posts or completes is called. A single read does not tell.
    const Connection* const before = earlierState(reads.before, connection);
    if (before == nullptr || before->posted != connection.posted || before->completed != connection.completed)
      return 0;
    const uint64_t look = std::max(connection.looked_ns, connection.state_since_ns);
    youngest = std::min(youngest, look == 0 ? 0 : age(look, reads.now->read_ns));
  }
  return youngest != UINT64_MAX && youngest >= kNotCalledNs ? youngest : 0;
}

void setHangingCall(ProcessRow& row, const record::Snapshot& now) {
  for (const Connection& connection : now.connections) {
    const uint64_t inside_ns = age(connection.looked_ns, now.read_ns);
    if (connection.in_call == 0 || inside_ns < kNotCalledNs || inside_ns <= row.hangs_ns) continue;
    row.hangs_ns = inside_ns;
    row.hangs_in = record::kCallNames[connection.in_call - 1];
  }
}

uint64_t stillFor(const record::Snapshot& now) {
  constexpr uint64_t kStillNs = std::chrono::nanoseconds(5 * record::kBeat).count();
  if (now.process.alive_ns == 0) return 0;
  const uint64_t still_ns = growth(now.process.alive_ns, now.read_ns);
  return still_ns > kStillNs ? still_ns : 0;
}

ProcessRow processRow(const Reads& reads) {
  ProcessRow row{.snapshot = reads.now};
  row.totals = totalsOf(*reads.now);
  row.connections = reads.now->connections.size();
  for (const Connection& connection : reads.now->connections) row.up += isUp(connection) ? 1 : 0;
  if (!reads.now->process.alive) return row;
  for (const Connection& connection : reads.now->connections) {
    row.open += growth(connection.completed, connection.posted);
    row.oldest_age_ns = std::max(row.oldest_age_ns, oldestAge(connection, reads.now->read_ns));
  }
  row.still_ns = stillFor(*reads.now);
  setHangingCall(row, *reads.now);
  row.not_called_ns = row.hangs_ns > 0 ? 0 : notCalled(reads);
  if (reads.before == nullptr) return row;
  // Rail by rail: a rail that is new in the table must not count from the beginning.
  row.traffic.known = true;
  for (const record::Rail& rail : reads.now->rails)
    if (const record::Rail* before = railBefore(reads, rail))
      add(row.traffic, trafficOf(growth(before->totals, rail.totals), reads.seconds));
  return row;
}

std::vector<ProcessRow> processRows(const std::vector<Reads>& pairs,
                                    const std::vector<ConnectionRow>& connections) {
  std::vector<ProcessRow> rows;
  for (const Reads& reads : pairs) rows.push_back(processRow(reads));
  for (const ConnectionRow& connection : connections) {  // the worst first
    for (ProcessRow& row : rows)
      if (row.snapshot == connection.snapshot && !row.worst) row.worst = connection;
  }
  std::ranges::sort(rows, [](const ProcessRow& a, const ProcessRow& b) {
    const auto key = [](const record::Process& p) {
      return std::tuple(!p.alive, hostOf(p), p.rank, p.pid, p.spy);
    };
    return key(a.snapshot->process) < key(b.snapshot->process);
  });
  return rows;
}

Sums sumsOf(const Model& model) {
  Sums sums;
  for (const RailRow& rail : model.rails) {
    sums.rails_down += rail.down() ? 1 : 0;
    add<RailCounters>(sums.rails, rail);
    add(sums.traffic, rail.traffic);
  }
  for (const ProcessRow& process : model.processes) {
    sums.unrecorded += process.snapshot->unrecorded;
    sums.processes += process.snapshot->process.alive ? 1 : 0;
  }
  for (const ConnectionRow& row : model.connections) {
    if (row.stage == Stage::kGone) continue;
    ++sums.connections;
    ++sums.in_stage[static_cast<std::size_t>(row.stage)];
    sums.open += row.open;
    sums.up += isUp(*row.connection) ? 1 : 0;
    sums.degraded += row.connection->degraded ? 1 : 0;
  }
  return sums;
}

}  // namespace

double RailRow::load() const {
  if (claimed_mbps == 0) return -1;
  return std::max(traffic.bytes_in, traffic.bytes_out) * 8 / 1e6 / claimed_mbps;
}

std::optional<double> RailRow::messageNs() const {
  constexpr uint64_t kEnough = 4;
  if (timed < kEnough) return std::nullopt;
  return timed_ns / static_cast<double>(timed);
}

std::string Model::host() const {
  if (processes.empty()) return "";
  const std::string first = hostOf(processes.front().snapshot->process);
  const bool one = std::ranges::all_of(
      processes, [&](const ProcessRow& row) { return hostOf(row.snapshot->process) == first; });
  return one ? first : "";
}

Model makeModel(const std::vector<Snapshot>& before, const std::vector<Snapshot>& now,
                std::vector<std::string> notes, const std::string& folder) {
  const std::vector<Reads> pairs = pairReads(before, now);
  Model model;
  for (const Reads& reads : pairs) {
    model.interval_s = std::max(model.interval_s, reads.seconds);
    model.unix_ns = std::max(model.unix_ns, reads.now->read_unix_ns);
  }
  model.rails = railRows(pairs);
  model.connections = connectionRows(pairs);
  model.processes = processRows(pairs, model.connections);
  model.notes = std::move(notes);
  model.sums = sumsOf(model);
  model.news = newsOf(model, folder);
  return model;
}

std::string waitsText(const ConnectionRow& row) {
  switch (row.stage) {
    case Stage::kFailed:
      return "failed";
    case Stage::kGone:
      return "gone";
    case Stage::kComingUp:
      return row.connection->state == ConnectionState::kListening ? "peer's call" : "handshake";
    default:
      break;
  }
  constexpr const char* kShort[] = {"",
                                    "clear-to-send",
                                    "completion",
                                    "data",
                                    "path",
                                    "peer's answer",
                                    "peer's window",
                                    "peer's credit",
                                    "signal's rest",
                                    "own NIC"};
  static_assert(std::size(kShort) == std::size(record::kWaitsForNames));
  if (row.connection->waits_for != WaitsFor::kNothing)
    return kShort[static_cast<std::size_t>(row.connection->waits_for)];
  return row.stage == Stage::kNoPath ? "path" : "";
}

std::string waitsText(const ProcessRow& process) {
  constexpr uint64_t kWorthAWordNs = 100000000;  // below, the word would change with each look
  const record::Process& known = process.snapshot->process;
  if (!known.alive) return known.ended_ns != 0 ? "ended" : "died";
  const std::optional<ConnectionRow>& worst = process.worst;
  if (process.still_ns > 0) return "is stopped";
  if (worst && worst->stage == Stage::kFailed) return "failed";
  if (worst && worst->stage == Stage::kNoPath) return waitsText(*worst);
  if (process.hangs_ns > 0) return std::string("plugin hangs in ") + process.hangs_in;
  if (!worst) return "";
  if (process.not_called_ns > 0) return "NCCL does not call";
  if (worst->stage == Stage::kComingUp) return "coming up";
  return worst->age_ns >= kWorthAWordNs && worst->open > 0 ? waitsText(*worst) : "";
}

std::string processText(const record::Process& process) {
  const std::string rank = process.rank >= 0 ? " (rank " + std::to_string(process.rank) + ")" : "";
  return "process " + std::to_string(process.pid) + rank;
}

std::string shortRailText(const RailRow& rail) { return rail.device + ":" + std::to_string(rail.port); }

}  // namespace railwise::observe::top
