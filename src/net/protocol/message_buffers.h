// iWARP has no immediates: reports and clear-to-sends are RDMA sends, which arrive in posted buffers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net/limits.h"
#include "net/paths/transport_rules.h"
#include "verbs/handles.h"

namespace railwise::net {

// The buffers of posted receives, kPostedReceives for each queue pair.
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
