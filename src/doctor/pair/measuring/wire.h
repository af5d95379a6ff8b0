// What the ends of the pair test send each other over TCP, as JSON: facts, addresses of queue pairs,
// results, and NCCL's model. Every list has a limit. What arrives is checked: a message that is too short,
// too long, of another version or with a value out of its range is refused, and texts are cut and made
// printable. Pure; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "doctor/pair/measuring/plan.h"

namespace railwise::doctor::pair {

using Bytes = std::vector<std::byte>;

inline constexpr std::size_t kMaxNics = 64;
inline constexpr std::size_t kMaxNicPairs = kMaxNics * kMaxNics;
inline constexpr std::size_t kMaxText = 400;  // longer texts are cut

// What the other end must know to write to this end. `usable` false: this end could not make a queue pair.
struct QueueAddress {
  bool usable = false;
  uint32_t queue_pair = 0;
  uint64_t data = 0;  // where the other end writes
  uint32_t data_key = 0;
  uint64_t signals = 0;  // where it writes the numbers of the latency test
  uint32_t signal_key = 0;
  // iWARP: where the communication manager listens, IPv4 mapped as in a GID.
  std::array<uint8_t, 16> cm_address = {};
  uint16_t cm_port = 0;
  bool operator==(const QueueAddress&) const = default;
};

Bytes encodeFacts(const EndFacts& facts);
std::optional<EndFacts> decodeFacts(std::span<const std::byte> bytes);

Bytes encodeAddresses(const std::vector<QueueAddress>& addresses);
std::optional<std::vector<QueueAddress>> decodeAddresses(std::span<const std::byte> bytes);

Bytes encodeHalves(const std::vector<Half>& halves);
std::optional<std::vector<Half>> decodeHalves(std::span<const std::byte> bytes);

Bytes encodeNcclModel(const NcclModel& model);
std::optional<NcclModel> decodeNcclModel(std::span<const std::byte> bytes);

}  // namespace railwise::doctor::pair
