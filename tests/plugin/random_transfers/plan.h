// What is sent: every group of receives of a connection follows from a seed. Data are stretches of one buffer
// of random bytes that both ends know, so that a message is checked by one comparison.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "softdev/queues/random.h"

namespace railwise::test {

constexpr std::size_t kMaxMessage = 16 << 20;
constexpr std::size_t kMaxGroup = 40 << 20;  // rooms of a group together

// One receive of a group, and the send that it gets.
struct PlannedMessage {
  std::size_t room = 0;
  std::size_t bytes = 0;   // at most room
  std::size_t source = 0;  // offset in the buffer of random bytes
  int tag = 0;
  bool own_registration = false;  // of just these bytes, at either end
};

struct PlannedGroup {
  std::vector<PlannedMessage> messages;
  std::vector<std::size_t> send_order;  // which message the sends are for, in their order
  bool silent = false;                  // the receiver asks for no completion
  bool flush = false;                   // of memory that is registered as a GPU's
};

// 0 to `most`, every power of two as likely as the others.
inline std::size_t logUniform(softdev::Random& random, std::size_t most) {
  const double exponent =
      static_cast<double>(random.below(uint64_t{1} << 40)) / static_cast<double>(uint64_t{1} << 40);
  return static_cast<std::size_t>(std::exp(exponent * std::log(static_cast<double>(most) + 1.0)) - 1.0);
}

// What the version of the API and the device have, and what the caller asks for.
struct Abilities {
  bool silent_receives = false;
  bool flushes = false;  // iWARP: host memory only, which needs none
  std::size_t largest = kMaxMessage;
};

inline PlannedGroup planGroup(softdev::Random& random, std::size_t most_messages,
                              const Abilities& abilities) {
  const auto chance = [&](uint64_t of) { return random.below(of) == 0; };
  PlannedGroup group;
  const std::size_t count =
      chance(2) ? 1 : 1 + random.below(std::min<std::size_t>(most_messages, std::size_t{8}));
  group.silent = abilities.silent_receives && count == 1 && chance(4);
  group.flush = abilities.flushes && chance(8);
  const uint64_t tags = 1 + random.below(2 * count);  // few: the same tag stands several times
  std::size_t left = kMaxGroup / 8 * abilities.largest / (kMaxMessage / 8);
  for (std::size_t i = 0; i < count; ++i) {
    PlannedMessage message;
    message.room = std::min(logUniform(random, abilities.largest), left);
    left -= message.room;
    message.bytes = chance(4) ? logUniform(random, message.room) : message.room;
    message.source = random.below(abilities.largest);
    message.tag = static_cast<int>(random.below(tags)) * 7 - 3;
    message.own_registration = chance(16);
    group.messages.push_back(message);
  }
  // A send takes the first open receive with its tag. Any order of tags is one that a sender may choose.
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  if (chance(2)) {
    for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  }
  std::vector<bool> taken(count);
  for (const std::size_t wanted : order) {
    for (std::size_t i = 0; i < count; ++i) {
      if (taken[i] || group.messages[i].tag != group.messages[wanted].tag) continue;
      taken[i] = true;
      group.send_order.push_back(i);
      break;
    }
  }
  return group;
}

}  // namespace railwise::test
