// What a round of the stress is: two communicators (ranks) come up, connect, transfer, and end in one of the
// ways of NCCL. Both ranks know it from the seed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plugin/random_transfers/plan.h"
#include "plugin/sanitizers.h"
#include "softdev/queues/random.h"

namespace railwise::test {

constexpr std::size_t kMostUserBuffers = 64;   // of an end, beside its own; the device has room for some
constexpr std::size_t kSourceBytes = 4 << 20;  // of random bytes that every rank sends from
// Of a step, over all receives of its group. With a sanitizer there is more to find in calls than in bytes.
constexpr std::size_t kMostSlotBytes = (kThreadSanitizer || kAddressSanitizer ? 64 : 512) << 10;
constexpr int kSteps = 8;  // NCCL_STEPS: how many are on their way at most

// A connection from one rank to the other. A step is a group of `subs` receives with the tags 0, 1, ...
struct ChannelPlan {
  int sender = 0;  // rank
  int send_device = 0;
  int receive_device = 0;
  int subs = 1;
  uint64_t steps = 0;
  std::size_t slot_bytes = 0;
  bool device_memory = false;  // the receiver flushes
  bool silent = false;         // the receiver asks for no completion, and finds the data by itself
  uint64_t seed = 0;

  struct Piece {
    std::size_t bytes;
    std::size_t source;
  };
  Piece piece(int sub, uint64_t step) const {
    softdev::Random random(seed ^ (step * 8 + static_cast<uint64_t>(sub)) * 0x9e3779b97f4a7c15ULL);
    const std::size_t bytes = random.below(3) == 0 ? logUniform(random, slot_bytes) : slot_bytes;
    // Nobody can see that nothing has arrived.
    return {silent ? std::max<std::size_t>(bytes, 1) : bytes, random.below(kSourceBytes)};
  }
};

enum class Ending : uint8_t {
  kDone,          // everything arrives
  kAbort,         // one rank leaves in the middle of the transfer
  kAbortConnect,  // one rank leaves while connections come up
};

struct RoundPlan {
  std::vector<ChannelPlan> channels;
  Ending ending = Ending::kDone;
  int leaver = 0;             // the rank that begins an abort
  uint64_t leaves_after = 0;  // steps, or calls of connect and accept
  bool told = true;           // the other rank is told of the abort; else it finds out
  bool meet = false;          // after a transfer both wait for each other before they close
  bool forget = false;        // what never came up is not closed, but left to finalize
  int idle_listeners = 0;     // nobody will ever connect to them
  bool fork = false;
};

// `devices`: indices that a connection may use; all of them reach each other.
inline RoundPlan planRound(uint64_t seed, const std::vector<int>& devices, const Abilities& abilities) {
  softdev::Random random(seed);
  const auto chance = [&](uint64_t of) { return random.below(of) == 0; };
  RoundPlan plan;
  const uint64_t ending = random.below(10);
  plan.ending = ending < 5 ? Ending::kDone : ending < 8 ? Ending::kAbort : Ending::kAbortConnect;
  plan.leaver = static_cast<int>(random.below(2));
  plan.told = !chance(4);
  plan.meet = chance(2);
  plan.forget = chance(2);
  plan.idle_listeners = static_cast<int>(random.below(3));
  plan.fork = chance(16);
  const uint64_t channels = 1 + random.below(4);
  for (uint64_t i = 0; i < channels; ++i) {
    ChannelPlan channel;
    channel.sender = static_cast<int>(random.below(2));
    channel.send_device = devices[random.below(devices.size())];
    channel.receive_device = chance(3) ? devices[random.below(devices.size())] : channel.send_device;
    channel.subs = chance(2) ? 1 : static_cast<int>(2 + random.below(7));
    channel.steps = 1 + random.below(60);
    channel.slot_bytes = 1 + logUniform(random, kMostSlotBytes / static_cast<std::size_t>(channel.subs));
    channel.device_memory = abilities.flushes && chance(3);
    channel.silent = abilities.silent_receives && channel.subs == 1 && !channel.device_memory && chance(3);
    channel.seed = random.next();
    plan.channels.push_back(channel);
  }
  // Nobody but the application tells who looks for data in memory that they will never come.
  for (const ChannelPlan& channel : plan.channels) plan.told = plan.told || channel.silent;
  plan.leaves_after = random.below(plan.ending == Ending::kAbort ? 40 * channels : 30);
  return plan;
}

}  // namespace railwise::test
