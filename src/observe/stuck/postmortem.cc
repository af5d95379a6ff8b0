// The record of a process in words (diagnosis.h).
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <iterator>
#include <vector>

#include "base/text/json.h"
#include "observe/stuck/diagnosis.h"
#include "observe/stuck/facts.h"

namespace railwise::observe {
namespace {

using record::ConnectionState;
using record::EventKind;
using record::RailState;
using record::Side;
using record::WaitsFor;

constexpr std::size_t kShownConnections = 32;
constexpr std::size_t kShownIdle = 8;
constexpr uint64_t kNsPerS = 1000000000;

// What has gone wrong, in contrast to what has happened, and the event that tells its end.
struct Trouble {
  EventKind trouble;
  EventKind end;  // kNone: it has no end
};
constexpr Trouble kTroubles[] = {{EventKind::kConnectFailed, EventKind::kConnected},
                                 {EventKind::kPathLost, EventKind::kPathFound},
                                 {EventKind::kFailed, EventKind::kNone},
                                 {EventKind::kPortDown, EventKind::kPortUp},
                                 {EventKind::kDeviceFailed, EventKind::kDeviceBack},
                                 {EventKind::kSlowMessage, EventKind::kSlowMessageEnded},
                                 {EventKind::kContract, EventKind::kNone}};

bool isTrouble(EventKind kind) {
  return std::ranges::find(kTroubles, kind, &Trouble::trouble) != std::end(kTroubles);
}

bool endsTrouble(EventKind trouble, EventKind later) {
  const Trouble* const known = std::ranges::find(kTroubles, trouble, &Trouble::trouble);
  return known != std::end(kTroubles) && known->end != EventKind::kNone && known->end == later;
}

// Events of connections that come up and close in order. They say nothing where something went wrong.
bool isSetup(EventKind kind) {
  return kind == EventKind::kConnecting || kind == EventKind::kConnected || kind == EventKind::kSlowConnect ||
         kind == EventKind::kClosed || kind == EventKind::kProcessStarted;
}

class Postmortem {
 public:
  explicit Postmortem(const record::Snapshot& snapshot, const std::string& stopped = "")
      : snapshot_(snapshot),
        stopped_(stopped),
        end_ns_(snapshot.process.alive           ? snapshot.read_ns
                : snapshot.process.ended_ns != 0 ? snapshot.process.ended_ns
                                                 : lastTimeNs(snapshot)) {
    for (const record::Connection& connection : snapshot_.connections)
      if (isOpen(connection)) open_.push_back(&connection);
    std::ranges::stable_sort(open_,
                             [this](const auto* a, const auto* b) { return sinceNs(*a) < sinceNs(*b); });
  }

  std::string verdict() const {
    std::string text = processName(snapshot_.process) + " " + howItEnded();
    if (!open_.empty()) text += " while " + openVerdict();
    const record::Event* const first = firstTrouble();
    text += first == nullptr ? "; its record shows no failure before"
                             : "; the first thing that went wrong: " + troubleSentence(*first);
    return text + (stopped_.empty() ? "" : "; " + stopped_);
  }
  std::string trouble() const {
    const record::Event* const first = firstTrouble();
    return first != nullptr ? troubleSentence(*first) : "";
  }

  std::string text(std::size_t events) const {
    return wrapped(verdict()) + "\n" + processText() + railsText() + connectionsText() + eventsText(events);
  }
  std::string json(std::size_t events) const;

