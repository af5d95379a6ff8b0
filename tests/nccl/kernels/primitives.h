// What a block does with its connections: NCCL's primitives, for the protocols Simple, LL and LL128.
//
// The steps, slices, flags and sizes are those of NCCL's device code, since the proxy threads of NCCL's host
// code count with them. How data lie in an LL128 line is our own (in order): both ends of a connection are
// these kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "block.h"
#include "reduction.h"

namespace kernels {

// How a chunk travels. Of LL and LL128 a chunk is one slice of one step.
struct Protocol {
  int id;  // NCCL_PROTO_SIMPLE, _LL or _LL128
  int slices_per_chunk = 1;
  int steps_per_slice = 1;
};

inline Protocol simple(int chunk_steps, int slice_steps) {
  return {NCCL_PROTO_SIMPLE, chunk_steps / slice_steps, slice_steps};
}

// The ranks that a primitive receives from or sends to: up to `limit` of them, ended by -1.
struct Peers {
  const int* ranks = nullptr;
  int limit = 0;
};

// Registered user buffers, from NCCL's work.
struct Registration {
  bool network = false;  // the NIC reads or writes the user's buffer; connections that can (NCCL_DIRECT_NIC)
                         // are given sizes only
  bool peers = false;    // GPUs of the host reach the user's buffers: they are written to, or read from,
                         // directly over connections that can (NCCL_P2P_WRITE, NCCL_P2P_READ)
  // For a collective with `peers`: the address at which each local rank has mapped this rank's output.
  const uintptr_t* outputs_at_peers = nullptr;
  uintptr_t output_offset = 0;
  bool p2p = false;  // the work is a send or receive, not a collective. With `peers` its buffer is an address
                     // of the rank that uses it
  bool offload = false;  // the block only drives the steps; it touches no data
};

class Primitives {
 public:
  struct Options {
    Peers receive_from;
    Peers send_to;
    const void* input = nullptr;
    void* output = nullptr;
    int connection = 0;     // index: 0 for collectives, 1 for send and receive
    size_t step_bytes = 0;  // of Simple; 0: NCCL's buffer size divided by its steps
    Registration registration = {};
  };

  Primitives(Block& block, const Protocol& protocol, const Reduction& reduction, const Options& options);
  Primitives(const Primitives&) = delete;
  Primitives& operator=(const Primitives&) = delete;
  // Keeps the steps for the next operation. Call finish() first, which may wait.
  ~Primitives();

  // Waits until NICs have read the registered buffers of the last sends.
  void finish();

  void setBuffers(const void* input, void* output);

  // One chunk each, in elements: `in` is an offset into the input, `out` into the output. "direct" sends and
  // receives use the user's buffers where these are registered. The last word of a reduction (a division) is
  // done where `last` is true.
  void send(ssize_t in, ssize_t count) { operate({.source = kInput, .send = true}, in, -1, count); }
  void directSend(ssize_t in, ssize_t out, ssize_t count) {
    operate({.source = kInput, .send = true, .direct_send = true}, in, out, count);
  }
  void recv(ssize_t out, ssize_t count) {
    operate({.destination = kOutput, .receive = true}, -1, out, count);
  }
  void directRecv(ssize_t out, ssize_t count) {
    operate({.destination = kOutput, .receive = true, .direct_receive = true}, out, out, count);
  }
  void copySend(ssize_t in, ssize_t out, ssize_t count) {
    operate({.source = kInput, .destination = kOutput, .send = true}, in, out, count);
  }
  void directCopySend(ssize_t in, ssize_t out, ssize_t count) {
    operate({.source = kInput, .destination = kOutput, .send = true, .direct_send = true}, in, out, count);
  }
  void recvCopySend(ssize_t out, ssize_t count) {
    operate({.destination = kOutput, .receive = true, .send = true}, -1, out, count);
  }
  void directRecvCopyDirectSend(ssize_t out, ssize_t count) {
    operate(
        {.destination = kOutput, .receive = true, .send = true, .direct_receive = true, .direct_send = true},
        out, out, count);
  }
  void recvReduceSend(ssize_t in, ssize_t count) {
    operate({.source = kInput, .receive = true, .send = true}, in, -1, count);
  }
  void directRecvReduceDirectSend(ssize_t in, ssize_t out, ssize_t count) {
    operate({.source = kInput, .receive = true, .send = true, .direct_receive = true, .direct_send = true},
            in, out, count);
  }
  void recvReduceCopy(ssize_t in, ssize_t out, ssize_t count, bool last) {
    operate({.source = kInput, .destination = kOutput, .receive = true, .last = last}, in, out, count);
  }
  void directRecvReduceCopyDirectSend(ssize_t in, ssize_t out, ssize_t count, bool last) {
    operate({.source = kInput,
             .destination = kOutput,
             .receive = true,
             .send = true,
             .direct_receive = true,
             .direct_send = true,
             .last = last},
            in, out, count);
  }

 private:
  enum Buffer { kNone, kInput, kOutput };
  struct Operation {
    Buffer source = kNone;
    Buffer destination = kNone;
    bool receive = false;
    bool send = false;
    bool direct_receive = false;
    bool direct_send = false;
    bool last = false;
  };

  // Who moves the data between the registered buffers of two GPUs of a host.
  enum class PeerAccess { kNone, kSenderWrites, kReceiverReads };

  // One connection of this block.
  struct Link {
    ncclConnInfo* connection = nullptr;
    uint64_t step = 0;
    bool direct_nic = false;
    PeerAccess peer_access = PeerAccess::kNone;
    char* peer_buffer = nullptr;  // the buffer that is written to or read from
  };

  static constexpr int kMaxLinks = 4;  // of NCCL's trees: 3

  void operate(const Operation& operation, ssize_t in, ssize_t out, ssize_t count);
  void operateSimple(const Operation& operation, ssize_t in, ssize_t out, size_t count);
  void operateLines(const Operation& operation, ssize_t in, ssize_t out, size_t count);

  void waitToReceive(const Link& link);
  void waitToSend(const Link& link, ssize_t bytes);
  void* receiveBuffer(const Link& link, const Operation& operation, size_t in, size_t out);
  void* sendBuffer(const Link& link, const Operation& operation, size_t out);
  static PeerAccess peerAccess(const ncclConnInfo& connection, const Registration& registration);
  void offer(Link& link, const void* address);
  void* takeOffer(Link& link);
  void exchangeBuffers(Link& link, int rank, bool sends);
  void move(const Operation& operation, const void* const* sources, int source_count,
            void* const* destinations, int destination_count, size_t count) const;
  char* bufferAt(Buffer buffer, ssize_t offset) const;

  Block& block_;
  const Protocol protocol_;
  const Reduction reduction_;
  const Registration registration_;
  size_t slice_elements_ = 0;  // of Simple, before a chunk's size cuts it
  const char* input_ = nullptr;
  char* output_ = nullptr;
  Link receives_[kMaxLinks];
  Link sends_[kMaxLinks];
  int receive_count_ = 0;
  int send_count_ = 0;
};

}  // namespace kernels
