// Limits of the contract with NCCL, and limits of a connection. plugin/ compares the contract's limits with
// NCCL's own constants when it is compiled.
#pragma once

#include <cstddef>
#include <cstdint>

namespace railwise::net {

inline constexpr int kMaxReceives = 8;           // receives in one grouped irecv
inline constexpr int kOutstandingReceives = 32;  // irecv calls outstanding per connection
inline constexpr int kOutstandingSends = kOutstandingReceives * kMaxReceives;
// Receives posted to a queue pair: twice as many as can be under way, so that half of them can be replaced at
// once.
inline constexpr uint32_t kPostedReceives = 2 * kOutstandingReceives;
inline constexpr int kOutstandingFlushes = 2 * kOutstandingReceives;
inline constexpr std::size_t kHandleBytes = 128;
inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;  // NCCL cuts its messages at 1 GiB

// Physical and virtual devices of a process: NCCL indexes arrays of this size (NCCL_MAX_NETDEVS).
inline constexpr int kMaxDevices = 128;
// Ports of one virtual device (NCCL_NET_MAX_DEVS_PER_NIC is 8 in version 12, and 4 before).
inline constexpr int kMaxRails = 8;
// Lanes of one connection, over which a message can be spread. Four bits of the immediate number the segments
// of a message.
inline constexpr int kMaxLanes = 16;
// Queue pairs of one connection, over all its lanes.
inline constexpr int kMaxQueuePairs = 32;

// A message larger than the port's limit is sent as several work requests ("pieces"). More than this many
// would not fit the send queue for a whole group.
inline constexpr uint32_t kMaxPieces = 32;
// Pieces end on cache lines: GPUs poll LL128 flags line by line, so no line may be split between two work
// requests.
inline constexpr uint32_t kPieceAlignment = 128;

}  // namespace railwise::net