 private:
  const char* howItEnded() const {
    if (snapshot_.process.alive) return "lives";
    return snapshot_.process.ended_ns != 0 ? "ended in order"
                                           : "did not end in order (killed, crashed, or left after an error)";
  }
  std::string agoText(uint64_t since_ns) const { return record::durationText(since_ns, end_ns_); }
  std::string beforeEnd(uint64_t at_ns) const {
    return agoText(at_ns) + (snapshot_.process.alive           ? " ago"
                             : snapshot_.process.ended_ns != 0 ? " before it ended"
                                                               : " before its last sign of life");
  }
  // "2026-11-24 07:04:55.123": the time of the computer that wrote the record, in the zone of this one.
  std::string clockText(uint64_t at_ns) const {
    const record::Process& process = snapshot_.process;
    const uint64_t unix_ns = process.started_unix_ns + (at_ns - process.started_ns);
    const auto seconds = static_cast<time_t>(unix_ns / kNsPerS);
    std::tm parts = {};
    char day[40];
    if (localtime_r(&seconds, &parts) == nullptr || std::strftime(day, sizeof day, "%F %T", &parts) == 0)
      return "an unknown time";
    char all[48];
    std::snprintf(all, sizeof all, "%s.%03u", day, static_cast<unsigned>(unix_ns / 1000000 % 1000));
    return all;
  }

  // "12:01:36.800"
  std::string timeOfDay(uint64_t at_ns) const {
    const std::string clock = clockText(at_ns);
    return clock.starts_with("an ") ? clock : clock.substr(clock.find(' ') + 1);
  }
  std::string troubleSentence(const record::Event& event) const {
    return eventSentence(event) + ", " + beforeEnd(event.at_ns);
  }

  static bool isUp(ConnectionState state) { return state == ConnectionState::kRunning; }
  bool isOpen(const record::Connection& connection) const {
    return !isUp(connection.state) || waitsNow(connection, end_ns_);
  }
  uint64_t sinceNs(const record::Connection& connection) const {
    const uint64_t since = record::waitsSinceNs(connection);
    return since != 0 || !isUp(connection.state) ? since : end_ns_;
  }
  std::string openVerdict() const {
    const record::Connection& worst = *open_.front();
    const bool lives = snapshot_.process.alive;
    return counted(open_.size(), lives ? "connection waits" : "connection waited",
                   lives ? "connections wait" : "connections waited") +
           ", the longest " + agoText(sinceNs(worst)) + " for " + peerOf(worst);
  }
  static std::string peerOf(const record::Connection& connection) {
    return connection.peer.empty() ? "an unknown peer" : plainText(connection.peer);
  }

  // Where the trouble that has no end began. A path that is lost over a black hole is found again, and lost
  // again: all that went wrong since the oldest open message was posted counts, also what was over again.
  const record::Event* firstTrouble() const {
    uint64_t begin = UINT64_MAX;
    for (const record::Connection* const connection : open_)
      if (hasOpenMessage(*connection) && connection->oldest_since_ns != 0)
        begin = std::min(begin, connection->oldest_since_ns);
    for (const record::Event& event : snapshot_.events) {
      if (event.kind != EventKind::kSlowMessage || isOver(event)) continue;
      begin = std::min(begin, event.at_ns - std::min(event.numbers[1], event.at_ns / 1000000) * 1000000);
    }
    const record::Event* slow = nullptr;  // says only that something is wrong: named if nothing else is
    for (const record::Event& event : snapshot_.events) {
      if (!isTrouble(event.kind) || (event.at_ns < begin && isOver(event))) continue;
      if (event.kind != EventKind::kSlowMessage) return &event;
      if (slow == nullptr) slow = &event;
    }
    return slow;
  }
  bool isOver(const record::Event& trouble) const {
    for (const record::Event& later : snapshot_.events) {
      if (later.number <= trouble.number || !endsTrouble(trouble.kind, later.kind)) continue;
      const bool one_connection = later.connection_id == trouble.connection_id;
      const bool one_rail = later.rail == trouble.rail || trouble.connection_id != 0;
      if (one_connection && one_rail) return true;
    }
    return false;
  }

  const record::Connection* connectionOf(const record::Event& event) const {
    for (const record::Connection& connection : snapshot_.connections)
      if (event.connection_id != 0 && connection.id == event.connection_id) return &connection;
    return nullptr;
  }

