// What the soak's traffic is: every round of every connection follows from the seed, so that both ends know
// each byte without telling each other.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "softdev/queues/random.h"

namespace railwise::softdev::soak {

constexpr int kMaxOps = 6;  // of a round
constexpr std::byte kCanary{0xee};

struct Op {
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  uint32_t offset = 0;  // in the slot
  uint32_t length = 0;
  uint64_t pattern = 0;
  uint64_t operand = 0;  // of an atomic
  uint32_t imm = 0;
  bool signalled = false;
  bool inlined = false;
  bool fenced = false;
  int sges = 1;
};

inline bool isSend(ibv_wr_opcode opcode) { return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM; }
inline bool hasImm(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND_WITH_IMM;
}
inline bool consumesReceive(ibv_wr_opcode opcode) { return isSend(opcode) || hasImm(opcode); }
inline bool isAtomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

// The byte at `index` of a pattern.
inline std::byte patternByte(uint64_t pattern, uint64_t index) {
  const uint64_t mixed = (pattern + index / 8) * 0x9e3779b97f4a7c15ULL;
  return static_cast<std::byte>(mixed >> (index % 8 * 8));
}

inline void fillPattern(std::byte* target, uint64_t pattern, uint64_t first, uint64_t length) {
  for (uint64_t i = 0; i < length; ++i) target[i] = patternByte(pattern, first + i);
}

inline bool hasPattern(const std::byte* memory, uint64_t pattern, uint64_t first, uint64_t length) {
  for (uint64_t i = 0; i < length; ++i) {
    if (memory[i] != patternByte(pattern, first + i)) return false;
  }
  return true;
}

inline bool isCanary(const std::byte* memory, uint64_t length) {
  return std::all_of(memory, memory + length, [](std::byte byte) { return byte == kCanary; });
}

// Imm of the last message of a round, of the others, and of the receiver's acknowledgement.
enum : uint32_t { kImmEnd = 0x10000000, kImmData = 0x20000000, kImmAck = 0x30000000, kImmKind = 0xf0000000 };

struct Shape {
  uint32_t slot_bytes;
  uint32_t max_inline;
  bool atomics;
};

// The round's requests. `end` is the sending end; `generation` counts its connections.
inline std::vector<Op> planRound(uint64_t seed, uint32_t end, uint32_t generation, uint32_t round,
                                 const Shape& shape) {
  Random random(seed ^ (uint64_t{end} << 40) ^ (uint64_t{generation} << 24) ^ round);
  constexpr ibv_wr_opcode kAny[] = {
      IBV_WR_RDMA_WRITE,    IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,  IBV_WR_SEND,
      IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};
  std::vector<Op> ops(1 + random.below(kMaxOps));
  for (size_t i = 0; i < ops.size(); ++i) {
    Op& op = ops[i];
    const bool last = i + 1 == ops.size();
    op.opcode = kAny[random.below(shape.atomics ? 8 : 6)];
    if (last) op.opcode = random.below(2) == 0 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM;
    const uint64_t size = random.below(8);
    op.length = static_cast<uint32_t>(size == 0   ? 0
                                      : size < 4  ? 1 + random.below(64)
                                      : size == 4 ? 8
                                                  : 1 + random.below(shape.slot_bytes));
    if (isAtomic(op.opcode)) op.length = 8;
    op.offset = static_cast<uint32_t>(random.below(shape.slot_bytes - op.length + 1));
    if (random.below(2) == 0) op.offset &= ~7U;
    op.pattern = random.next();
    op.operand = random.next();
    op.imm = (last ? uint32_t{kImmEnd} : uint32_t{kImmData}) | (round & 0xffffff);
    op.signalled = last || op.opcode == IBV_WR_RDMA_READ || isAtomic(op.opcode) || random.below(2) == 0;
    op.inlined = op.length <= shape.max_inline && op.opcode <= IBV_WR_SEND_WITH_IMM && random.below(2) == 0;
    op.fenced = random.below(8) == 0;
    op.sges = isAtomic(op.opcode) ? 1 : static_cast<int>(1 + random.below(3));
  }
  return ops;
}

}  // namespace railwise::softdev::soak
