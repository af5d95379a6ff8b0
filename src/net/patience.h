// Every wait of src/net, with the reason of its value. No other file of src/net has a duration of its own
// (tests/layout/patience_test.py).
//
// A recovery has RAILWISE_FAILOVER_TIMEOUT, below called T. Each wait inside a recovery is a part of T, so
// that a connection with a short T still tries several paths, and each of them more than once. Waits that
// belong to no recovery are constants, and so are those of a call that resumes the side channel.
//
// The file lies beside limits.h, because all rooms of src/net wait, from the devices upwards. The waits of
// the handshake and of the side channel stand here too: a recovery goes through the side channel, and whoever
// tunes one wait sees what it must fit to.
//
// Plain values; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace railwise::net {

class Patience {
 public:
  using Duration = Clock::duration;

  // `failover_timeout_s`: RAILWISE_FAILOVER_TIMEOUT.
  constexpr explicit Patience(int failover_timeout_s) : limit_(std::chrono::seconds(failover_timeout_s)) {}

  // T: so long without any path a connection looks for one.
  constexpr Duration limit() const { return limit_; }

  // ---- a recovery: how long a path is believed

  // How long an answer may be owed by a path that another path can replace. A healthy path answers in
  // microseconds. Where TCP repeats what is lost (iWARP), after 0.2 s at least, silence of less than a second
  // is no sign.
  static constexpr Duration kStall = std::chrono::seconds(1);
  // Where the longest round trip is known, a path is silent after so many round trips. The least stall is
  // longer than a pause of a switch (PFC) or of this process.
  static constexpr int kRoundTrips = 64;
  static constexpr Duration kLeastStall = std::chrono::milliseconds(200);
  // Another connection over this path has had no answer.
  static constexpr Duration kHurriedStall = std::chrono::milliseconds(100);
  // Stalls in a row double the wait, up to this: eight silent paths, one after the other, fit into T, and
  // four into a T below 8 s.
  constexpr Duration longestStall() const {
    return std::max(std::min<Duration>(kStall, limit_ / 4), limit_ / 8);
  }
  // How long the queue pairs of an epoch may take to come up: the peer's address may have to be resolved, and
  // until then the transition to RTR answers ETIMEDOUT. A path that cannot be joined leaves three quarters of
  // T.
  constexpr Duration joinEpoch() const { return std::min<Duration>(std::chrono::seconds(2), limit_ / 4); }

  // ---- a recovery: how long a path is left alone

  // A path that has failed `failures` times in a row, while there are others. Each failure doubles the pause,
  // so a flapping port is used less and less.
  constexpr Duration pathPause(int failures) const {
    return doubled(std::chrono::seconds(1), failures - 1, std::min(kLongestPathPause, limit_));
  }
  // A path that has failed, where there is no other. The pause is short, because the failure may have been
  // brief, and at most a sixteenth of T: each path is tried some times.
  constexpr Duration onlyPathPause(int failures) const {
    return doubled(std::chrono::milliseconds(5), failures - 1,
                   std::min<Duration>(std::chrono::seconds(1), limit_ / 16));
  }
  // A path that has worked for so long begins with a clean record: twice the longest pause.
  static constexpr Duration kPathForgets = std::chrono::minutes(2);
  // Without any path, the pause until ports and addresses are looked at again.
  static constexpr Duration kLookAgain = std::chrono::milliseconds(20);

  // ---- a recovery: stopping the old queue pairs

