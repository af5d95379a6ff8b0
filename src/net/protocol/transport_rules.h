// What iWARP does otherwise than InfiniBand and RoCE. A connection has one of the two constants below. iWARP
// has neither immediate data nor an order in which writes become visible, so an RDMA send with a record
// reports each segment, and a clear-to-send is an RDMA send too. A send is complete when the local TCP has
// its data, so a completion does not show that anything has arrived: the device of the peer must be asked (a
// probe).
#pragma once

#include <cstddef>
#include <cstdint>

#include "net/limits.h"
#include "net/protocol/wire.h"
#include "verbs/handles.h"

namespace railwise::net {

struct TransportRules {
  // An RDMA write can have an immediate. False: messages arrive in posted buffers (MessageBuffers).
  bool has_immediates;
  // A completed work request has arrived at the peer.
  bool completion_means_arrival;
  // Every work request is signalled. siw lets TCP take the bytes of an unsignalled one straight from the
  // user's pages, and TCP may repeat them after a later work request has completed. TCP would then send what
  // the user has written there since.
  bool signals_all;
  ibv_wr_opcode report;         // reports a segment to the receiver
  ibv_wr_opcode clear_to_send;  // brings a clear-to-send to the sender
  uint32_t unwritten_bytes;     // bytes at the begin of a clear-to-send that do not travel
  uint32_t sender_receives;     // receives that a sender posts to each queue pair
  uint32_t probe_reserve;       // entries of the send queue kept for probes
};

inline constexpr TransportRules kRdmaRules = {.has_immediates = true,
                                              .completion_means_arrival = true,
                                              .signals_all = false,
                                              .report = IBV_WR_RDMA_WRITE_WITH_IMM,
                                              .clear_to_send = IBV_WR_RDMA_WRITE,
                                              .unwritten_bytes = kUnwrittenBytes,
                                              .sender_receives = 1,
                                              .probe_reserve = 0};
inline constexpr TransportRules kIwarpRules = {.has_immediates = false,
                                               .completion_means_arrival = false,
                                               .signals_all = true,
                                               .report = IBV_WR_SEND,
                                               .clear_to_send = IBV_WR_SEND,
                                               .unwritten_bytes = 0,
                                               .sender_receives = kPostedReceives,
                                               .probe_reserve = 1};

// iWARP: the buffers of posted receives, kPostedReceives for each queue pair.
class MessageBuffers {
 public:
  static std::size_t bytesFor(const TransportRules& rules, std::size_t bytes_each, int queue_pairs) {
    return rules.has_immediates ? 0 : kPostedReceives * bytes_each * static_cast<std::size_t>(queue_pairs);
  }
  void use(std::byte* memory, std::size_t bytes_each) {
    memory_ = memory;
    bytes_each_ = bytes_each;
  }
  std::byte* at(std::size_t queue_pair, uint32_t buffer) const {
    return memory_ + (queue_pair * kPostedReceives + buffer) * bytes_each_;
  }
  ibv_sge sge(std::size_t queue_pair, uint32_t buffer, uint32_t key) const {
    return {reinterpret_cast<uint64_t>(at(queue_pair, buffer)), static_cast<uint32_t>(bytes_each_), key};
  }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_each_ = 0;
};

}  // namespace railwise::net
