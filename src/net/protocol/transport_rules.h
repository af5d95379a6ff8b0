// What iWARP does otherwise than InfiniBand and RoCE. A connection has one of the two constants below. iWARP
// has neither immediate data nor an order in which writes become visible, so an RDMA send with a record
// reports each segment, and a clear-to-send is an RDMA send too. A write or send is complete when the local
// TCP has its data, perhaps long before it arrives. So an RDMA read follows each segment: the device of the
// peer answers it only when it has everything that was sent before (RFC 5040, section 5.5). The completion of
// the read is what the completion of the report is elsewhere.
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
  // A completed write has arrived at the peer. False: only a completed read shows that it has.
  bool completion_means_arrival;
  ibv_wr_opcode report;         // reports a segment to the receiver
  ibv_wr_opcode clear_to_send;  // brings a clear-to-send to the sender
  uint32_t unwritten_bytes;     // bytes at the begin of a clear-to-send that do not travel
  uint32_t sender_receives;     // receives that a sender posts to each queue pair
};

inline constexpr TransportRules kRdmaRules = {.has_immediates = true,
                                              .completion_means_arrival = true,
                                              .report = IBV_WR_RDMA_WRITE_WITH_IMM,
                                              .clear_to_send = IBV_WR_RDMA_WRITE,
                                              .unwritten_bytes = kUnwrittenBytes,
                                              .sender_receives = 1};
inline constexpr TransportRules kIwarpRules = {.has_immediates = false,
                                               .completion_means_arrival = false,
                                               .report = IBV_WR_SEND,
                                               .clear_to_send = IBV_WR_SEND,
                                               .unwritten_bytes = 0,
                                               .sender_receives = kPostedReceives};

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
