// Why one connection waits.
#include <algorithm>

#include "base/text/words.h"
#include "observe/stuck/diagnosis.h"
#include "observe/stuck/facts.h"

namespace railwise::observe {
namespace {

using record::ConnectionState;
using record::Side;
using record::WaitsFor;

bool runs(ConnectionState state) {
  return state == ConnectionState::kRunning || state == ConnectionState::kLost ||
         state == ConnectionState::kReconnecting;
}

// Has NCCL left open messages alone?
bool isLeftAlone(const ConnectionFacts& connection) {
  return connection.still && runs(connection.state) && connection.looked_ms >= kCallsWithinMs;
}

// Are its queue pairs being made? Its peer and reason are noted behind that, in the same call of NCCL.
bool isBeingMade(const ConnectionFacts& connection) {
  return connection.state == ConnectionState::kConnecting && connection.peer.empty() &&
         connection.reason.empty() && connection.state_ms != kNever && connection.state_ms >= kCallsWithinMs;
}

// The connection on which a call has not returned for long: of the plugin behind the spy, or of the NIC's
// driver. Null: there is none.
const ConnectionFacts* hangingCall(const ProcessFacts& process) {
  const auto found = std::ranges::find_if(process.connections, [&](const ConnectionFacts& connection) {
    if (!process.spy) return isBeingMade(connection);
    return connection.in_call != 0 && connection.looked_ms != kNever &&
           connection.looked_ms >= kCallsWithinMs;
  });
  return found != process.connections.end() ? &*found : nullptr;
}

// A sender does not always count its messages as complete, and its last look may be old. The receiver knows.
// Of one-sided operations the other end knows nothing.
bool isComplete(const ConnectionFacts& sender, const ConnectionFacts* receiver) {
  return !isOneSided(sender) && sender.state == ConnectionState::kRunning && sender.side == Side::kSender &&
         (receiver == nullptr || receiver->completed >= sender.oldest);
}

uint64_t sinceMs(const ConnectionFacts& connection) {
  if (connection.state != ConnectionState::kRunning) return connection.state_ms;
  return connection.oldest != 0 ? connection.oldest_ms : connection.waits_ms;
}

const RailFacts* railOf(const ProcessFacts& process, const record::Pair& pair) {
  return pair.rail >= 0 ? &process.rails[static_cast<std::size_t>(pair.rail)] : nullptr;
}

bool isBad(const RailFacts* rail) { return rail != nullptr && record::isDown(rail->state); }

std::string portName(const std::string& host, const std::string& device, int port) {
  std::string name = host + " " + (device.empty() ? "?" : device);
  if (port > 0) name += " port " + std::to_string(port);
  return name;
}

class Examiner {
 public:
  Examiner(const Job& job, End end)
      : job_(job), own_(job.process(end.process)), connection_(job.connection(end)) {
    finding_.wait.end = end;
    finding_.wait.other = job.otherEnd(end);
    finding_.wait.since_ms = sinceMs(connection_);
    // How long no clear-to-send has come is known at the other end, where the receive is open.
    const ConnectionFacts* const other = otherEnd();
    if (connection_.oldest == 0 && other != nullptr && other->oldest != 0)
      finding_.wait.since_ms = std::min(finding_.wait.since_ms, other->oldest_ms);
  }

  Finding examine() {
    const ConnectionFacts* const hanging = hangingCall(own_);
    if (hanging == &connection_) return leftAlone();
    if (isStopped(own_) || hanging != nullptr) return set(Why::kDoesNotCall);  // its waits are of the past
    if (isLeftAlone(connection_)) return leftAlone();
    if (connection_.state == ConnectionState::kListening) return unfinished(Why::kListens);
    if (peer() == nullptr && !connection_.peer.empty()) return peerUnknown();
    if (peer() != nullptr && !peer()->alive) return peerIsGone();
    if (peer() != nullptr && isStopped(*peer())) return set(Why::kPeerIsStopped);
    switch (connection_.state) {
      case ConnectionState::kConnecting:
        return peer() != nullptr ? set(Why::kHandshake) : unfinished(Why::kHandshake);
      case ConnectionState::kFailed:
        return failedForGood();
      case ConnectionState::kLost:
        return noPath();
      case ConnectionState::kReconnecting:
        return reconnects();
      default:
        return running();
    }
  }

