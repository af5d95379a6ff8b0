// The measurements: how far writes get, bandwidth, latency. Each ends by itself, whatever the other end does.
// One thread.
#pragma once

#include <chrono>
#include <span>

#include "base/clock.h"
#include "doctor/pair/measuring/endpoint.h"
#include "doctor/pair/measuring/plan.h"

namespace railwise::doctor::pair {

// An endpoint, and where its results go. Endpoints with an error are left out.
struct Lane {
  Endpoint* endpoint;
  Half* half;
};

// A write that is not acknowledged for so long is lost. The queue pair mostly says so earlier.
inline constexpr Clock::duration kProbeLimit = std::chrono::seconds(2);
// Bandwidth and latency: a rail on which nothing completes for so long has stopped.
inline constexpr Clock::duration kStallLimit = std::chrono::seconds(2);
inline constexpr uint32_t kWindow = 16;                            // writes outstanding on a lane
inline constexpr std::size_t kProbeBytes = std::size_t{64} << 10;  // more than any MTU

// Writes 8 bytes and then 64 KiB (or Endpoint::bytes(), if that is less) on all lanes at once.
void probe(std::span<const Lane> lanes);

// Writes of Endpoint::bytes() on all lanes at once for `time`, 16 outstanding on each. The result goes to
// half->*rate, GB/s, if it is more than what is there.
void measureBandwidth(std::span<const Lane> lanes, Clock::duration time, double Half::*rate);

// Ping-pong with 8 bytes for `time`. One end leads, the other follows.
void leadLatency(const Lane& lane, Clock::duration time);
void followLatency(const Lane& lane);

}  // namespace railwise::doctor::pair
