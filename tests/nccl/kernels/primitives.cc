#include "primitives.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "collectives.h"  // NCCL's
#include "lines.h"

namespace kernels {

namespace {

// Results are made in pieces of this size that stay in the first-level cache: a piece may be reduced from
// several sources and stored to several destinations, one of which may be a source.
constexpr size_t kPieceBytes = 4096;

uint64_t loadStep(const volatile uint64_t* step) { return __atomic_load_n(step, __ATOMIC_ACQUIRE); }
void storeStep(volatile uint64_t* step, uint64_t value) { __atomic_store_n(step, value, __ATOMIC_RELEASE); }

uint64_t roundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Before 2.24 a work is registered only where its one connection can, and receives have no flag for it.
bool canDirectNic([[maybe_unused]] const ncclConnInfo& connection) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
  return (connection.flags & NCCL_DIRECT_NIC) != 0;
#else
  return true;
#endif
}

// Before 2.24 no work says that GPUs of the host reach its buffers.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
constexpr int kPeerWrite = NCCL_P2P_WRITE;
constexpr int kPeerRead = NCCL_P2P_READ;
#else
constexpr int kPeerWrite = 0;
constexpr int kPeerRead = 0;
#endif

int localRank([[maybe_unused]] const Comm& comm, [[maybe_unused]] int rank) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
  return comm.rankToLocalRank[rank];
#else
  return 0;
#endif
}

}  // namespace

// Collectives are always written: NCCL lets a receiver read in algorithms of CollNet only.
Primitives::PeerAccess Primitives::peerAccess(const ncclConnInfo& connection,
                                              const Registration& registration) {
  const int flags = registration.peers ? connection.flags & (kPeerWrite | kPeerRead) : 0;
  if (flags == 0) return PeerAccess::kNone;
  return registration.p2p && (flags & kPeerWrite) == 0 ? PeerAccess::kReceiverReads
                                                       : PeerAccess::kSenderWrites;
}

Primitives::Primitives(Block& block, const Protocol& protocol, const Reduction& reduction,
                       const Options& options)
    : block_(block), protocol_(protocol), reduction_(reduction), registration_(options.registration) {
  const size_t step_bytes = options.step_bytes != 0
                                ? options.step_bytes
                                : static_cast<size_t>(block.comm.buffSizes[NCCL_PROTO_SIMPLE] / NCCL_STEPS);
  slice_elements_ = step_bytes / reduction.element_bytes * static_cast<size_t>(protocol.steps_per_slice);
  setBuffers(options.input, options.output);

  const auto steps_per_chunk = static_cast<uint64_t>(protocol.slices_per_chunk * protocol.steps_per_slice);
  const auto open = [&](ncclConnInfo& connection) {
    Link link{.connection = &connection, .step = connection.step, .direct_nic = false};
    if (protocol.id != NCCL_PROTO_SIMPLE) return link;
    link.step = roundUp(link.step, steps_per_chunk);
    link.direct_nic = registration_.network && canDirectNic(connection);
    link.peer_access = peerAccess(connection, registration_);
    return link;
  };
  for (; receive_count_ < options.receive_from.limit && options.receive_from.ranks[receive_count_] >= 0;
       ++receive_count_) {
    Link& link = receives_[receive_count_];
    link = open(block.channel.peers[options.receive_from.ranks[receive_count_]]->recv[options.connection]);
    if (protocol.id != NCCL_PROTO_SIMPLE) continue;
    storeStep(link.connection->head,
              link.step);  // gives back the credits of the steps that rounding up has skipped
    if (link.direct_nic && link.connection->connFifo != nullptr)
      link.connection->connFifo[link.step % NCCL_STEPS].size = 0;
    exchangeBuffers(link, options.receive_from.ranks[receive_count_], false);
  }
  for (; send_count_ < options.send_to.limit && options.send_to.ranks[send_count_] >= 0; ++send_count_) {
    sends_[send_count_] =
        open(block.channel.peers[options.send_to.ranks[send_count_]]->send[options.connection]);
    exchangeBuffers(sends_[send_count_], options.send_to.ranks[send_count_], true);
  }
}

Primitives::~Primitives() {
  for (int i = 0; i < receive_count_; ++i) receives_[i].connection->step = receives_[i].step;
  for (int i = 0; i < send_count_; ++i) sends_[i].connection->step = sends_[i].step;
}

