#include <sched.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "doctor/pair/measuring/endpoint.h"

namespace railwise::doctor::pair {
namespace {

constexpr std::size_t kMostRoundTrips = 5000;
constexpr double kGiga = 1e9;

void note(const Lane& lane) {
  if (!lane.endpoint->error().empty()) lane.half->error = lane.endpoint->error();
}

// Two writes of the probe on one lane.
class ProbedLane {
 public:
  explicit ProbedLane(const Lane& lane) : lane_(lane) {
    lane_.half->reach = Reach::kNone;
    Endpoint& endpoint = *lane_.endpoint;
    if (!endpoint.writeSignal(kProbeSignal) || !endpoint.writeData(std::min(kProbeBytes, endpoint.bytes())))
      over_ = true;
  }

  // False: nothing more will come.
  bool poll() {
    if (over_) return false;
    const int done = lane_.endpoint->poll();
    over_ = done < 0;
    done_ += std::max(done, 0);
    if (done_ > 0) lane_.half->reach = done_ > 1 ? Reach::kAll : Reach::kSmallOnly;
    over_ = over_ || done_ > 1;
    return !over_;
  }

  void end() {
    if (!over_) lane_.endpoint->fail("a write was not acknowledged within 2 s");
    note(lane_);
  }

 private:
  const Lane lane_;
  int done_ = 0;
  bool over_ = false;
};

// A lane while its bandwidth is measured.
class BusyLane {
 public:
  BusyLane(const Lane& lane, Clock::time_point begin) : lane_(lane), begin_(begin), moved_at_(begin) {}

  // `posting` false: the time is over, and only what is outstanding is awaited. Returns whether anything
  // moved.
  bool turn(Clock::time_point now, bool posting) {
    if (over_) return false;
    Endpoint& endpoint = *lane_.endpoint;
    bool moved = false;
    for (; posting && endpoint.outstanding() < kWindow; moved = true) {
      if (!endpoint.writeData(endpoint.bytes())) return stop();
    }
    const int done = endpoint.poll();
    if (done < 0) return stop();
    if (done > 0) {
      written_ += static_cast<uint64_t>(done);
      moved_at_ = Clock::now();
      moved = true;
    } else if (now - moved_at_ > kStallLimit) {
      endpoint.fail("no write completed for 2 s");
      return stop();
    }
    over_ = !posting && endpoint.outstanding() == 0;
    return moved;
  }

  bool over() const { return over_; }

  void end(double Half::*rate) const {
    note(lane_);
    const std::chrono::duration<double> time = moved_at_ - begin_;
    if (!lane_.endpoint->error().empty() || time.count() <= 0) return;
    const double bytes = static_cast<double>(written_) * static_cast<double>(lane_.endpoint->bytes());
    lane_.half->*rate = std::max(lane_.half->*rate, bytes / kGiga / time.count());
  }

 private:
  bool stop() {
    over_ = true;
    return false;
  }

  const Lane lane_;
  const Clock::time_point begin_;
  Clock::time_point moved_at_;
  uint64_t written_ = 0;
  bool over_ = false;
};

// Waits for another number than `last`. False: none has come in time, or a write of ours has failed.
bool awaitSignal(Endpoint& endpoint, uint64_t last, Clock::duration limit) {
  const Deadline deadline = Deadline::after(limit);
  for (unsigned turn = 1; endpoint.signal() == last; ++turn) {
    if (endpoint.poll() < 0) return false;
    if (turn % 64 != 0) continue;
    if (deadline.passed()) return false;
    sched_yield();
  }
  return endpoint.poll() >= 0;
}

// Before anything else is measured, the last signals must have completed.
void drain(Endpoint& endpoint) {
  const Deadline deadline = Deadline::after(kStallLimit);
  while (endpoint.error().empty() && endpoint.outstanding() > 0) {
    if (endpoint.poll() == 0 && deadline.passed()) endpoint.fail("no write completed for 2 s");
  }
}

}  // namespace

void probe(std::span<const Lane> lanes) {
  std::vector<ProbedLane> probed;
  for (const Lane& lane : lanes) {
    if (lane.endpoint->error().empty()) probed.emplace_back(lane);
    else note(lane);
  }
  const Deadline deadline = Deadline::after(kProbeLimit);
  for (bool waiting = true; waiting && !deadline.passed();) {
    waiting = false;
    for (ProbedLane& lane : probed) waiting = lane.poll() || waiting;
    if (waiting) sched_yield();
  }
  for (ProbedLane& lane : probed) lane.end();
}

void measureBandwidth(std::span<const Lane> lanes, Clock::duration time, double Half::*rate) {
  const Clock::time_point begin = Clock::now();
  std::vector<BusyLane> busy;
  for (const Lane& lane : lanes) {
    if (lane.endpoint->error().empty()) busy.emplace_back(lane, begin);
  }
  for (bool all_over = busy.empty(); !all_over;) {
    const Clock::time_point now = Clock::now();
    bool moved = false;
    all_over = true;
    for (BusyLane& lane : busy) {
      moved = lane.turn(now, now - begin < time) || moved;
      all_over = all_over && lane.over();
    }
    if (!moved) sched_yield();
  }
  for (const BusyLane& lane : busy) lane.end(rate);
}

void leadLatency(const Lane& lane, Clock::duration time) {
  Endpoint& endpoint = *lane.endpoint;
  std::vector<double> microseconds;
  const Deadline deadline = Deadline::after(time);
  uint64_t number = 0;
  uint64_t last = endpoint.signal();
  while (endpoint.error().empty() && microseconds.size() < kMostRoundTrips && !deadline.passed()) {
    const Clock::time_point begin = Clock::now();
    if (!endpoint.writeSignal(++number)) break;
    if (!awaitSignal(endpoint, last, kStallLimit)) {
      endpoint.fail("no answer to 8 bytes within 2 s");
      break;
    }
    last = number;
    microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  note(lane);
  if (!endpoint.error().empty() || microseconds.empty()) return;
  (void)endpoint.writeSignal(kStopSignal);
  drain(endpoint);
  lane.half->latency_us = medianOf(std::move(microseconds)) / 2;
}

void followLatency(const Lane& lane) {
  Endpoint& endpoint = *lane.endpoint;
  uint64_t last = kProbeSignal;
  while (endpoint.error().empty() && awaitSignal(endpoint, last, kStallLimit)) {
    last = endpoint.signal();
    if (last == kStopSignal || !endpoint.writeSignal(last)) break;
  }
  drain(endpoint);
  note(lane);
}

}  // namespace railwise::doctor::pair
