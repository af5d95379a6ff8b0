// Limits of the contract with NCCL, and limits of a connection. Where nccl/ has the same limit, plugin/
// compares both when it is compiled (kOutstandingReceives, kHandleBytes, kMaxMessageBytes, kMaxRails).
#pragma once

#include <cstddef>
#include <cstdint>

namespace railwise::net {

inline constexpr int kMaxReceives = 8;           // receives in one grouped irecv
inline constexpr int kOutstandingReceives = 32;  // irecv calls outstanding per connection
inline constexpr int kOutstandingSends = kOutstandingReceives * kMaxReceives;
// Receives posted to a queue pair: twice as many as can be under way. Half of them are replaced by one call.
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

// A message larger than the port's limit goes in several work requests. A device reports to NCCL a message
// limit that needs at most this many of them (device.cc).
inline constexpr uint32_t kMaxRequestsOfMessage = 32;
// A message is cut only between cache lines. GPUs poll the flags of LL128 line by line, so no line may be
// split between two work requests.
inline constexpr uint32_t kCutAlignment = 128;

}  // namespace railwise::net
