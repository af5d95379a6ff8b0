// Writes clear-to-sends: into the staging ring, which has the layout of the sender's ring, and from there by
// one work request for each receive into the sender's ring. It keeps the memory of each open receive, for the
// keys through other rails. One thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "net/device/memory.h"
#include "net/paths/lane.h"
#include "net/protocol/message_buffers.h"
#include "net/protocol/wire.h"
#include "net/receiver/receives.h"

namespace railwise::net {

class ClearToSendWriter {
 public:
  static constexpr uint32_t kDepth = 128;  // work requests that a queue pair should hold
  // One clear-to-send among so many is signalled. A short send queue has a smaller number.
  static constexpr uint32_t kSignalEvery = 96;

  // `staging`: kRingEntries entries of `entry_bytes`, in memory that the device reads.
  void use(std::byte* staging, uint32_t entry_bytes) {
    staging_ = staging;
    entry_bytes_ = entry_bytes;
  }
  uint32_t entryBytes() const { return entry_bytes_; }
  // The shortest send queue of the epoch holds so many work requests.
  void setDepth(uint32_t depth) { signal_every_ = std::clamp(depth * 3 / 4, 1U, kSignalEvery); }

  // Stages a clear-to-send of one buffer. `rails`: of the epoch, all of which the entries have keys for;
  // kMoreKeys: there are several.
  template <bool kMoreKeys>
  [[gnu::always_inline]] void stageOne(uint64_t number, const ReceiveBuffer& buffer, uint32_t room,
                                       std::size_t rails) {
    std::byte* place = staging_ + offsetOf(number, kMoreKeys ? kMaxRails : 1);
    if constexpr (kMoreKeys) {
      stageMoreKeys(place, buffer.memory, rails);
      place += sizeof(MoreKeys);
    }
    *reinterpret_cast<ClearToSend*>(place) = entryOf(buffer, room, makeStamp(number, 1, 0));
    memories_[0][number % kSlots] = buffer.memory;
  }
  // Stages an entry for each of `buffers`, whose rooms `receive` has. `rails`: of the epoch.
  void stage(const Receive& receive, std::span<const ReceiveBuffer> buffers, uint64_t stamp,
             std::size_t rails) {
    const uint32_t entry_bytes = entry_bytes_;
    const std::size_t slot = receive.number % kSlots;
    std::byte* place = at(receive.number, 0);
    for (std::size_t i = 0; i < buffers.size(); ++i, place += entry_bytes) {
      const MemoryHandle* const memory = buffers[i].memory;
      memories_[i][slot] = memory;
      entryAt(place, entry_bytes) = entryOf(buffers[i], receive.rooms[i], stamp);
      stageMoreKeys(place, memory, rails);
    }
  }
  // Where the entries of receive `number` are staged; on one rail.
  ClearToSend* entriesOf(uint64_t number) const {
    return reinterpret_cast<ClearToSend*>(staging_) + ringPlace(number);
  }
  // Stages entry `i` of receive `number` at `entry`, without its stamp.
  [[gnu::always_inline]] void stageInGroup(ClearToSend& entry, uint64_t number, std::size_t i,
                                           const ReceiveBuffer& buffer, uint32_t room) {
    entry = entryOf(buffer, room, 0);
    memories_[i][number % kSlots] = buffer.memory;
  }
  // Stages the keys through the rails of another epoch. `key_of`: returns the remote key of memory through a
  // rail, or an error. False: the memory of the receive cannot be registered with one of the rails.
  template <typename KeyOf>
  bool stageKeys(const Receive& receive, std::size_t rails, KeyOf&& key_of) {
    for (uint32_t i = 0; i < receive.count; ++i) {
      std::byte* const place = at(receive.number, i);
      const MemoryHandle* const memory = memories_[i][receive.number % kSlots];
      for (std::size_t rail = 0; rail < rails && memory != nullptr; ++rail) {
        const Result<MemoryKeys> keys = key_of(*memory, static_cast<uint8_t>(rail));
        if (!keys.ok()) return false;
        if (rail == 0) entryAt(place, entry_bytes_).remote_key = keys->remote;
        else reinterpret_cast<MoreKeys*>(place)->remote_key[rail] = keys->remote;
      }
    }
    return true;
  }

