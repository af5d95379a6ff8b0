#include "observe/stuck/facts.h"

#include <algorithm>
#include <cstdio>
#include <unordered_map>

#include "base/text/printable.h"
#include "base/text/text_layout.h"

namespace railwise::observe {
namespace {

constexpr std::size_t kLongest = 256;

// Read once: what has not changed for so long stands still.
constexpr uint64_t kStillMs = 2000;

uint64_t ageMs(uint64_t at_ns, uint64_t now_ns) {
  if (at_ns == 0) return kNever;
  return now_ns > at_ns ? (now_ns - at_ns) / 1000000 : 0;
}

RailFacts railFactsOf(const record::Rail& rail, uint64_t now_ns) {
  RailFacts facts;
  facts.device = plainText(rail.device);
  facts.port = rail.port;
  facts.state = rail.state;
  facts.state_ms = ageMs(rail.state_since_ns, now_ns);
  facts.failovers = rail.failovers;
  std::size_t most = 0;
  for (std::size_t kind = 0; kind < rail.errors.size(); ++kind) {
    facts.errors += rail.errors[kind];
    if (rail.errors[kind] > rail.errors[most]) most = kind;
  }
  if (facts.errors > 0) facts.error = record::errorText(static_cast<record::ErrorKind>(most));
  return facts;
}

// The last time in a record: of a process that was killed no other moment is known.
uint64_t lastSignNs(const record::Snapshot& snapshot) {
  uint64_t last = snapshot.process.started_ns;
  for (const record::Event& event : snapshot.events) last = std::max(last, event.at_ns);
  for (const record::Connection& connection : snapshot.connections)
    last = std::max({last, connection.looked_ns, connection.state_since_ns});
  return last;
}

// The warning of a process whose connections come up slowly, as long as it is the last word about connections
// that come up.
std::string slowSetup(const record::Snapshot& snapshot) {
  for (auto event = snapshot.events.rbegin(); event != snapshot.events.rend(); ++event) {
    if (event->kind == record::EventKind::kSlowConnect) return plainText(event->text);
    if (event->kind == record::EventKind::kConnected) return "";
  }
  return "";
}

// Does a connection that runs wait for something? A look is written only while NCCL waits: the last one may
// be of a message that is complete by now.
bool waitsNow(const record::Connection& connection, uint64_t now_ns) {
  const uint64_t looked = ageMs(connection.looked_ns, now_ns);
  if (connection.oldest > connection.completed) return true;
  if (connection.side == record::Side::kReceiver && connection.posted > connection.completed) return true;
  return connection.oldest == 0 && connection.waits_for != record::WaitsFor::kNothing &&
         looked < kCallsWithinMs;
}

// Has the connection stood still between the two reads? A connection with nothing open has not: nothing was
// to be done. New queue pairs are no progress: over a black hole they come and go.
bool stoodStill(const record::Connection* first, const record::Connection& second, uint64_t now_ns) {
  const bool up = second.state == record::ConnectionState::kRunning;
  if (up && !waitsNow(second, now_ns)) return false;
  if (first == nullptr) {
    const uint64_t since = !up                  ? second.state_since_ns
                           : second.oldest != 0 ? second.oldest_since_ns
                                                : second.waits_since_ns;
    const uint64_t age = ageMs(since, now_ns);
    return age != kNever && age >= kStillMs;
  }
  if (first->completed != second.completed || first->oldest != second.oldest) return false;
  if (up) return second.oldest != 0 || first->numbers.next == second.numbers.next;
  return first->state != record::ConnectionState::kRunning || second.oldest > second.completed;
}

ConnectionFacts connectionFactsOf(const record::Connection* first, const record::Connection& second,
                                  uint64_t now_ns, std::size_t rails) {
  ConnectionFacts facts;
  facts.slot = second.slot;
  facts.id = second.id;
  facts.pair_id = second.pair_id;
  facts.communicator = second.communicator;
  facts.side = second.side;
  facts.kind = second.kind;
  facts.state = second.state;
  facts.waits_for = second.waits_for;
  facts.device = plainText(second.device);
  facts.peer = plainText(second.peer);
  facts.peer_device = plainText(second.peer_device);
  facts.reason = plainText(second.reason);
  facts.next = second.numbers.next;
  facts.posted = second.numbers.posted;
  facts.given = second.posted;
  facts.completed = second.completed;
  facts.oldest = second.oldest;
  facts.oldest_bytes = second.oldest_bytes;
  facts.oldest_ms = ageMs(second.oldest_since_ns, now_ns);
  facts.waits_ms = ageMs(second.waits_since_ns, now_ns);
  facts.looked_ms = ageMs(second.looked_ns, now_ns);
  facts.state_ms = ageMs(second.state_since_ns, now_ns);
  if (first != nullptr && second.completed > first->completed)
    facts.moved = second.completed - first->completed;
  if (first != nullptr && second.epoch > first->epoch) facts.new_epochs = second.epoch - first->epoch;
  facts.still = stoodStill(first, second, now_ns);
  facts.degraded = second.degraded;
  facts.gets_open = second.one_sided.gets_open;
  facts.signals = second.one_sided.signals;
  facts.signals_done = second.one_sided.signals_done;
  facts.last_signal_ms = ageMs(second.one_sided.last_signal_ns, now_ns);
  facts.peer_rank = second.one_sided.peer_rank;
  for (const record::Pair& pair : second.pairs) {
    const bool known = pair.rail >= 0 && static_cast<std::size_t>(pair.rail) < rails;
    facts.pairs.push_back({.rail = known ? pair.rail : -1,
                           .gid = plainText(pair.gid),
                           .peer_gid = plainText(pair.peer_gid),
                           .peer_device = plainText(pair.peer_device),
                           .peer_port = pair.peer_port});
  }
  for (const record::QueuePair& queue_pair : second.queue_pairs) {
    const bool known = queue_pair.pair >= 0 && static_cast<std::size_t>(queue_pair.pair) < facts.pairs.size();
    facts.queue_pairs.push_back({.number = queue_pair.number,
                                 .peer_number = queue_pair.peer_number,
                                 .pair = known ? queue_pair.pair : -1,
                                 .bytes = queue_pair.bytes});
  }
  return facts;
}

}  // namespace

ProcessFacts factsOf(const record::Snapshot* first, const record::Snapshot& second) {
  ProcessFacts facts;
  const record::Process& process = second.process;
  facts.host = hostName(process);
  facts.boot_id = plainText(process.boot_id);
  facts.pid = process.pid;
  facts.process_start = process.process_start;
  facts.alive = process.alive;
  facts.ended = process.ended_ns != 0;
  facts.spy = process.spy;
  facts.rank = process.rank;
  facts.ranks = process.ranks;
  facts.program = plainText(process.program);
  facts.unrecorded = second.unrecorded;
  facts.slow_setup = slowSetup(second);
  if (!facts.alive)
    facts.gone_ms = ageMs(facts.ended ? process.ended_ns : lastSignNs(second), second.read_ns);
  if (first != nullptr && second.read_ns > first->read_ns)
    facts.between_ms = (second.read_ns - first->read_ns) / 1000000;
  for (const record::Rail& rail : second.rails) facts.rails.push_back(railFactsOf(rail, second.read_ns));
  std::unordered_map<uint64_t, const record::Connection*> before;
  if (first != nullptr)
    for (const record::Connection& connection : first->connections) before[connection.id] = &connection;
  for (const record::Connection& connection : second.connections) {
    const auto found = before.find(connection.id);
    facts.connections.push_back(connectionFactsOf(found != before.end() ? found->second : nullptr, connection,
                                                  second.read_ns, facts.rails.size()));
  }
  return facts;
}

std::vector<ProcessFacts> factsOfAll(std::span<const record::Snapshot> first,
                                     std::span<const record::Snapshot> second) {
  std::vector<ProcessFacts> all;
  for (const record::Snapshot& snapshot : second) {
    const auto before = std::find_if(first.begin(), first.end(), [&](const record::Snapshot& other) {
      return other.process.pid == snapshot.process.pid &&
             other.process.process_start == snapshot.process.process_start &&
             other.process.spy == snapshot.process.spy;
    });
    all.push_back(factsOf(before != first.end() ? &*before : nullptr, snapshot));
  }
  return all;
}

std::string plainText(std::string_view text) { return printableAscii(text.substr(0, kLongest)); }

std::string processKey(const ProcessFacts& process) {
  return process.host + ":" + std::to_string(process.pid);
}

std::string hostName(const record::Process& process) {
  std::string host = plainText(process.host);
  const std::string suffix = ":" + std::to_string(process.pid);
  if (host.ends_with(suffix)) host.resize(host.size() - suffix.size());
  return host;
}

std::string processName(const ProcessFacts& process) {
  if (process.rank < 0) return processKey(process);
  return "rank " + std::to_string(process.rank) + " (" + processKey(process) + ")";
}

std::string bytesText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return counted(bytes, "byte", "bytes");
  double number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (number /= 1024; number >= 1024 && unit + 1 < std::size(kUnits); ++unit) number /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", number, kUnits[unit]);
  return text;
}

std::string ageText(uint64_t ms) {
  constexpr uint64_t kMostMs = UINT64_MAX / 1000000;
  if (ms == kNever) return "an unknown time";
  return record::durationText(0, std::min(ms, kMostMs) * 1000000);
}

std::string wrapped(std::string_view text, std::string_view first, std::size_t indent) {
  return wrappedText(text, first, std::string(indent, ' '));
}

}  // namespace railwise::observe