 private:
  const ProcessFacts* peer() const {
    return finding_.wait.other.process < 0 ? nullptr : &job_.process(finding_.wait.other.process);
  }
  const ConnectionFacts* otherEnd() const {
    return finding_.wait.other.connection < 0 ? nullptr : &job_.connection(finding_.wait.other);
  }

  Finding set(Why why) {
    finding_.wait.why = why;
    return std::move(finding_);
  }
  Finding set(Why why, Culprit culprit) {
    finding_.culprits.push_back(std::move(culprit));
    return set(why);
  }

  Finding running() {
    const ConnectionFacts* const other = otherEnd();
    // The other end may know already that the path is lost. Where new queue pairs carry nothing either, it is
    // lost again and again.
    if (connection_.new_epochs > 0) return noPath();
    if (other != nullptr && other->still && (other->state == ConnectionState::kLost || other->new_epochs > 0))
      return noPath();
    if (own_.spy && connection_.peer.empty() && other == nullptr) return peerUnnamed();
    switch (connection_.waits_for) {
      case WaitsFor::kClearToSend:
        return waitsForClearToSend(other);
      case WaitsFor::kData:
        return waitsForData(other);
      case WaitsFor::kPath:
        return noPath();
      case WaitsFor::kPeer:
        return reconnects();
      case WaitsFor::kWindow:
        return waitsForTarget(Why::kNoWindow, other);
      case WaitsFor::kCredit:
        return waitsForTarget(Why::kNoCredit, other);
      case WaitsFor::kSignalParts:
        return waitsForSignalParts(other);
      case WaitsFor::kOwnNic:
        return set(Why::kOwnNic, idleNic());
      case WaitsFor::kCompletion:
      case WaitsFor::kNothing:  // it waits, and its last look was before
        break;
    }
    if (isOneSided(connection_) && connection_.side == Side::kReceiver) return waitsForSignalParts(other);
    if (connection_.side == Side::kReceiver) return waitsForData(other);
    return silentPath(true);
  }

  // ---- one-sided communication

  // The target has not told of a window, or has given no credit. Its process drives the connection by a
  // thread of its own. So where that process looks, its program has not registered the window, or the credit
  // is lost.
  Finding waitsForTarget(Why why, const ConnectionFacts* target) {
    if (target == nullptr) return set(why);
    if (target->looked_ms >= kCallsWithinMs)
      return set(why, idleCaller(finding_.wait.other.process, *target));
    if (target->waits_for == WaitsFor::kSignalParts) return silentPath(true);
    if (why == Why::kNoCredit && target->waits_for == WaitsFor::kNothing) return silentPath(false);
    return set(why);
  }
  // One of a signal's queue pairs has brought its part, and another one has not.
  Finding waitsForSignalParts(const ConnectionFacts* writer) {
    if (writer != nullptr && writer->looked_ms >= kCallsWithinMs)
      return set(Why::kSignalParts, idleCaller(finding_.wait.other.process, *writer));
    return silentPath(false);
  }
  // The NICs of this rank that bring signals also write them into GPU memory.
  Culprit idleNic() const {
    Culprit culprit;
    culprit.kind = CulpritKind::kSilentRail;
    culprit.name = own_.host + " " + connection_.device;
    culprit.key = "own nic " + std::to_string(finding_.wait.end.process) + " " + connection_.device;
    culprit.what = "does not write signals into the GPU memory of its own rank";
    culprit.details.push_back("the process is " + processName(own_));
    addRails(culprit, false);
    culprit.advice = "on " + own_.host + ": railwise doctor; ibstat " + connection_.device;
    return culprit;
  }