  // The work request for a receive that stageOne() has staged, or whose `entries` stageInGroup() has.
  // `peer_window`: address of the sender's ring.
  [[gnu::always_inline]] void fillOne(ibv_send_wr& work, ibv_sge& sge, LaneQueuePair& queue_pair,
                                      uint64_t peer_window, uint64_t number, int rails,
                                      uint32_t entries = 1) const {
    const std::size_t offset = offsetOf(number, static_cast<std::size_t>(rails)) + kUnwrittenBytes;
    const uint32_t entry_bytes = net::entryBytes(rails);
    sge = {reinterpret_cast<uint64_t>(staging_ + offset), entries * entry_bytes - kUnwrittenBytes,
           queue_pair.window_key};
    if (entries > 1) queue_pair.counts().control_extra += int64_t{entries - 1} * entry_bytes;
    work.opcode = IBV_WR_RDMA_WRITE;
    fill(work, sge, queue_pair, peer_window + offset);
  }
  // The work request for all `entries` of a receive. `as_message`: they arrive in a posted buffer (iWARP).
  void fillNext(ibv_send_wr& work, ibv_sge& sge, LaneQueuePair& queue_pair, uint64_t peer_window,
                uint64_t number, uint32_t entries, bool as_message) const {
    const uint32_t skipped = as_message ? 0 : kUnwrittenBytes;
    const std::size_t offset = std::size_t{ringPlace(number)} * entry_bytes_ + skipped;
    const uint32_t bytes = entries * entry_bytes_ - skipped;
    sge = {reinterpret_cast<uint64_t>(staging_ + offset), bytes, queue_pair.window_key};
    queue_pair.counts().control_extra += int64_t{bytes} - queue_pair.counts().control_each;
    work.opcode = as_message ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
    fill(work, sge, queue_pair, peer_window + offset);
  }

 private:
  static ClearToSend entryOf(const ReceiveBuffer& buffer, uint32_t room, uint64_t stamp) {
    const uint32_t key = buffer.memory != nullptr ? buffer.memory->keys[0].remote() : 0;
    return {0, key, buffer.address, static_cast<uint32_t>(buffer.tag), room, stamp};
  }
  // Of the first entry of a receive, where entries have keys for so many rails.
  static std::size_t offsetOf(uint64_t number, std::size_t rails) {
    return std::size_t{ringPlace(number)} * net::entryBytes(rails > 1 ? kMaxRails : 1);
  }
  // In front of an entry that has room for them.
  static void stageMoreKeys(std::byte* place, const MemoryHandle* memory, std::size_t rails) {
    for (std::size_t rail = 1; rail < rails && memory != nullptr; ++rail)
      reinterpret_cast<MoreKeys*>(place)->remote_key[rail] = memory->keys[rail].remote();
  }
  std::byte* at(uint64_t number, uint32_t i) const {
    return staging_ + std::size_t{ringPlace(number) + i} * entry_bytes_;
  }
  // Keys of further rails stand in front of the entry.
  static ClearToSend& entryAt(std::byte* place, uint32_t entry_bytes) {
    return *reinterpret_cast<ClearToSend*>(place + entry_bytes - sizeof(ClearToSend));
  }
  // Fills in everything except the opcode.
  [[gnu::always_inline]] void fill(ibv_send_wr& work, ibv_sge& sge, LaneQueuePair& queue_pair,
                                   uint64_t to) const {
    work.next = nullptr;
    work.sg_list = &sge;
    work.num_sge = 1;
    work.send_flags = sge.length <= queue_pair.inline_bytes ? IBV_SEND_INLINE : 0;
    work.wr.rdma.remote_addr = to;
    work.wr.rdma.rkey = queue_pair.peer_window_key;
    work.wr_id = count(queue_pair, work.send_flags);
  }
  // Counts one work request and returns its wr_id. One among signal_every_ is signalled; an unsignalled one
  // still reports an error.
  [[gnu::always_inline]] uint64_t count(LaneQueuePair& queue_pair, unsigned int& send_flags) const {
    uint32_t covers = 0;
    if (++queue_pair.posted() - queue_pair.covered == signal_every_) [[unlikely]] {
      send_flags |= IBV_SEND_SIGNALED;
      covers = queue_pair.cover();
    }
    return workRequestId(queue_pair.index) | endsWorkRequests(covers);
  }

  std::byte* staging_ = nullptr;
  uint32_t entry_bytes_ = sizeof(ClearToSend);
  uint32_t signal_every_ = kSignalEvery;
  // The memory of each buffer: [0] has the first buffer of each receive, [1] the second, and so on.
  std::array<std::array<const MemoryHandle*, kSlots>, kMaxReceives> memories_ = {};
};

}  // namespace railwise::net