  // What an event says, with its numbers in words.
  std::string eventSentence(const record::Event& event) const {
    std::string text = record::eventText(event.kind);
    if (const record::Rail* const rail = railAt(snapshot_, event.rail))
      text += " on " + plainText(record::railText(*rail));
    if (event.slot >= 0) text += ", connection " + std::to_string(event.slot);
    const record::Connection* const connection = connectionOf(event);
    const std::string peer = connection != nullptr ? peerOf(*connection) : "";
    const std::string said = plainText(event.text);
    const bool names_peer = !peer.empty() && said.starts_with(peer);
    if (names_peer) text += " to " + said;
    else if (!peer.empty()) text += " to " + peer;
    if (const std::string numbers = numbersText(event); !numbers.empty()) text += " (" + numbers + ")";
    if (!said.empty() && !names_peer) text += ": " + said;
    return text;
  }
  // "receive 5127": what a slow message's event is about.
  std::string unitOf(const record::Event& event) const {
    const record::Connection* const its = connectionOf(event);
    const char* const unit = its != nullptr
                                 ? record::unitText(its->kind, its->side)
                                 : record::unitText(record::ConnectionKind::kMessages, Side::kReceiver);
    return unit + (" " + std::to_string(event.numbers[0]));
  }
  std::string numbersText(const record::Event& event) const {
    const auto ms = [](uint64_t microseconds) { return ageText(microseconds / 1000); };
    switch (event.kind) {
      case EventKind::kConnected:
        return "TCP call after " + ms(event.numbers[0]) + ", reply after " + ms(event.numbers[1]) +
               ", up after " + ms(event.numbers[2]);
      case EventKind::kPathLost:
        return "epoch " + std::to_string(event.numbers[0]);
      case EventKind::kPathFound:
        return "epoch " + std::to_string(event.numbers[0]) + ", " + ms(event.numbers[1]) + " without a path";
      case EventKind::kSlowMessage:
        return unitOf(event) + ", under way for " + ageText(event.numbers[1]);
      case EventKind::kSlowMessageEnded:
        return unitOf(event) + ", after " + ageText(event.numbers[1]);
      default:
        return "";
    }
  }

  std::string processText() const {
    const record::Process& process = snapshot_.process;
    std::string text = wrapped(plainText(process.program) + ", " + plainText(process.plugin) +
                                   (process.spy ? ", spy in front of " + plainText(process.plugin_file) : ""),
                               "Program: ", 9);
    text += wrapped(clockText(process.started_ns), "Started: ", 9);
    const char* const label = process.alive           ? "Read:    "
                              : process.ended_ns != 0 ? "Ended:   "
                                                      : "Last sign of life: ";
    text += wrapped(
        clockText(end_ns_) + ", " + record::durationText(process.started_ns, end_ns_) + " after the start",
        label, 9);
    if (snapshot_.unrecorded > 0)
      text +=
          wrapped(counted(snapshot_.unrecorded, "connection", "connections") + " had no place in the record",
                  "Note:    ", 9);
    if (snapshot_.torn)
      text += wrapped("the record was being written; some numbers may not fit together", "Note:    ", 9);
    return text;
  }

  static std::string errorsText(const record::Rail& rail) {
    std::vector<std::string> errors;
    record::visitErrors(rail, [&](const char* words, uint64_t number) {
      errors.push_back(std::to_string(number) + " " + words);
    });
    return errors.empty() ? "no errors" : "errors: " + joined(errors);
  }
  static const char* railStateText(RailState state) {
    return state == RailState::kUnknown ? "in an unknown state" : record::railStateText(state);
  }
  std::string railText(const record::Rail& rail) const {
    std::string text = plainText(record::railText(rail)) + ": " + railStateText(rail.state);
    if (rail.state_since_ns != 0) text += " for " + agoText(rail.state_since_ns);
    text += ", " + errorsText(rail);
    if (rail.failovers > 0)
      text += ", " + counted(rail.failovers, "connection has", "connections have") + " left it";
    if (rail.returns > 0) text += ", " + std::to_string(rail.returns) + " came back";
    return text;
  }
  std::string railsText() const {
    if (snapshot_.rails.empty()) return "";
    std::string text = "\nRails\n";
    for (const record::Rail& rail : snapshot_.rails) text += wrapped(railText(rail), "  ", 4);
    return text;
  }