  Finding waitsForClearToSend(const ConnectionFacts* receiver) {
    // Receives of the spy's connections are counted, and their clear-to-sends are not seen.
    if (receiver != nullptr && receiver->numbers.posted > connection_.numbers.next && !peer()->spy &&
        !own_.spy)
      return silentPath(false);
    if (receiver != nullptr && isLeftAlone(*receiver)) return peerDoesNotCall();
    return set(Why::kNoReceive);
  }

  Finding waitsForData(const ConnectionFacts* sender) {
    if (sender == nullptr) return set(Why::kNoSend);
    if (isLeftAlone(*sender) && !isComplete(*sender, &connection_)) return peerDoesNotCall();
    if (own_.spy || peer()->spy)
      return sender->posted >= connection_.oldest ? silentPath(false) : set(Why::kNoSend);
    if (hasPosted(*sender)) return silentPath(false);
    const bool tries = sender->still && sender->waits_for == WaitsFor::kClearToSend;
    if (tries) return silentPath(true);  // the clear-to-send does not arrive
    return set(Why::kNoSend);
  }

  // The spy sees one end. Of a message that the plugin has lost, the sender's end is complete.
  // Where other connections of the process move, it is no sign that the job is stuck.
  Finding peerUnnamed() {
    if (std::ranges::any_of(own_.connections, [](const ConnectionFacts& each) { return each.moved > 0; }))
      return set(Why::kPeerUnnamed);
    return set(Why::kPeerUnnamed, unnamedPeers(job_, finding_.wait.end.process));
  }

  // The process of this end has messages open, and does not look after them.
  Finding leftAlone() {
    return set(hangingCall(own_) != nullptr ? Why::kHangingCall : Why::kDoesNotCall,
               idleCaller(finding_.wait.end.process, connection_));
  }
  Finding peerDoesNotCall() {
    const End other = finding_.wait.other;
    return set(connection_.side == Side::kSender ? Why::kNoReceive : Why::kNoSend,
               idleCaller(other.process, job_.connection(other)));
  }
  Culprit idleCaller(int process, const ConnectionFacts& connection) const {
    const ProcessFacts& caller = job_.process(process);
    if (const ConnectionFacts* const hanging = hangingCall(caller)) return hangingIn(process, *hanging);
    Culprit culprit = processCulprit(job_, process, CulpritKind::kIdleCaller, "idle ");
    culprit.what = isOneSided(connection) ? "does not drive its one-sided communication"
                                          : "has open messages and does not call its network plugin";
    const bool never = connection.looked_ms == kNever;
    culprit.details.push_back(
        (never ? "it has not called since it opened them"
               : "its last call was " + ageText(connection.looked_ms) + " ago") +
        (isOneSided(connection) ? "; neither NCCL's proxy thread nor Railwise's own (railwise-rma) runs there"
                                : "; NCCL's proxy thread there hangs, or gets no CPU"));
    culprit.advice =
        "on " + caller.host + ": gdb -p " + std::to_string(caller.pid) + " -batch -ex 'thread apply all bt'";
    return culprit;
  }

  // One thread calls for all connections of a communicator: what others have open waits with it.
  Culprit hangingIn(int process, const ConnectionFacts& connection) const {
    const ProcessFacts& caller = job_.process(process);
    Culprit culprit = processCulprit(job_, process, CulpritKind::kHangingCall, "hanging ");
    const std::string slot = std::to_string(connection.slot);
    culprit.advice =
        "on " + caller.host + ": gdb -p " + std::to_string(caller.pid) + " -batch -ex 'thread apply all bt'";
    if (!caller.spy) {
      culprit.what = "is in a call of its NIC's driver, which does not return";
      culprit.details.push_back("the queue pairs of connection " + slot + " have been in the making for " +
                                ageText(connection.state_ms) +
                                ": driver or firmware hangs, or it gets no CPU");
      culprit.advice += "; dmesg";
      return culprit;
    }
    culprit.what = std::string("is in ") + record::kCallNames[connection.in_call - 1] +
                   " of its network plugin, which does not return";
    culprit.details.push_back("the call began " + ageText(connection.looked_ms) + " ago, on connection " +
                              slot + " of " + connection.device +
                              ": the plugin behind the spy hangs, or gets no CPU");
    return culprit;
  }