  // A stop that the driver has refused is asked for again after this. Such refusals pass in milliseconds, or
  // not at all.
  static constexpr Duration kStopAskAgain = std::chrono::milliseconds(50);
  // After so many refusals the queue pair is destroyed instead. That comes second, because it drops
  // completions that were not polled.
  constexpr Duration destroyInstead() const {
    return std::min<Duration>(std::chrono::seconds(1), limit_ / 4);
  }
  // A destruction that is refused is asked for again after the same pause, doubled up to this: a receiver may
  // wait for it.
  static constexpr Duration kLongestDestroyPause = std::chrono::milliseconds(500);
  // A queue pair in the error state gives its receives back at once, unless its device is dead.
  static constexpr Duration kDrain = std::chrono::milliseconds(100);
  // iWARP: new queue pairs wait for connections of RDMA CM that are being destroyed. siw gives a peer that
  // does not answer up after 7 s, with few retries of TCP. A driver that never answers must not keep the
  // connections of other devices waiting.
  constexpr Duration managerBusy() const { return std::min<Duration>(std::chrono::seconds(8), limit_ / 4); }
  // So long a driver may take for a call before it counts as one that does not answer.
  static constexpr Duration kDriverSilent = std::chrono::seconds(1);
  // So long the thread for such calls waits for another one before it ends. A device that is opened anew
  // again and again has such threads for each of its generations.
  static constexpr Duration kDriverThreadIdle = std::chrono::seconds(5);
  // The pauses before a device that refuses memory, although it has not failed, is asked again: 21 ms. It may
  // lack something for a moment. Or it has failed, and its event has not been read yet.
  static constexpr std::array<Duration, 3> kRefusalPauses = {
      std::chrono::milliseconds(1), std::chrono::milliseconds(4), std::chrono::milliseconds(16)};
  // A device that still answers EIO or ENODEV has probably failed. Its event is awaited: on a busy machine
  // the watcher's thread gets no CPU for a while.
  static constexpr Duration kFailureFollows = std::chrono::milliseconds(500);

  // ---- going back to better paths

  // How long after the begin of an epoch the connection first searches for better paths. The pause doubles up
  // to the longest.
  static constexpr Duration kFirstSearch = std::chrono::milliseconds(250);
  static constexpr Duration kLongestSearch = std::chrono::seconds(10);
  // A trial waits so long for the receiver's reply, and so long for the answer to its read. A round trip
  // takes microseconds.
  constexpr Duration trial() const { return std::min<Duration>(std::chrono::milliseconds(500), limit_ / 8); }
  // The receiver of a trial waits for both.
  constexpr Duration trialAtReceiver() const { return 2 * trial(); }

  // ---- devices that come back

  // The pause after `attempts` attempts to open a failed device. Connections without another rail give up
  // after T, so at least 16 attempts fit into T.
  constexpr Duration reopenPause(int attempts) const {
    return doubled(std::chrono::milliseconds(50), attempts,
                   std::min<Duration>(std::chrono::seconds(10), limit_ / 16));
  }
  // A device is shown to connections after this, also if memory is missing.
  constexpr Duration renewal() const { return limit_ / 8; }
  // How long the end of the process waits for a driver that is opening a device.
  static constexpr Duration kReopenerEnds = std::chrono::milliseconds(100);

  // ---- flushes

  // A flush takes microseconds. A device that does not answer for so long is silent; the flush is repeated
  // through other rails, with pauses.
  constexpr Duration flush() const { return std::min<Duration>(std::chrono::seconds(1), limit_ / 4); }
  static constexpr Duration kFlushPause = std::chrono::milliseconds(10);

  // ---- watching a peer

  // The pause between two checks of the peer.
  static constexpr Duration kCheck = std::chrono::milliseconds(20);
  // One step of time counts as at most this, because a process that was stopped for a while did not poll
  // meanwhile.
  static constexpr Duration kLongestStep = std::chrono::milliseconds(100);
  // Silence after which a connection with nothing under way asks the peer's device. It is far longer than a
  // pause between messages, so it costs little.
  static constexpr Duration kAskAfter = std::chrono::seconds(1);
  // After the peer has left: what it sent before is in this machine's memory, but perhaps not polled yet.
  static constexpr Duration kDataGrace = std::chrono::milliseconds(100);
  // After a queue pair was disconnected: the peer may have left it, and say so over the side channel, once it
  // has drained its other queue pairs.
  static constexpr Duration kWordFollows = std::chrono::milliseconds(250);
  // A receiver may close as soon as it has the data, while the acknowledgement of the data is on the wire or
  // is being repeated.
  static constexpr Duration kAcknowledgementGrace = std::chrono::seconds(2);
  // How long a connection waits for the reason of an error, and how often it looks. Some completions give no
  // reason, and an event that gives it follows (Watch::awaitDiagnosis()).
  static constexpr Duration kReasonFollows = std::chrono::milliseconds(100);
  static constexpr Duration kReasonLook = std::chrono::milliseconds(5);