  // "over mlx5_1 port 1 -> mlx5_1 port 1"
  std::string pathText(const record::Connection& connection) const {
    std::string text;
    for (const record::Pair& pair : connection.pairs) {
      const record::Rail* const rail = railAt(snapshot_, pair.rail);
      const std::string own = rail != nullptr ? plainText(record::railText(*rail)) : "an unknown rail";
      const char* const arrow = connection.side == Side::kReceiver ? " <- " : " -> ";
      text += (text.empty() ? " over " : ", ") + own + arrow + plainText(pair.peer_device);
      if (pair.peer_port > 0) text += " port " + std::to_string(pair.peer_port);
    }
    return text;
  }
  // "; 5127 operations of 5130 are done, 5100 signals, 2 gets under way"
  std::string oneSidedText(const record::Connection& connection) const {
    const record::OneSided& its = connection.one_sided;
    if (connection.side == Side::kReceiver)
      return "; " + counted(its.signals_done, "signal") + " applied" +
             (its.last_signal_ns != 0
                  ? std::string(", the last one ") + agoText(its.last_signal_ns) + " before"
                  : "");
    std::string text = "; " + std::to_string(connection.completed) + " of " +
                       counted(connection.posted, "operation is", "operations are") + " done";
    if (its.signals > 0) text += ", " + counted(its.signals, "signal");
    if (its.gets_open > 0) text += ", " + counted(its.gets_open, "get") + " under way";
    return text;
  }
  // "; last complete: message 5126, 3.2 s before its last sign of life (12:01:36.800); 4.9 GiB so far, 1.0
  // MiB each". A message becomes the oldest when it is given and all before it are complete. So that is the
  // latest time at which the one before can have completed. Bytes are those of the queue pairs in use.
  std::string lastCompleteText(const record::Connection& connection) const {
    if (connection.side == Side::kListener) return "";
    if (connection.completed == 0) return "; none is complete";
    std::string text = "; last complete: " + std::string(record::unitText(connection.kind, connection.side)) +
                       " " + std::to_string(connection.completed);
    const bool waits = connection.oldest == connection.completed + 1;
    const uint64_t at_ns = waits ? connection.oldest_since_ns : connection.looked_ns;
    if (at_ns != 0)
      text += (waits ? ", at the latest " : ", about ") + beforeEnd(at_ns) + " (" + timeOfDay(at_ns) + ")";
    uint64_t bytes = 0;
    for (const record::QueuePair& queue_pair : connection.queue_pairs) bytes += queue_pair.bytes;
    if (bytes == 0) return text;
    text += "; " + bytesText(bytes) + " so far";
    if (connection.epoch <= 1) text += ", " + bytesText(bytes / connection.completed) + " each on average";
    return text;
  }
  // The oldest message is noted every 20 ms: it may have completed since.
  bool isStale(const record::Connection& connection) const {
    constexpr uint64_t kSureNs = 200'000'000;
    return connection.oldest <= connection.completed &&
           record::growth(connection.oldest_since_ns, end_ns_) < kSureNs;
  }
  std::string connectionText(const record::Connection& connection) const {
    std::string text = "connection " + std::to_string(connection.slot);
    if (connection.side == Side::kListener) text = "listener " + std::to_string(connection.slot);
    else text += (connection.side == Side::kReceiver ? " from " : " to ") + peerOf(connection);
    text += " (" + plainText(connection.device) + "): ";
    if (!isUp(connection.state))
      text += std::string(record::stateText(connection.state)) + " for " + agoText(connection.state_since_ns);
    const bool open = connection.oldest != 0 && hasOpenMessage(connection);
    if (open && !isStale(connection)) {
      if (!isUp(connection.state)) text += "; ";
      text += oldestText(connection);
      if (connection.oldest_since_ns != 0)
        text += std::string(snapshot_.process.alive ? " has waited for " : " had waited for ") +
                agoText(connection.oldest_since_ns);
      text += snapshot_.process.alive           ? ""
              : snapshot_.process.ended_ns != 0 ? " when the process ended"
                                                : " at its last sign of life";
    } else if (isUp(connection.state)) {
      text += isOneSided(connection) ? "nothing is under way"
              : open                 ? "its messages move"
                                     : "no message is under way";
    }
    if (connection.waits_for != WaitsFor::kNothing && isOpen(connection))
      text += std::string(", waiting for the ") + record::waitsForText(connection.waits_for) +
              pathText(connection);
    // A sender does not always count its messages as complete.
    if (connection.side == Side::kReceiver && connection.posted > connection.completed) {
      const char* const unit = isOneSided(connection) ? "signal" : "message";
      text += "; " + counted(connection.posted - connection.completed, unit) + " posted and not complete";
    }
    text += isOneSided(connection) ? oneSidedText(connection) : lastCompleteText(connection);
    if (connection.failover == record::Failover::kOff)
      text += "; failover is off (RAILWISE_FAILOVER=0 at an end)";
    if (!connection.reason.empty()) text += "; " + plainText(connection.reason);
    return text;
  }
  std::string connectionsText() const {
    const std::size_t all = snapshot_.connections.size();
    if (all == 0) return "\nNo connections\n";
    std::string text = "\n" + counted(all, "connection", "connections") + ", " +
                       (open_.empty() ? "none waited" : std::to_string(open_.size()) + " waiting") + "\n";
    const auto line = [this](const record::Connection* connection) {
      return wrapped(connectionText(*connection), "  ", 4);
    };
    appendSome(text, open_, kShownConnections, line);
    std::vector<const record::Connection*> idle;
    for (const record::Connection& connection : snapshot_.connections)
      if (!isOpen(connection) && connection.completed > 0) idle.push_back(&connection);
    std::ranges::stable_sort(idle, std::greater(), &record::Connection::looked_ns);
    if (!idle.empty()) text += "  and without a message under way, the latest first\n";
    appendSome(text, idle, kShownIdle, line);
    return text;
  }

