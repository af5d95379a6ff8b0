// What the pair test found. Plain values; thread-safe.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "doctor/pair/measuring/plan.h"

namespace railwise::doctor::pair {

// How far the writes of one end got.
enum class Reach : uint8_t {
  kNotTried = 0,
  kNone = 1,       // not even 8 bytes
  kSmallOnly = 2,  // 8 bytes, but not 64 KiB: packets of full size are lost
  kAll = 3,
};

// What one end of a NIC pair found about its own writes to the other end.
struct Half {
  Reach reach = Reach::kNotTried;
  bool wrong_data = false;     // what the other end wrote did not arrive as it was sent
  std::string error;           // the failure of a queue pair or of a write; "": there was none
  double alone_gbytes = 0;     // GB/s while no other NIC of the hosts sends; 0: not measured
  double together_gbytes = 0;  // GB/s while all NICs send in both directions; 0: not measured
  double latency_us = 0;       // half the median round trip of 8 bytes; only the first end measures it
  bool operator==(const Half&) const = default;
};

struct PairResult {
  Match match;
  NicPair nics;
  std::array<Half, 2> halves;  // of match.a and match.b
};

// NCCL's own cost model of all_reduce on as many hosts as are measured, each like the one that reports, with
// all their GPUs.
struct NcclModel {
  double gbytes = 0;       // GB/s of the bus that large messages approach; 0: not known
  double ring_gbytes = 0;  // GB/s that NCCL's rings take of the NICs
  std::vector<std::string> ring_nics;
  std::string text;       // "NCCL's model (2.30.7), 2 hosts with 8 GPUs each"
  std::string algorithm;  // "NVLSTree"
  std::string limit;      // a sentence
};

struct Results {
  std::vector<EndFacts> ends;
  std::vector<PairResult> pairs;
  std::size_t rounds = 0;
  double seconds = 0;  // how long all of it took
  NcclModel nccl;      // who reports fills it in
};

}  // namespace railwise::doctor::pair