  // While a message is on its way, silence is normal: the message completes at its end. The speed is that of
  // a link slower than any in use.
  static constexpr Duration transfer(uint64_t bytes) {
    constexpr uint64_t kSlowestBytesPerSecond = 100'000'000 / 8;
    return std::chrono::milliseconds(bytes * 1000 / kSlowestBytesPerSecond);
  }
  // Without failover: the time after which a device must have reported something. A device of InfiniBand or
  // RoCE (`reports`) may take four times its timeout (InfiniBand specification, 9.7.6.1.3); 5 s are for small
  // settings. On iWARP the device reports nothing: TCP tries for a quarter of an hour to deliver over a path
  // that is gone. It repeats a lost packet after 0.2 s, 0.4 s and so on; three seconds are enough for four
  // losses in a row. `ib_timeout`, `ib_retry_count`: NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT.
  static constexpr Duration unreported(bool reports, int ib_timeout, int ib_retry_count) {
    const Duration acknowledge = std::chrono::nanoseconds(int64_t{4096} << ib_timeout) * (ib_retry_count + 1);
    return reports ? std::max<Duration>(acknowledge * 4, std::chrono::seconds(5))
                   : std::max(acknowledge, kLeastUnreported);
  }
  static constexpr Duration kLeastUnreported = std::chrono::seconds(3);

  // ---- the handshake

  // A caller that says nothing loses its place after this time. The real peer speaks as soon as it is
  // connected.
  static constexpr Duration kHello = std::chrono::seconds(30);
  // Some 10 us a stranger: a flood of 20,000 strangers in a second never fills the backlog, even if NCCL
  // calls accept() only every 50 ms.
  static constexpr Duration kAdmit = std::chrono::milliseconds(10);
  // A peer whose call has ended calls again within half a second for each address, or within 2 s if an
  // address does not answer.
  static constexpr Duration kCallsAgain = std::chrono::seconds(10);
  // RDMA CM may tell the receiver later than the sender that a queue pair is up.
  static constexpr Duration kManagerFollows = std::chrono::seconds(2);
  // Before an address is called again, times the number of calls so far. Ten calls of each address take some
  // three seconds.
  static constexpr Duration kCallPause = std::chrono::milliseconds(50);
  // Time after which the next address is tried while the first one has not answered.
  static constexpr Duration kCall = std::chrono::seconds(2);
  // NCCL has not asked for a connection for so long after its deadline: nobody counts it as coming any more.
  static constexpr Duration kAbandoned = std::chrono::minutes(1);
  // The interfaces of the machine are read again when the answer is so old: a rank makes hundreds of
  // listeners in a row.
  static constexpr Duration kInterfacesKnown = std::chrono::seconds(1);
  // Between two looks at which peers are missing.
  static constexpr Duration kCensus = std::chrono::milliseconds(200);

  // ---- the side channel

  // No frame has come while one is expected: the TCP connection is doubted, and doubted again after twice the
  // time, up to the longest. A peer that is stopped answers nothing either.
  static constexpr Duration kFrame = std::chrono::seconds(1);
  static constexpr Duration kLongestFrame = std::chrono::minutes(1);
  // A caller speaks as soon as it is connected.
  static constexpr Duration kCallerSpeaks = std::chrono::seconds(3);
  // A peer answers at once, unless its process is stopped. Then each call takes a place in its backlog.
  static constexpr Duration kCalledAnswers = std::chrono::minutes(1);
  // A TCP connection that lives for so long is good.
  static constexpr Duration kProbation = std::chrono::seconds(1);
  // Between two calls, doubled up to the longest.
  static constexpr Duration kFirstResumption = std::chrono::milliseconds(20);
  static constexpr Duration kLongestResumption = std::chrono::seconds(1);
  // Without a descriptor for a caller, who stays in the backlog, the thread would wake without end.
  static constexpr Duration kDeaf = std::chrono::milliseconds(50);

  // ---- one-sided communication

  // A group that nobody has called for so long is driven by a thread of Railwise. A thread that drives a
  // group calls it every microsecond.
  static constexpr Duration kAttend = std::chrono::milliseconds(5);

  // ---- threads and the log

  // How often a watcher thread looks that cannot sleep, and how often its end is looked for.
  static constexpr std::chrono::milliseconds kTick{5};
  static constexpr Duration kThreadEnds = std::chrono::milliseconds(1);
  // A side channel that is lost again and again warns once in this time.
  static constexpr Duration kWarnAgain = std::chrono::minutes(1);

 private:
  static constexpr Duration kLongestPathPause = std::chrono::minutes(1);
  static constexpr Duration doubled(Duration first, int times, Duration longest) {
    return std::min(first * (1 << std::min(times, 10)), longest);
  }

  Duration limit_;
};

}  // namespace railwise::net