  // The last events: `setup` of connections that come up and close, else of all others.
  std::vector<const record::Event*> lastEvents(std::size_t most, bool setup) const {
    std::vector<const record::Event*> events;
    for (const record::Event& event : snapshot_.events)
      if (isSetup(event.kind) == setup) events.push_back(&event);
    events.erase(events.begin(), events.end() - static_cast<std::ptrdiff_t>(std::min(events.size(), most)));
    return events;
  }
  std::string eventsText(std::size_t events) const {
    const auto last = lastEvents(events, false);
    const auto setup = lastEvents(events, true);
    std::string text = last.empty() ? "\nNo failure and no change of a rail is in the record\n" : "";
    if (!last.empty()) text += listText("The last " + counted(last.size(), "event"), last);
    if (!setup.empty())
      text +=
          listText("Connections that came up or closed: the last " + counted(setup.size(), "event"), setup);
    return text;
  }
  std::string listText(const std::string& title, const std::vector<const record::Event*>& events) const {
    std::string text =
        "\n" + title + " (times are before " +
        (snapshot_.process.alive || snapshot_.process.ended_ns != 0 ? "the end" : "the last sign of life") +
        "; * has gone wrong)\n";
    for (const record::Event* const event : events) {
      char before[48];
      std::snprintf(before, sizeof before, "%10s %s ", ("-" + agoText(event->at_ns)).c_str(),
                    isTrouble(event->kind) ? "*" : " ");
      text += wrapped(timeOfDay(event->at_ns) + " " + eventSentence(*event), before, 13);
    }
    return text;
  }