  Finding peerIsGone() { return set(Why::kPeerIsGone, deadProcess(job_, finding_.wait.other.process)); }

  Finding peerUnknown() {
    const std::string& name = connection_.peer;
    const std::string host = hostOfPeer(name);
    const HostFacts* const asked = job_.hostOf(name);
    Culprit culprit;
    culprit.name = name;
    if (asked == nullptr) {
      culprit.kind = CulpritKind::kUnaskedHost;
      culprit.key = "host " + host;
      culprit.name = host;
      culprit.what = "was not asked";
      culprit.details.push_back("the peer " + name + " is there");
      culprit.advice = "railwise stuck --hosts FILE with " + host + " in FILE, or railwise stuck on " + host;
    } else if (!asked->error.empty()) {
      culprit = silentHost(*asked);
    } else {
      culprit.kind = CulpritKind::kNoRecord;
      culprit.key = "process " + name;
      culprit.what = "has no record on its host";
      culprit.details.push_back(
          "the process has ended, or died long ago, or runs as another user or in "
          "another container (--dir), or with RAILWISE_METRICS=0");
      culprit.advice = "on " + host + ": ps -p " + name.substr(name.rfind(':') + 1);
    }
    return set(Why::kPeerUnknown, std::move(culprit));
  }

  // A handshake whose peer is not known.
  Finding unfinished(Why why) {
    const char* const what = why == Why::kListens ? "waits for a peer that has not called"
                                                  : "waits in a handshake for a peer that does not answer";
    Culprit culprit = slowSetup(job_, finding_.wait.end.process, what);
    if (!connection_.reason.empty()) culprit.details.push_back(reason());
    return set(why, std::move(culprit));
  }

  Finding reconnects() {
    const ConnectionFacts* const other = otherEnd();
    if (other != nullptr && isLeftAlone(*other)) return peerDoesNotCall();
    return railsFailed(Why::kReconnects);
  }
  Finding noPath() {
    // A sender that has nothing to send need not notice: it is waited for, not the path.
    const ConnectionFacts* const other = otherEnd();
    const bool receives = connection_.side == Side::kReceiver && !isOneSided(connection_);
    const bool notices = other == nullptr || other->state != ConnectionState::kRunning ||
                         other->new_epochs > 0 || other->state_ms < kCallsWithinMs;
    if (receives && !notices && !other->still && !hasPosted(*other)) return set(Why::kNoSend);
    return railsFailed(Why::kNoPath);
  }
  // Has the sender posted what this end waits for, in part or as a whole?
  bool hasPosted(const ConnectionFacts& sender) const {
    return sender.numbers.next > (connection_.oldest != 0 ? connection_.oldest : connection_.completed + 1);
  }
  Finding failedForGood() {
    Culprit culprit;
    culprit.kind = CulpritKind::kFailedConnection;
    culprit.key =
        "failed " + connection_.reason + std::to_string(finding_.wait.end.process) + connection_.peer;
    culprit.name = processName(own_) + " - " + (peer() != nullptr ? processName(*peer()) : connection_.peer);
    culprit.what = "have lost their connection for good";
    if (!connection_.reason.empty()) culprit.details.push_back(reason());
    addRails(culprit, true);
    culprit.advice =
        "railwise postmortem " + std::to_string(own_.pid) + " on " + own_.host + ": what happened before";
    return set(Why::kFailed, std::move(culprit));
  }

