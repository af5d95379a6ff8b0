#include "collective.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "collectives.h"  // NCCL's
#include "primitives.h"
#include "reduction.h"

namespace kernels {

namespace {

Peers one(const int& rank) { return {&rank, 1}; }

Protocol protocolOf(const Function& function, int chunk_steps, int slice_steps) {
  if (function.protocol == NCCL_PROTO_SIMPLE) return simple(chunk_steps, slice_steps);
  return {.id = function.protocol};
}

Primitives::Options optionsOf(const Collective& work, Peers receive_from, Peers send_to) {
  Primitives::Options options{.receive_from = receive_from,
                              .send_to = send_to,
                              .input = work.input,
                              .output = work.output,
                              .connection = work.connection};
  options.registration.network = work.registered;
  options.registration.peers = work.outputs_at_peers != nullptr;
  options.registration.outputs_at_peers = work.outputs_at_peers;
  options.registration.output_offset = work.output_offset;
  return options;
}

// Of a step with registered buffers. Before 2.24 collectives register none.
#ifdef NCCL_MAX_NET_SIZE
constexpr ssize_t kNetworkChunk{NCCL_MAX_NET_SIZE};
#else
constexpr ssize_t kNetworkChunk = 0;
#endif

// The buffers of an all-gather or broadcast with one rank a host are registered: the NIC moves all data, the
// block only counts steps.
bool networkMovesAll(const Function& function, const Collective& work) {
  return function.protocol == NCCL_PROTO_SIMPLE && work.one_rank_per_host && work.registered;
}

// ---- rings

void ringAllReduce(Block& block, const Function& function, const Reduction& reduction,
                   const Collective& work) {
  const ncclRing& ring = block.channel.ring;
  const int ranks = block.comm.nRanks;
  const Share& share = work.share;
  Primitives prims(block, protocolOf(function, ALLREDUCE_CHUNKSTEPS, ALLREDUCE_SLICESTEPS), reduction,
                   optionsOf(work, one(ring.prev), one(ring.next)));
  ssize_t chunk = share.chunk;
  const ssize_t loop = ranks * chunk;
  for (ssize_t begin = 0; begin < share.length; begin += loop) {
    const ssize_t rest = share.length - begin;
    if (rest < loop) {
      const auto unit = static_cast<ssize_t>(16 / reduction.element_bytes);
      chunk = ((rest + ranks - 1) / ranks + unit - 1) / unit * unit;
    }
    // The chunk that this rank handles in step `j` of the ring.
    const auto chunkOf = [&](int index) { return (ring.index + ranks + index) % ranks; };
    const auto at = [&](int index) { return share.offset + begin + chunkOf(index) * chunk; };
    const auto length = [&](int index) { return std::min(chunk, rest - chunkOf(index) * chunk); };
    prims.directSend(at(-1), at(-1), length(-1));
    for (int j = 2; j < ranks; ++j) prims.directRecvReduceDirectSend(at(-j), at(-j), length(-j));
    prims.directRecvReduceCopyDirectSend(at(0), at(0), length(0), true);
    for (int j = 1; j < ranks - 1; ++j) prims.directRecvCopyDirectSend(at(-j), length(-j));
    prims.directRecv(at(1), length(1));
  }
  prims.finish();
}

void ringReduceScatter(Block& block, const Function& function, const Reduction& reduction,
                       const Collective& work) {
  const ncclRing& ring = block.channel.ring;
  const int ranks = block.comm.nRanks;
  const Share& share = work.share;
  Primitives::Options options = optionsOf(work, one(ring.prev), one(ring.next));
  options.registration = {};
  Primitives prims(block, protocolOf(function, REDUCESCATTER_CHUNKSTEPS, REDUCESCATTER_SLICESTEPS), reduction,
                   options);
  for (ssize_t begin = 0; begin < share.length; begin += share.chunk) {
    const ssize_t length = std::min(share.chunk, share.length - begin);
    const ssize_t offset = share.offset + begin;
    prims.send(offset + ring.userRanks[ranks - 1] * share.count, length);
    for (int j = 2; j < ranks; ++j)
      prims.recvReduceSend(offset + ring.userRanks[ranks - j] * share.count, length);
    prims.recvReduceCopy(offset + ring.userRanks[0] * share.count, offset, length, true);
  }
}

void ringAllGather(Block& block, const Function& function, const Reduction& reduction,
                   const Collective& work) {
  const ncclRing& ring = block.channel.ring;
  const int ranks = block.comm.nRanks;
  const Share& share = work.share;
  const bool offload = networkMovesAll(function, work);
  const auto* input = static_cast<const char*>(work.input);
  char* output = static_cast<char*>(work.output);
  Primitives::Options options = optionsOf(work, one(ring.prev), one(ring.next));
  options.registration.offload = offload;
  if (offload) {
    options.step_bytes = static_cast<size_t>(kNetworkChunk);
    const char* from = input + share.offset;
    char* to = output + share.offset + ring.userRanks[0] * share.count;
    if (to != from) std::memmove(to, from, static_cast<size_t>(share.length));
  }
  const ssize_t chunk = offload ? kNetworkChunk : share.chunk;
  Primitives prims(block,
                   offload ? simple(1, 1) : protocolOf(function, ALLGATHER_CHUNKSTEPS, ALLGATHER_SLICESTEPS),
                   reduction, options);
  for (ssize_t begin = 0; begin < share.length; begin += chunk) {
    const ssize_t length = std::min(chunk, share.length - begin);
    const ssize_t offset = share.offset + begin;
    const auto at = [&](int index) { return offset + ring.userRanks[index] * share.count; };
    if (offload || input + offset == output + at(0)) {
      prims.directSend(offset, at(0), length);
    } else {
      prims.directCopySend(offset, at(0), length);
    }
    for (int j = 1; j < ranks - 1; ++j) prims.directRecvCopyDirectSend(at(ranks - j), length);
    prims.directRecv(at(1), length);
  }
  prims.finish();
}

void ringBroadcast(Block& block, const Function& function, const Reduction& reduction,
                   const Collective& work) {
  const ncclRing& ring = block.channel.ring;
  const Share& share = work.share;
  const bool offload = networkMovesAll(function, work);
  const int root = work.root;
  const bool is_root = ring.userRanks[0] == root;
  if (offload && is_root && work.input != work.output) {
    std::memmove(static_cast<char*>(work.output) + share.offset,
                 static_cast<const char*>(work.input) + share.offset, static_cast<size_t>(share.length));
  }
  Primitives prims(block, protocolOf(function, BROADCAST_CHUNKSTEPS, BROADCAST_SLICESTEPS), reduction,
                   optionsOf(work, one(ring.prev), one(ring.next)));
  for (ssize_t begin = 0; begin < share.length; begin += share.chunk) {
    const ssize_t length = std::min(share.chunk, share.length - begin);
    const ssize_t offset = share.offset + begin;
    if (!is_root) {
      if (ring.userRanks[1] == root) {
        prims.directRecv(offset, length);
      } else {
        prims.directRecvCopyDirectSend(offset, length);
      }
    } else if (offload || work.input == work.output) {
      prims.directSend(offset, offset, length);
    } else {
      prims.directCopySend(offset, offset, length);
    }
  }
  prims.finish();
}

void ringReduce(Block& block, const Function& function, const Reduction& reduction, const Collective& work) {
  const ncclRing& ring = block.channel.ring;
  const Share& share = work.share;
  const int root = work.root;
  Primitives::Options options = optionsOf(work, one(ring.prev), one(ring.next));
  options.registration = {};
  Primitives prims(block, protocolOf(function, REDUCE_CHUNKSTEPS, REDUCE_SLICESTEPS), reduction, options);
  for (ssize_t begin = 0; begin < share.length; begin += share.chunk) {
    const ssize_t length = std::min(share.chunk, share.length - begin);
    const ssize_t offset = share.offset + begin;
    if (ring.userRanks[block.comm.nRanks - 1] == root) {
      prims.send(offset, length);
    } else if (block.comm.rank == root) {
      prims.recvReduceCopy(offset, offset, length, true);
    } else {
      prims.recvReduceSend(offset, length);
    }
  }
}

// ---- trees

void treeAllReduce(Block& block, const Function& function, const Reduction& reduction,
                   const Collective& work) {
  const ncclTree& tree = block.channel.tree;
  const Share& share = work.share;
  const Protocol protocol = protocolOf(function, 1, 1);
  const Peers up = one(tree.up);
  const Peers down{tree.down, NCCL_MAX_TREE_ARITY};
  const auto forEachChunk = [&](auto&& move) {
    for (ssize_t begin = 0; begin < share.length; begin += share.chunk)
      move(share.offset + begin, std::min(share.chunk, share.length - begin));
  };
  if (tree.up == -1) {
    Primitives prims(
        block, protocol, reduction,
        optionsOf(work, {tree.down, NCCL_MAX_TREE_ARITY_TOP}, {tree.down, NCCL_MAX_TREE_ARITY_TOP}));
    forEachChunk([&](ssize_t offset, ssize_t length) {
      prims.directRecvReduceCopyDirectSend(offset, offset, length, true);
    });
    prims.finish();
    return;
  }
  const bool leaf = tree.down[0] == -1;
  block.scheduler.together({
      [&] {  // reduce, upwards
        Primitives prims(block, protocol, reduction, optionsOf(work, down, up));
        forEachChunk([&](ssize_t offset, ssize_t length) {
          if (leaf) {
            prims.directSend(offset, offset, length);
          } else {
            prims.directRecvReduceDirectSend(offset, offset, length);
          }
        });
        prims.finish();
      },
      [&] {  // broadcast, downwards
        Primitives prims(block, protocol, reduction, optionsOf(work, up, down));
        forEachChunk([&](ssize_t offset, ssize_t length) {
          if (leaf) {
            prims.directRecv(offset, length);
          } else {
            prims.directRecvCopyDirectSend(offset, length);
          }
        });
        prims.finish();
      },
  });
}

[[noreturn]] void refuse(const Function& function) {
  std::fprintf(stderr,
               "software GPU: no kernel for collective %d, algorithm %d, protocol %d; known are rings, trees "
               "(all-reduce) and PAT. NCCL_NVLS_ENABLE=0 and NCCL_COLLNET_ENABLE=0 keep NCCL to these\n",
               function.collective, function.algorithm, function.protocol);
  std::abort();
}

}  // namespace

void runCollective(Block& block, const Function& function, const Collective& work) {
  Reduction reduction =
      reduces(function) ? reductionOf(function.operation, function.type, work.argument) : noReduction(1);
  if (reduces(function) && work.argument_by_address)
    reduction.argument = loadArgument(reinterpret_cast<const void*>(work.argument), reduction.element_bytes);

  const bool ring = function.algorithm == NCCL_ALGO_RING;
  switch (function.collective) {
    case ncclFuncAllReduce:
      if (ring) return ringAllReduce(block, function, reduction, work);
      if (function.algorithm == NCCL_ALGO_TREE) return treeAllReduce(block, function, reduction, work);
      break;
    case ncclFuncReduceScatter:
      if (ring) return ringReduceScatter(block, function, reduction, work);
#ifdef NCCL_ALGO_PAT
      if (function.algorithm == NCCL_ALGO_PAT) return runPatReduceScatter(block, function, work);
#endif
      break;
    case ncclFuncAllGather:
      if (ring) return ringAllGather(block, function, reduction, work);
#ifdef NCCL_ALGO_PAT
      if (function.algorithm == NCCL_ALGO_PAT) return runPatAllGather(block, work);
#endif
      break;
    case ncclFuncBroadcast:
      if (ring) return ringBroadcast(block, function, reduction, work);
      break;
    case ncclFuncReduce:
      if (ring) return ringReduce(block, function, reduction, work);
      break;
    default:
      break;
  }
  refuse(function);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
void runAllGatherV(Block& block, const Function& function, ncclDevWorkBcast* works, int count) {
  const ncclRing& ring = block.channel.ring;
  Primitives::Options options{.receive_from = one(ring.prev), .send_to = one(ring.next)};
  Primitives prims(block, protocolOf(function, 1, 1), noReduction(1), options);
  // A chunk of each in turn, until nothing is left of any.
  for (bool left = true; left;) {
    left = false;
    for (int i = 0; i < count; ++i) {
      ncclDevWorkBcast& work = works[i];
      const size_t length = std::min(work.bytes, static_cast<size_t>(work.chunkSize));
      if (length == 0) continue;
      const bool first = work.ringDepth == 0;
      prims.setBuffers(first ? work.sendbuff : nullptr, work.recvbuff);
      const auto offset = static_cast<ssize_t>(work.bytes_done);
      const auto size = static_cast<ssize_t>(length);
      if (first && work.sendbuff == work.recvbuff) {
        prims.send(offset, size);
      } else if (first) {
        prims.copySend(offset, offset, size);
      } else if (work.ringDepth == block.comm.nRanks - 1) {
        prims.recv(offset, size);
      } else {
        prims.recvCopySend(offset, size);
      }
      work.bytes -= length;
      work.bytes_done += length;
      left = left || work.bytes > 0;
    }
  }
}
#endif

}  // namespace kernels