  const record::Snapshot& snapshot_;
  const std::string stopped_;
  const uint64_t end_ns_;
  std::vector<const record::Connection*> open_;  // not idle, the oldest first
};

std::string Postmortem::json(std::size_t events) const {
  const record::Process& process = snapshot_.process;
  const auto age = [this](uint64_t at_ns) { return record::growth(at_ns, end_ns_) / 1000000; };
  JsonWriter json;
  json.beginObject();
  json.key("schema").value("railwise-postmortem");
  json.key("schema_version").value(1);
  json.key("verdict").value(verdict());
  json.key("host").value(plainText(hostOf(process))).key("pid").value(uint64_t{process.pid});
  json.key("rank").value(process.rank).key("ranks").value(process.ranks);
  json.key("program").value(plainText(process.program)).key("plugin").value(plainText(process.plugin));
  json.key("alive").value(process.alive).key("ended_in_order").value(process.ended_ns != 0);
  json.key("started").value(clockText(process.started_ns)).key("ended");
  if (process.ended_ns != 0) json.value(clockText(end_ns_));
  else json.null();
  json.key("last_sign_of_life").value(clockText(end_ns_));
  json.key("rails").arrayOf(snapshot_.rails, [&](const record::Rail& rail) {
    json.beginInlineObject();
    json.key("device").value(plainText(rail.device)).key("port").value(rail.port);
    json.key("state").value(railStateText(rail.state)).key("state_ms").value(age(rail.state_since_ns));
    json.key("failovers").value(rail.failovers).key("returns").value(rail.returns);
    json.key("errors").beginInlineObject();
    record::visitErrors(rail, [&](const char* words, uint64_t number) { json.key(words).value(number); });
    json.endInlineObject().endInlineObject();
  });
  json.key("connections").value(uint64_t{snapshot_.connections.size()});
  json.key("open").arrayOf(open_, [&](const record::Connection* connection) {
    json.beginInlineObject();
    json.key("connection").value(uint64_t{connection->slot}).key("peer").value(plainText(connection->peer));
    json.key("state").value(record::stateText(connection->state));
    json.key("waits_for").value(record::waitsForText(connection->waits_for));
    json.key("oldest").value(connection->oldest).key("oldest_bytes").value(connection->oldest_bytes);
    json.key("since_ms").value(age(sinceNs(*connection)));
    json.key("completed").value(connection->completed);
    json.key("failover").value(rowOf(record::kFailoverNames, connection->failover).key);
    json.key("text").value(connectionText(*connection));
    json.endInlineObject();
  });
  auto shown = lastEvents(events, true);
  std::ranges::copy(lastEvents(events, false), std::back_inserter(shown));
  std::ranges::sort(shown, {}, &record::Event::number);
  json.key("events").arrayOf(shown, [&](const record::Event* event) {
    json.beginInlineObject();
    json.key("number").value(event->number).key("before_end_ms").value(age(event->at_ns));
    json.key("at").value(clockText(event->at_ns)).key("kind").value(record::eventText(event->kind));
    json.key("wrong").value(isTrouble(event->kind)).key("text").value(eventSentence(*event));
    json.endInlineObject();
  });
  json.endObject();
  return json.text();
}

}  // namespace

std::string postmortemVerdict(const record::Snapshot& snapshot) { return Postmortem(snapshot).verdict(); }

std::string firstTrouble(const record::Snapshot& snapshot) { return Postmortem(snapshot).trouble(); }

std::string postmortemText(const record::Snapshot& snapshot, std::size_t events, const std::string& stopped) {
  return Postmortem(snapshot, stopped).text(events);
}

std::string postmortemJson(const record::Snapshot& snapshot, std::size_t events, const std::string& stopped) {
  return Postmortem(snapshot, stopped).json(events);
}

}  // namespace railwise::observe