  // The rail pairs of the connection, one line each. `only_bad`: those with a rail that is down.
  void addRails(Culprit& culprit, bool only_bad) const {
    for (const record::Pair& pair : connection_.pairs) {
      const RailFacts* const rail = railOf(own_, pair);
      if (only_bad && !isBad(rail)) continue;
      culprit.details.push_back(pairText(pair));
    }
  }
  std::string ownPort(const record::Pair& pair) const {
    const RailFacts* const rail = railOf(own_, pair);
    return rail != nullptr ? railName(own_, *rail) : portName(own_.host, connection_.device, 0);
  }
  std::string peerPort(const record::Pair& pair) const {
    return portName(peer() != nullptr ? peer()->host : hostOfPeer(connection_.peer), pair.peer_device,
                    pair.peer_port);
  }
  std::string pairText(const record::Pair& pair) const {
    std::string text = ownPort(pair);
    if (!pair.gid.empty()) text += " (" + pair.gid + ")";
    text += " - " + peerPort(pair);
    if (!pair.peer_gid.empty()) text += " (" + pair.peer_gid + ")";
    return text;
  }
  // Without the number of the queue pair, so that many connections have one reason.
  std::string reason() const {
    std::string text = connection_.reason;
    const std::size_t at = text.find(" qp ");
    if (at == std::string::npos) return text;
    const std::size_t end = text.find_first_not_of("0123456789", at + 4);
    if (end != at + 4) text.erase(at, std::min(end, text.size()) - at);
    return text;
  }
  // "between rank 0 (gpu1:4410) and rank 1 (gpu2:4411)", in one order from both ends.
  std::string endsText() const {
    const std::string own = processName(own_);
    const std::string other = processName(*peer());
    return "between " + std::min(own, other) + " and " + std::max(own, other);
  }
  // "down for 3.2 s, 4 errors (retry exceeded)"
  static std::string stateText(const RailFacts& rail) {
    std::string text = rail.state == record::RailState::kDown     ? "is down"
                       : rail.state == record::RailState::kFailed ? "has failed"
                       : rail.state == record::RailState::kUp     ? "is up"
                                                                  : "is in an unknown state";
    if (rail.state_ms != kNever && rail.state != record::RailState::kUp)
      text += ", for " + ageText(rail.state_ms);
    if (rail.errors > 0) {
      text += ", " + counted(rail.errors, "error", "errors");
      if (!rail.error.empty()) text += " (" + rail.error + ")";
    }
    return text;
  }

  // A rail of this end, or of the other one, that is down.
  std::optional<Culprit> badRail(const record::Pair& pair) const {
    const ProcessFacts* host = &own_;
    const RailFacts* rail = railOf(own_, pair);
    if (!isBad(rail)) {
      host = peer();
      rail = host != nullptr ? peerRail(*host, pair) : nullptr;
    }
    if (!isBad(rail)) return std::nullopt;
    Culprit culprit;
    culprit.kind = CulpritKind::kFailedRail;
    culprit.name = railName(*host, *rail);
    culprit.key = "rail " + culprit.name;
    culprit.what = rail->state == record::RailState::kDown ? "is down" : "has failed";
    culprit.details.push_back(culprit.name + " " + stateText(*rail));
    if (!connection_.reason.empty()) culprit.details.push_back(reason());
    culprit.advice = "on " + host->host + ": railwise doctor; cable and switch port of " + rail->device;
    return culprit;
  }
  static const RailFacts* peerRail(const ProcessFacts& process, const record::Pair& pair) {
    for (const RailFacts& rail : process.rails)
      if (rail.device == pair.peer_device && rail.port == pair.peer_port) return &rail;
    return nullptr;
  }

