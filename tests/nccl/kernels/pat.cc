// PAT: all-gather and reduce-scatter in a logarithmic number of steps. NCCL's headers compute which rank
// sends what to whom in each step (PatAGAlgorithm, PatRSAlgorithm); here the steps are played. Up to
// `parallel factor` steps make a round: all of a round wait, then all move data, then all post, as NCCL's
// groups of threads do between their barriers.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "collective.h"
#include "collectives.h"  // NCCL's
#include "reduction.h"

namespace kernels {

#if defined(NCCL_ALGO_PAT) && NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)

namespace {

constexpr int kMaxDimensions = 32;  // distances between ranks are powers of two

// A rank at a distance, in one direction.
struct PatPeer {
  ncclConnInfo* connection = nullptr;
  uint64_t step = 0;
  long long accumulated = 0;  // elements that already lie in the buffers of its steps

  size_t stepElements(size_t element_bytes) const {
    return static_cast<size_t>(connection->stepSize) / element_bytes;
  }
  char* buffer(uint64_t at) const {
    return connection->buffs[NCCL_PROTO_SIMPLE] + at % NCCL_STEPS * static_cast<size_t>(connection->stepSize);
  }
};

class PatRunner {
 public:
  // `toward_higher`: data go to ranks with higher numbers (reduce-scatter), else to lower ones (all-gather).
  PatRunner(Block& block, const Collective& work, const Reduction& reduction, bool toward_higher)
      : block_(block),
        reduction_(reduction),
        input_(static_cast<const char*>(work.input)),
        output_(static_cast<char*>(work.output)) {
    const int ranks = block.comm.nRanks;
    for (int dimension = 0; dimension < kMaxDimensions && (1L << dimension) < ranks; ++dimension) {
      const int distance = 1 << dimension;
      const int higher = (block.comm.rank + distance) % ranks;
      const int lower = (block.comm.rank - distance + ranks) % ranks;
      receives_[dimension].connection = &block.channel.peers[toward_higher ? lower : higher]->recv[0];
      sends_[dimension].connection = &block.channel.peers[toward_higher ? higher : lower]->send[0];
      receives_[dimension].step = receives_[dimension].connection->step;
      sends_[dimension].step = sends_[dimension].connection->step;
    }
  }

  template <typename Algorithm>
  void run(Algorithm& algorithm, bool reduces) {
    std::vector<Step> round(static_cast<size_t>(algorithm.getParallelFactor()));
    do {
      for (Step& step : round) {
        step = Step{};
        algorithm.getNextOp(&step.plan);
        step.skipped = (step.plan.flags & PatSkipped) != 0;
      }
      for (Step& step : round) {
        if (!step.skipped) prepare(step, reduces);
      }
      for (Step& step : round) {
        if (!step.skipped) move(step);
      }
      for (Step& step : round) {
        if (!step.skipped) post(step);
      }
    } while (round.back().plan.last == 0);
  }

 private:
  struct Step {
    ncclPatStep plan{};
    bool skipped = false;
    PatPeer* receive = nullptr;
    PatPeer* send = nullptr;
    uint64_t receive_step = 0;
    uint64_t send_step = 0;
    const char* sources[2] = {};
    char* destinations[2] = {};
    int source_count = 0;
    int destination_count = 0;
    long long* accumulated = nullptr;  // grows to `accumulated_end`
    long long accumulated_end = 0;
  };

  void prepare(Step& step, bool reduces) {
    const ncclPatStep& plan = step.plan;
    if (plan.recvDim >= 0) {
      step.receive = &receives_[plan.recvDim];
      step.receive_step = step.receive->step + (reduces ? 0 : static_cast<uint64_t>(plan.stepOffset));
      const volatile uint64_t* tail = step.receive->connection->tail;
      const uint64_t wanted = step.receive_step + 1;
      block_.scheduler.waitUntil([=] { return __atomic_load_n(tail, __ATOMIC_ACQUIRE) >= wanted; });
    }
    if (plan.sendDim >= 0) {
      step.send = &sends_[plan.sendDim];
      step.send_step = step.send->step + (reduces ? static_cast<uint64_t>(plan.stepOffset) : 0);
      const volatile uint64_t* head = step.send->connection->head;
      const uint64_t wanted = step.send_step + 1;
      block_.scheduler.waitUntil(
          [=] { return __atomic_load_n(head, __ATOMIC_ACQUIRE) + NCCL_STEPS >= wanted; });
    }
    if (reduces) {
      prepareReduce(step);
    } else {
      prepareCopy(step);
    }
  }

  size_t bytesOf(size_t elements) const { return elements * reduction_.element_bytes; }
  long long endOf(const PatPeer& peer, uint64_t at, int offset, int count) const {
    return offset + count + static_cast<long long>(at * peer.stepElements(reduction_.element_bytes));
  }

  // Into the peer's step or the rank's output: what was received, plus this rank's input or what lies there
  // already.
  void prepareReduce(Step& step) {
    const ncclPatStep& plan = step.plan;
    char* destination;
    if (step.send != nullptr) {
      destination = step.send->buffer(step.send_step) + bytesOf(static_cast<size_t>(plan.sendOffset));
      step.accumulated = &step.send->accumulated;
      step.accumulated_end = endOf(*step.send, step.send_step, plan.sendOffset, plan.nelem);
    } else {
      destination = output_ + bytesOf(plan.outIx);
      step.accumulated = &local_accumulated_;
      step.accumulated_end = static_cast<long long>(plan.outIx) + plan.nelem;
    }
    if (step.receive != nullptr) {
      step.sources[step.source_count++] =
          step.receive->buffer(step.receive_step) + bytesOf(static_cast<size_t>(plan.recvOffset));
    }
    step.sources[step.source_count++] =
        *step.accumulated < step.accumulated_end ? input_ + bytesOf(plan.inpIx) : destination;
    step.destinations[step.destination_count++] = destination;
  }

