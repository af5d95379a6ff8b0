#include "observe/stuck/facts.h"

#include <algorithm>
#include <iterator>
#include <span>

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
  facts.errors = record::errorSum(rail);
  uint64_t most = 0;
  record::visitErrors(rail, [&](const char* words, uint64_t number) {
    if (number > most) facts.error = words;
    most = std::max(most, number);
  });
  return facts;
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

// Has the connection stood still between the two reads? A connection with nothing open has not: nothing was
// to be done. New queue pairs are no progress: over a black hole they come and go.
bool stoodStill(const record::Connection* first, const record::Connection& second, uint64_t now_ns) {
  const bool up = second.state == record::ConnectionState::kRunning;
  if (up && !waitsNow(second, now_ns)) return false;
  if (first == nullptr) {
    const uint64_t age = ageMs(record::waitsSinceNs(second), now_ns);
    return age != kNever && age >= kStillMs;
  }
  if (first->completed != second.completed || first->oldest != second.oldest) return false;
  if (up) return second.oldest != 0 || first->numbers.next == second.numbers.next;
  return first->state != record::ConnectionState::kRunning || second.oldest > second.completed;
}

ConnectionFacts connectionFactsOf(const record::Connection* first, const record::Connection& second,
                                  uint64_t now_ns, std::size_t rails) {
  ConnectionFacts facts{second};
  for (std::string* const text : {&facts.device, &facts.peer, &facts.peer_device, &facts.reason})
    *text = plainText(*text);
  facts.oldest_ms = ageMs(second.oldest_since_ns, now_ns);
  facts.waits_ms = ageMs(second.waits_since_ns, now_ns);
  facts.looked_ms = ageMs(second.looked_ns, now_ns);
  facts.state_ms = ageMs(second.state_since_ns, now_ns);
  if (first != nullptr && second.completed > first->completed)
    facts.moved = second.completed - first->completed;
  if (first != nullptr && second.epoch > first->epoch) facts.new_epochs = second.epoch - first->epoch;
  facts.still = stoodStill(first, second, now_ns);
  facts.last_signal_ms = ageMs(second.one_sided.last_signal_ns, now_ns);
  for (record::Pair& pair : facts.pairs) {
    if (pair.rail >= static_cast<int>(rails)) pair.rail = -1;
    for (std::string* const text : {&pair.gid, &pair.peer_gid, &pair.peer_device}) *text = plainText(*text);
  }
  for (record::QueuePair& queue_pair : facts.queue_pairs)
    if (queue_pair.pair >= static_cast<int>(facts.pairs.size())) queue_pair.pair = -1;
  return facts;
}

}  // namespace

bool waitsNow(const record::Connection& connection, uint64_t now_ns) {
  if (record::hasOpenMessage(connection)) return true;
  return connection.oldest == 0 && connection.waits_for != record::WaitsFor::kNothing &&
         ageMs(connection.looked_ns, now_ns) < kCallsWithinMs;
}

ProcessFacts factsOf(const record::Snapshot* first, const record::Snapshot& second) {
  const record::Process& process = second.process;
  ProcessFacts facts{process};
  facts.host = plainText(hostOf(process));
  facts.boot_id = plainText(process.boot_id);
  facts.program = plainText(process.program);
  facts.ended = process.ended_ns != 0;
  facts.unrecorded = second.unrecorded;
  facts.slow_setup = slowSetup(second);
  facts.command = facts.program;
  if (!facts.alive && !facts.ended) facts.trouble = plainText(firstTrouble(second));
  if (!facts.alive)
    facts.gone_ms = ageMs(facts.ended ? process.ended_ns : record::lastTimeNs(second), second.read_ns);
  if (first != nullptr && second.read_ns > first->read_ns)
    facts.between_ms = (second.read_ns - first->read_ns) / 1000000;
  for (const record::Rail& rail : second.rails) facts.rails.push_back(railFactsOf(rail, second.read_ns));
  for (const record::Connection& connection : second.connections)
    facts.connections.push_back(connectionFactsOf(record::earlierState(first, connection), connection,
                                                  second.read_ns, facts.rails.size()));
  return facts;
}

std::vector<ProcessFacts> factsOfAll(const std::vector<record::Snapshot>& first,
                                     const std::vector<record::Snapshot>& second) {
  std::vector<ProcessFacts> all;
  for (const record::Snapshot& snapshot : second)
    all.push_back(factsOf(record::earlierRead(first, snapshot), snapshot));
  return all;
}

std::string plainText(std::string_view text) { return printableAscii(text.substr(0, kLongest)); }

std::string processKey(const record::Process& process) {
  return plainText(hostOf(process)) + ":" + std::to_string(process.pid);
}

std::string processName(const record::Process& process) {
  if (process.rank < 0) return processKey(process);
  return "rank " + std::to_string(process.rank) + " (" + processKey(process) + ")";
}

std::string troubleText(const ProcessFacts& process) {
  return process.trouble.empty() ? "its record shows no failure before: it was killed, crashed, or left before it wrote one"
                                 : "went wrong there first: " + process.trouble;
}

std::string hostOfPeer(std::string_view peer) { return std::string(peer.substr(0, peer.rfind(':'))); }

std::string someOf(const std::vector<int>& numbers) {
  constexpr std::size_t kShown = 8;
  const std::span shown = std::span(numbers).first(std::min(numbers.size(), kShown));
  const std::string text = joined(shown, ", ", [](int number) { return std::to_string(number); });
  return numbers.size() > kShown ? text + " and " + std::to_string(numbers.size() - kShown) + " more" : text;
}

std::string bytesText(uint64_t bytes) {
  if (bytes < 1024) return counted(bytes, "byte");
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  double number = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; number >= 1024 && unit + 1 < std::size(kUnits); ++unit) number /= 1024;
  return formatText("%.1f %s", number, kUnits[unit]);
}

std::string oldestText(const record::Connection& connection) {
  std::string text =
      record::unitText(connection.kind, connection.side) + (" " + std::to_string(connection.oldest));
  if (connection.oldest_bytes > 0) text += " (" + bytesText(connection.oldest_bytes) + ")";
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