  Finding railsFailed(Why why) {
    finding_.wait.why = why;
    for (const record::Pair& pair : connection_.pairs) {
      if (auto culprit = badRail(pair)) addCulprit(std::move(*culprit));
    }
    if (!finding_.culprits.empty()) return std::move(finding_);
    const auto blamed = pairsThat([this](const record::Pair& pair) { return isBlamed(pair); });
    for (const record::Pair* const pair : blamed) addCulprit(brokenPair(*pair));
    if (finding_.culprits.empty()) addCulprit(brokenPair({.peer_device = connection_.peer_device}));
    return std::move(finding_);
  }
  // The pairs that fit; all, where none does.
  template <typename Fits>
  std::vector<const record::Pair*> pairsThat(Fits fits) const {
    std::vector<const record::Pair*> all, fitting;
    for (const record::Pair& pair : connection_.pairs) {
      all.push_back(&pair);
      if (fits(pair)) fitting.push_back(&pair);
    }
    return fitting.empty() ? all : fitting;
  }
  // Does the reason name the port of the pair? "soft3 port 1 qp 7: ...", "soft3: the device failed", and of
  // the peer's port "the sender lost it: soft3 ...". A device that refuses queue pairs is up, and holds up
  // all pairs of the connection.
  bool isBlamed(const record::Pair& pair) const {
    constexpr std::string_view kByPeer = " lost it: ";
    const std::string_view reason = connection_.reason;
    if (const std::size_t told = reason.find(kByPeer); told != std::string_view::npos)
      return beginsWithPort(reason.substr(told + kByPeer.size()), pair.peer_device, pair.peer_port);
    const RailFacts* const own = railOf(own_, pair);
    return own != nullptr && beginsWithPort(reason, own->device, own->port);
  }
  static bool beginsWithPort(std::string_view text, const std::string& device, int port) {
    if (device.empty() || !text.starts_with(device)) return false;
    const std::string_view rest = text.substr(device.size());
    const std::string number = " port " + std::to_string(port);
    return rest.starts_with(":") || rest.starts_with(number + ":") || rest.starts_with(number + " ");
  }
  void addCulprit(Culprit culprit) {
    for (const Culprit& known : finding_.culprits)
      if (known.key == culprit.key) return;
    finding_.culprits.push_back(std::move(culprit));
  }
  // A pair that carries nothing although its ports are up. Says what both ends know; the rest is to be
  // filled.
  Culprit emptyPair(CulpritKind kind, const record::Pair& pair) const {
    Culprit culprit;
    culprit.kind = kind;
    culprit.details.push_back(pairText(pair));
    if (peer() != nullptr) culprit.details.push_back(endsText());
    if (const RailFacts* const rail = railOf(own_, pair))
      culprit.details.push_back(ownPort(pair) + " " + stateText(*rail));
    culprit.advice = "railwise doctor --pair " + hostOfPeer(connection_.peer) + " on " + own_.host +
                     " measures the rail pairs";
    return culprit;
  }
  // The two ends of a pair make one culprit.
  Culprit brokenPair(const record::Pair& pair) const {
    const std::string from = ownPort(pair);
    const std::string to = peerPort(pair);
    Culprit culprit = emptyPair(CulpritKind::kFailedRail, pair);
    culprit.name = std::min(from, to) + " - " + std::max(from, to);
    culprit.key = "pair " + culprit.name;
    culprit.what = "does not carry data";
    if (!connection_.reason.empty()) culprit.details.push_back(reason());
    return culprit;
  }