  // What was received, or this rank's input: to the peer's step, and to the rank's output unless it lies
  // there already.
  void prepareCopy(Step& step) {
    const ncclPatStep& plan = step.plan;
    if (step.receive != nullptr) {
      step.sources[step.source_count++] =
          step.receive->buffer(step.receive_step) + bytesOf(static_cast<size_t>(plan.recvOffset));
      step.accumulated = &step.receive->accumulated;
      step.accumulated_end = endOf(*step.receive, step.receive_step, plan.recvOffset, plan.nelem);
    } else {
      step.sources[step.source_count++] = input_ + bytesOf(plan.inpIx);
      step.accumulated = &local_accumulated_;
      step.accumulated_end = static_cast<long long>(plan.inpIx) + plan.nelem;
    }
    if (step.send != nullptr) {
      step.destinations[step.destination_count++] =
          step.send->buffer(step.send_step) + bytesOf(static_cast<size_t>(plan.sendOffset));
    }
    if (*step.accumulated < step.accumulated_end) {
      char* own = output_ + bytesOf(plan.outIx);
      if (own != step.sources[0]) step.destinations[step.destination_count++] = own;
    }
  }

  void move(Step& step) {
    const auto elements = static_cast<size_t>(std::max(step.plan.nelem, 0));
    if (step.source_count == 2) {
      // The destination may be the second source.
      scratch_.assign(step.sources[0], step.sources[0] + bytesOf(elements));
      reduction_.combine(scratch_.data(), step.sources[1], elements, reduction_.argument);
      std::memcpy(step.destinations[0], scratch_.data(), bytesOf(elements));
    } else {
      for (int i = 0; i < step.destination_count; ++i) {
        if (step.destinations[i] != step.sources[0])
          std::memmove(step.destinations[i], step.sources[0], bytesOf(elements));
      }
    }
    *step.accumulated = std::max(*step.accumulated, step.accumulated_end);
  }

  void post(Step& step) {
    const ncclPatStep& plan = step.plan;
    if (step.send != nullptr && plan.postSend) {
      PatPeer& peer = *step.send;
      ncclConnInfo& connection = *peer.connection;
      if (connection.connFifo != nullptr) {
        volatile ssize_t* size = &connection.connFifo[peer.step % NCCL_STEPS].size;
        *size = static_cast<ssize_t>(bytesOf(static_cast<size_t>(plan.sendOffset + plan.nelem)));
      }
      connection.step = ++peer.step;
      __atomic_thread_fence(__ATOMIC_SEQ_CST);
      __atomic_store_n(connection.tail, peer.step, __ATOMIC_RELEASE);
    }
    if (step.receive != nullptr && plan.postRecv) {
      PatPeer& peer = *step.receive;
      peer.connection->step = ++peer.step;
      __atomic_store_n(peer.connection->head, peer.step, __ATOMIC_RELEASE);
    }
  }

  Block& block_;
  const Reduction reduction_;
  const char* input_;
  char* output_;
  PatPeer receives_[kMaxDimensions];
  PatPeer sends_[kMaxDimensions];
  long long local_accumulated_ = 0;
  std::vector<char> scratch_;
};

// `Element` matters to NCCL's algorithms by its size only.
template <typename Element>
void reduceScatter(Block& block, const Collective& work, const Reduction& reduction) {
  const Share& share = work.share;
  PatRSAlgorithm<Element> algorithm(
      static_cast<int>(share.chunk * static_cast<ssize_t>(sizeof(Element))), NCCL_STEPS,
      NCCL_PAT_NWORKERS / WARP_SIZE, static_cast<size_t>(share.offset),
      static_cast<size_t>(share.offset + share.length), static_cast<size_t>(share.count),
      static_cast<int>(share.chunk), block.comm.rank, block.comm.nRanks);
  PatRunner(block, work, reduction, true).run(algorithm, true);
}

}  // namespace

void runPatAllGather(Block& block, const Collective& work) {
  const Share& share = work.share;
  PatAGAlgorithm<uint8_t> algorithm(
      static_cast<int>(share.chunk), NCCL_STEPS, NCCL_PAT_NWORKERS / WARP_SIZE,
      static_cast<size_t>(share.offset), static_cast<size_t>(share.offset + share.length),
      static_cast<size_t>(share.count), static_cast<int>(share.chunk), block.comm.rank, block.comm.nRanks);
  PatRunner(block, work, noReduction(1), false).run(algorithm, false);
}

void runPatReduceScatter(Block& block, const Function& function, const Collective& work) {
  const Reduction reduction = reductionOf(function.operation, function.type, work.argument);
  switch (reduction.element_bytes) {
    case 1:
      return reduceScatter<uint8_t>(block, work, reduction);
    case 2:
      return reduceScatter<uint16_t>(block, work, reduction);
    case 4:
      return reduceScatter<uint32_t>(block, work, reduction);
    default:
      return reduceScatter<uint64_t>(block, work, reduction);
  }
}

#else

namespace {

[[noreturn]] void refuse() {
  std::fputs("software GPU: no kernel for PAT of NCCL before 2.27; set NCCL_PAT_ENABLE=0\n", stderr);
  std::abort();
}

}  // namespace

void runPatAllGather(Block&, const Collective&) { refuse(); }
void runPatReduceScatter(Block&, const Function&, const Collective&) { refuse(); }

#endif

}  // namespace kernels
