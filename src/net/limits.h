// Numbers of the contract with NCCL. plugin/ asserts that they equal NCCL's own constants.
#pragma once

#include <cstddef>
#include <cstdint>

namespace railwise::net {

inline constexpr int kMaxReceives = 8;           // receives in one grouped irecv
inline constexpr int kOutstandingReceives = 32;  // irecv calls outstanding per connection
inline constexpr int kOutstandingSends = kOutstandingReceives * kMaxReceives;
// Receives posted to a queue pair: more than can be on their way, so that half of them can be replaced at
// once.
inline constexpr uint32_t kPostedReceives = 2 * kOutstandingReceives;
inline constexpr int kOutstandingFlushes = 2 * kOutstandingReceives;
inline constexpr std::size_t kHandleBytes = 128;
inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;  // NCCL cuts its messages at 1 GiB

// Physical and virtual devices of a process: NCCL indexes arrays of this size (NCCL_MAX_NETDEVS).
inline constexpr int kMaxDevices = 128;
// Ports of one virtual device (NCCL_NET_MAX_DEVS_PER_NIC of version 12; 4 before).
inline constexpr int kMaxRails = 8;
// Lanes of one connection: what a message can be spread over. The parts of a message are numbered with four
// bits of the immediate.
inline constexpr int kMaxLanes = 16;
// Queue pairs of one connection, over all its lanes.
inline constexpr int kMaxQueuePairs = 32;

// A message larger than the port's limit travels as several work requests; more than this many would not fit
// the send queue of a whole group.
inline constexpr uint32_t kMaxPieces = 32;
// Pieces end on cache lines: GPUs poll LL128 flags line by line, so no line may be torn between work
// requests.
inline constexpr uint32_t kPieceAlignment = 128;

}  // namespace railwise::net