  // Nothing arrives, and no one has noticed a failure. `outward`: what this end sends does not arrive.
  Finding silentPath(bool outward) {
    finding_.wait.why = Why::kSilentPath;
    const auto owing = pairsThat([this](const record::Pair& pair) { return owes(pair); });
    for (const record::Pair* const pair : owing) addCulprit(silentRail(*pair, outward));
    if (finding_.culprits.empty()) addCulprit(silentRail({.peer_device = connection_.peer_device}, outward));
    return std::move(finding_);
  }
  Culprit silentRail(const record::Pair& pair, bool outward) const {
    if (auto culprit = badRail(pair)) return std::move(*culprit);
    const std::string own = ownPort(pair);
    const std::string other = peerPort(pair);
    Culprit culprit = emptyPair(CulpritKind::kSilentRail, pair);
    culprit.name = outward ? own + " -> " + other : other + " -> " + own;
    culprit.key = "silent " + culprit.name;
    culprit.what = "is silent: what is sent does not arrive (a black hole)";
    culprit.advice += "; then the switch between them";
    return culprit;
  }
  // Is data owed over the pair: are more bytes posted than have arrived?
  bool owes(const record::Pair& pair) const {
    const auto place = static_cast<int>(&pair - connection_.pairs.data());
    const ConnectionFacts* const other = otherEnd();
    if (other == nullptr || isOneSided(connection_)) return false;  // a target does not count bytes
    for (const record::QueuePair& own : connection_.queue_pairs) {
      if (own.pair != place || own.number == 0) continue;
      for (const record::QueuePair& theirs : other->queue_pairs) {
        if (theirs.peer_number != own.number || own.peer_number != theirs.number) continue;
        const bool sends = connection_.side == Side::kSender;
        if ((sends ? own.bytes : theirs.bytes) > (sends ? theirs.bytes : own.bytes)) return true;
      }
    }
    return false;
  }