void Primitives::finish() {
  for (int i = 0; i < send_count_; ++i) {
    const Link& link = sends_[i];
    if (registration_.p2p && link.peer_access == PeerAccess::kReceiverReads) {
      const ncclConnInfo& connection = *link.connection;
      block_.scheduler.waitUntil([&] { return loadStep(connection.head) >= loadStep(connection.tail); });
    }
    if (!link.direct_nic) continue;
    const uint64_t last_step = link.step - static_cast<uint64_t>(protocol_.steps_per_slice);
    const volatile ssize_t* size = &link.connection->connFifo[last_step % NCCL_STEPS].size;
    block_.scheduler.waitUntil([size] { return __atomic_load_n(size, __ATOMIC_ACQUIRE) == -1; });
  }
}

// One end of a connection tells the other an address, which the other may use.
void Primitives::offer(Link& link, const void* address) {
  void** const word = link.connection->ptrExchange;
  block_.scheduler.waitUntil([word] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) == nullptr; });
  __atomic_store_n(word, const_cast<void*>(address), __ATOMIC_RELEASE);
}

void* Primitives::takeOffer(Link& link) {
  void** const word = link.connection->ptrExchange;
  void* address = nullptr;
  block_.scheduler.waitUntil([&] { return (address = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != nullptr; });
  __atomic_store_n(word, nullptr, __ATOMIC_RELEASE);
  return address;
}

void Primitives::exchangeBuffers(Link& link, int rank, bool sends) {
  if (link.peer_access == PeerAccess::kNone) return;
  const bool offers = sends == (link.peer_access == PeerAccess::kReceiverReads);
  if (!offers) {
    link.peer_buffer = static_cast<char*>(takeOffer(link));
    return;
  }
  link.peer_buffer = sends ? const_cast<char*>(input_) : output_;
  if (registration_.p2p) return offer(link, link.peer_buffer);
  const uintptr_t output = registration_.outputs_at_peers[localRank(block_.comm, rank)];
  offer(link, reinterpret_cast<const void*>(output + registration_.output_offset));
}

void Primitives::setBuffers(const void* input, void* output) {
  input_ = static_cast<const char*>(input);
  output_ = static_cast<char*>(output);
}

char* Primitives::bufferAt(Buffer buffer, ssize_t offset) const {
  char* base = buffer == kInput ? const_cast<char*>(input_) : output_;
  return base + offset * static_cast<ssize_t>(reduction_.element_bytes);
}

void Primitives::operate(const Operation& operation, ssize_t in, ssize_t out, ssize_t count) {
  const auto elements = static_cast<size_t>(std::max<ssize_t>(count, 0));
  if (protocol_.id == NCCL_PROTO_SIMPLE) {
    operateSimple(operation, in, out, elements);
  } else {
    operateLines(operation, in, out, elements);
  }
}

// ---- waiting

void Primitives::waitToReceive(const Link& link) {
  const uint64_t wanted = link.step + static_cast<uint64_t>(protocol_.steps_per_slice);
  const volatile uint64_t* tail = link.connection->tail;
  block_.scheduler.waitUntil([=] { return loadStep(tail) >= wanted; });
}

// Waits for room, and tells a proxy how many bytes the step will have.
void Primitives::waitToSend(const Link& link, ssize_t bytes) {
  const uint64_t wanted = link.step + static_cast<uint64_t>(protocol_.steps_per_slice);
  const volatile uint64_t* head = link.connection->head;
  block_.scheduler.waitUntil([=] { return loadStep(head) + NCCL_STEPS >= wanted; });
  if (link.connection->connFifo != nullptr) {
    volatile ssize_t* size = &link.connection->connFifo[link.step % NCCL_STEPS].size;
    *size = bytes;
  }
}

// ---- Simple

namespace {

// Where a step of a Simple connection lies.
char* stepBuffer(const ncclConnInfo& connection, uint64_t step) {
  char* base = connection.buffs[NCCL_PROTO_SIMPLE];
  if (connection.connFifo != nullptr && connection.connFifo[step % NCCL_STEPS].mode == NCCL_MODE_OFFSET) {
    const volatile ncclConnFifo& slot = connection.connFifo[step % NCCL_STEPS];
    return base + slot.offset;
  }
  return base + (step % NCCL_STEPS) * static_cast<size_t>(connection.stepSize);
}

}  // namespace

// Null: the NIC has written the data where they belong. What a peer has written lies in the output already.
void* Primitives::receiveBuffer(const Link& link, const Operation& operation, size_t in, size_t out) {
  if (operation.direct_receive && link.direct_nic) return registration_.p2p ? nullptr : output_ + in;
  if (operation.direct_receive && link.peer_access != PeerAccess::kNone)
    return link.peer_buffer + (link.peer_access == PeerAccess::kReceiverReads ? in : out);
  return stepBuffer(*link.connection, link.step);
}

// Null: the NIC or the receiver reads the data where they are.
void* Primitives::sendBuffer(const Link& link, const Operation& operation, size_t out) {
  if (operation.direct_send && link.direct_nic)
    return registration_.p2p || !operation.receive ? nullptr : output_ + out;
  if (operation.direct_send && link.peer_access != PeerAccess::kNone)
    return link.peer_access == PeerAccess::kReceiverReads ? nullptr : link.peer_buffer + out;
  return stepBuffer(*link.connection, link.step);
}

void Primitives::operateSimple(const Operation& operation, ssize_t in, ssize_t out, size_t count) {
  const auto slices = static_cast<size_t>(protocol_.slices_per_chunk);
  const size_t slice = std::max((count + 16 * slices - 1) / (16 * slices) * 16, slice_elements_ / 32);
  const size_t bytes = reduction_.element_bytes;
  size_t offset = 0;
  for (size_t index = 0; index < slices; ++index) {
    const size_t elements = std::min(slice, count - offset);
    const auto size = static_cast<ssize_t>(elements * bytes);
    if (operation.receive) {
      for (int i = 0; i < receive_count_; ++i) waitToReceive(receives_[i]);
    }
    if (operation.send) {
      for (int i = 0; i < send_count_; ++i) waitToSend(sends_[i], size);
    }
    if (elements > 0 && !registration_.offload) {
      // The rank's own buffer comes first, then the peers'.
      const void* sources[kMaxLinks + 1];
      void* destinations[kMaxLinks + 1];
      int source_count = 0;
      int destination_count = 0;
      const auto at = static_cast<ssize_t>(offset);
      if (operation.source != kNone) sources[source_count++] = bufferAt(operation.source, in + at);
      if (operation.destination != kNone)
        destinations[destination_count++] = bufferAt(operation.destination, out + at);
      const size_t in_bytes = static_cast<size_t>(in + at) * bytes;
      const size_t out_bytes = static_cast<size_t>(out + at) * bytes;
      bool present = true;
      if (operation.receive) {
        for (int i = 0; i < receive_count_; ++i) {
          void* source = receiveBuffer(receives_[i], operation, in_bytes, out_bytes);
          present = present && source != nullptr;
          sources[source_count++] = source;
        }
      }
      if (operation.send) {
        for (int i = 0; i < send_count_; ++i) {
          void* destination = sendBuffer(sends_[i], operation, out_bytes);
          if (destination != nullptr) destinations[destination_count++] = destination;
        }
      }
      if (present && destination_count > 0)
        move(operation, sources, source_count, destinations, destination_count, elements);
    }
    const auto steps = static_cast<uint64_t>(protocol_.steps_per_slice);
    if (operation.receive) {
      for (int i = 0; i < receive_count_; ++i) {
        receives_[i].step += steps;
        storeStep(receives_[i].connection->head, receives_[i].step);
      }
    }
    if (operation.send) {
      std::atomic_thread_fence(std::memory_order_seq_cst);
      for (int i = 0; i < send_count_; ++i) {
        sends_[i].step += steps;
        storeStep(sends_[i].connection->tail, sends_[i].step);
      }
    }
    offset += elements;
  }
}

void Primitives::move(const Operation& operation, const void* const* sources, int source_count,
                      void* const* destinations, int destination_count, size_t count) const {
  const size_t bytes = reduction_.element_bytes;
  const bool prepares = operation.source == kInput && reduction_.prepare != nullptr;
  const bool finishes = operation.last && reduction_.finish != nullptr;
  if (source_count == 1 && !prepares && !finishes) {
    for (int i = 0; i < destination_count; ++i) {
      if (destinations[i] != sources[0]) std::memmove(destinations[i], sources[0], count * bytes);
    }
    return;
  }
  alignas(16) char piece[kPieceBytes];
  const size_t piece_elements = kPieceBytes / bytes;
  for (size_t begin = 0; begin < count; begin += piece_elements) {
    const size_t elements = std::min(piece_elements, count - begin);
    const size_t offset = begin * bytes;
    std::memcpy(piece, static_cast<const char*>(sources[0]) + offset, elements * bytes);
    if (prepares) reduction_.prepare(piece, elements, reduction_.argument);
    for (int i = 1; i < source_count; ++i) {
      reduction_.combine(piece, static_cast<const char*>(sources[i]) + offset, elements, reduction_.argument);
    }
    if (finishes) reduction_.finish(piece, elements, reduction_.argument);
    for (int i = 0; i < destination_count; ++i)
      std::memcpy(static_cast<char*>(destinations[i]) + offset, piece, elements * bytes);
  }
}

// ---- LL and LL128: lines that carry their own flags

void Primitives::operateLines(const Operation& operation, ssize_t in, ssize_t out, size_t count) {
  const LineFormat& format = lineFormat(protocol_.id);
  const size_t bytes = count * reduction_.element_bytes;
  const size_t lines = format.linesOf(bytes);
  const size_t step_bytes = static_cast<size_t>(block_.comm.buffSizes[protocol_.id]) / NCCL_STEPS;
  const auto linesAt = [&](const Link& link) {
    return link.connection->buffs[protocol_.id] + link.step % NCCL_STEPS * step_bytes;
  };

  if (operation.send) {
    for (int i = 0; i < send_count_; ++i) {
      const bool cleans = format.cleansAt(sends_[i].step);
      waitToSend(sends_[i], static_cast<ssize_t>(cleans ? step_bytes : lines * format.line_bytes));
    }
  }
  alignas(16) char piece[kLinesPerPiece * kMaxLineData];
  alignas(16) char received[kLinesPerPiece * kMaxLineData];
  for (size_t line = 0; line < lines; line += kLinesPerPiece) {
    const size_t piece_lines = std::min(kLinesPerPiece, lines - line);
    const size_t begin = line * format.data_bytes;
    const size_t data = begin < bytes ? std::min(piece_lines * format.data_bytes, bytes - begin) : 0;
    const size_t elements = data / reduction_.element_bytes;
    bool filled = false;
    if (operation.source != kNone) {
      std::memcpy(piece, bufferAt(operation.source, in) + begin, data);
      if (operation.source == kInput && reduction_.prepare != nullptr)
        reduction_.prepare(piece, elements, reduction_.argument);
      filled = true;
    }
    if (operation.receive) {
      for (int i = 0; i < receive_count_; ++i) {
        const char* from = linesAt(receives_[i]) + line * format.line_bytes;
        const uint64_t flag = receives_[i].step + 1;
        for (size_t j = 0; j < piece_lines; ++j) {
          block_.scheduler.waitUntil([&, j] {
            return format.read(from + j * format.line_bytes, flag, received + j * format.data_bytes);
          });
        }
        if (filled) {
          reduction_.combine(piece, received, elements, reduction_.argument);
        } else {
          std::memcpy(piece, received, piece_lines * format.data_bytes);
          filled = true;
        }
      }
    }
    if (operation.last && reduction_.finish != nullptr)
      reduction_.finish(piece, elements, reduction_.argument);
    if (operation.send) {
      for (int i = 0; i < send_count_; ++i) {
        char* to = linesAt(sends_[i]) + line * format.line_bytes;
        for (size_t j = 0; j < piece_lines; ++j)
          format.write(to + j * format.line_bytes, sends_[i].step + 1, piece + j * format.data_bytes);
      }
    }
    if (operation.destination != kNone)
      std::memcpy(bufferAt(operation.destination, out) + begin, piece, data);
  }
  if (operation.receive) {
    for (int i = 0; i < receive_count_; ++i) {
      receives_[i].step += 1;
      storeStep(receives_[i].connection->head, receives_[i].step);
    }
  }
  if (operation.send) {
    for (int i = 0; i < send_count_; ++i) {
      Link& link = sends_[i];
      if (format.cleansAt(link.step)) {
        const char empty[kMaxLineData] = {};
        for (size_t line = lines; line < step_bytes / format.line_bytes; ++line) {
          format.write(linesAt(link) + line * format.line_bytes, link.step + 1, empty);
        }
      }
      link.step += 1;
      // Of LL a proxy looks at the flags; of LL128 it waits for the tail.
      if (protocol_.id == NCCL_PROTO_LL128 && link.connection->connFifo != nullptr)
        storeStep(link.connection->tail, link.step);
    }
  }
}

}  // namespace kernels