  const Job& job_;
  const ProcessFacts& own_;
  const ConnectionFacts& connection_;
  Finding finding_;
};

}  // namespace

bool isStopped(const ProcessFacts& process) {
  return process.kernel_state == 'T' || process.kernel_state == 't';
}

Culprit processCulprit(const Job& job, int place, CulpritKind kind, const char* key) {
  return {.kind = kind,
          .key = key + std::to_string(place),
          .name = processName(job.process(place)),
          .process = place};
}

std::string railName(const ProcessFacts& process, const RailFacts& rail) {
  return portName(process.host, rail.device, rail.port);
}

Culprit unnamedPeers(const Job& job, int place) {
  const ProcessFacts& own = job.process(place);
  Culprit culprit = processCulprit(job, place, CulpritKind::kUnnamedPeers, "unnamed ");
  culprit.what = "waits for peers that the spy cannot name";
  uint64_t sent = 0, received = 0, open = 0;
  for (const ProcessFacts& process : job.processes()) {
    for (const ConnectionFacts& connection : process.connections) {
      if (connection.side == Side::kReceiver) received += connection.completed;
      if (connection.side == Side::kSender) sent += connection.completed;
      if (connection.side == Side::kSender) open += connection.posted - connection.completed;
    }
  }
  culprit.details.push_back(
      "in the records here " + counted(sent, "send is", "sends are") + " done, " + std::to_string(open) +
      " under way, and " + counted(received, "receive is", "receives are") + " done" +
      (sent > received && open == 0 ? ": if all ranks are here, the plugin has lost what it said was sent"
                                    : ""));
  culprit.advice =
      "which rank has not sent? on " + own.host + ": gdb -p " + std::to_string(own.pid) +
      " -batch -ex 'thread apply all bt'; does the plugin lose messages? railwise conform PLUGIN";
  return culprit;
}

Culprit stoppedProcess(const Job& job, int place) {
  const ProcessFacts& process = job.process(place);
  const bool debugged = process.kernel_state == 't';
  Culprit culprit = processCulprit(job, place, CulpritKind::kStoppedProcess, "stopped ");
  culprit.what = debugged ? "is held by a debugger" : "is stopped (SIGSTOP)";
  culprit.advice = "on " + process.host + (debugged ? ": leave the debugger that holds " : ": kill -CONT ") +
                   std::to_string(process.pid);
  return culprit;
}

std::string stoppedBeforeText(const Job& job, int place) {
  constexpr uint64_t kMuchMs = 6 * record::kBeat.count();
  const ProcessFacts& own = job.process(place);
  if (own.alive || own.ended || own.alive_ns == 0 || own.gone_ms == kNever) return "";
  const ProcessFacts* last = nullptr;  // of the peers, who showed life the longest
  for (int i = 0; i < static_cast<int>(own.connections.size()); ++i) {
    const End end = job.otherEnd({place, i});
    if (end.process < 0 || end.process == place || end.connection < 0) continue;
    const ProcessFacts& peer = job.process(end.process);
    const ConnectionFacts& connection = job.connection(end);
    // With a message open, the plugin sees at once that its peer has gone.
    const bool waits = connection.state == ConnectionState::kRunning && record::hasOpenMessage(connection);
    if (!peer.alive && waits && (last == nullptr || peer.gone_ms < last->gone_ms)) last = &peer;
  }
  if (last == nullptr || last->gone_ms == kNever || last->gone_ms + kMuchMs > own.gone_ms) return "";
  return "its last sign of life came " + ageText(own.gone_ms - last->gone_ms) + " before that of " +
         processName(*last) +
         ", which still waited for it: perhaps it was stopped (SIGSTOP, a debugger, a frozen "
         "cgroup) before it died";
}

Culprit deadProcess(const Job& job, int place) {
  const ProcessFacts& process = job.process(place);
  Culprit culprit = processCulprit(
      job, place, process.ended ? CulpritKind::kEndedProcess : CulpritKind::kDeadProcess, "dead ");
  culprit.what = process.ended ? "has ended in order" : "is dead: killed, crashed, or it left after an error";
  if (process.gone_ms != kNever)
    culprit.details.push_back((process.ended ? "it closed the network " : "its last sign of life was ") +
                              ageText(process.gone_ms) + " ago");
  if (!process.ended) culprit.details.push_back(troubleText(process));
  if (std::string text = stoppedBeforeText(job, place); !text.empty()) culprit.details.push_back(text);
  culprit.advice = "on " + process.host + ": railwise postmortem " + std::to_string(process.pid) +
                   "; dmesg (out of memory, Xid)";
  return culprit;
}

Culprit silentHost(const HostFacts& host) {
  const std::string& asked = host.asked.empty() ? host.name : host.asked;
  const std::string name = asked.substr(asked.find('@') + 1);  // without the user; npos + 1 is 0
  return {.kind = CulpritKind::kSilentHost,
          .key = "host " + name,
          .name = name,
          .what = "does not answer",
          .details = {host.error},
          .advice = "is the host up? ping " + name + "; its console; the scheduler's view of the node"};
}

Culprit slowSetup(const Job& job, int place, const std::string& why) {
  const std::string& slow_setup = job.process(place).slow_setup;
  Culprit culprit = processCulprit(job, place, CulpritKind::kHandshake, "handshake ");
  culprit.what = why;
  if (!slow_setup.empty()) culprit.details.push_back(slow_setup);
  culprit.advice =
      "which rank is missing? Each rank must have started, and must reach this host over TCP "
      "(NCCL_SOCKET_IFNAME, firewall)";
  return culprit;
}

std::optional<Finding> whyItWaits(const Job& job, End end) {
  const ConnectionFacts& connection = job.connection(end);
  const bool failed = connection.state == ConnectionState::kFailed;
  const bool gone =
      connection.state == ConnectionState::kFree || connection.state == ConnectionState::kClosed;
  const bool hangs = hangingCall(job.process(end.process)) == &connection;
  if (gone || (!connection.still && !failed && !hangs)) return std::nullopt;
  const End other = job.otherEnd(end);
  const ConnectionFacts* const there = other.connection < 0 ? nullptr : &job.connection(other);
  if (!hangs && isLeftAlone(connection) && isComplete(connection, there)) return std::nullopt;
  return Examiner(job, end).examine();
}

}  // namespace railwise::observe
