#include "lines.h"

#include <cstring>

#include "device.h"  // NCCL's

namespace kernels {

namespace {

// LL: 16 bytes, two words of 4 bytes data and 4 bytes flag. A word is written, and travels, as a whole.
bool readLl(const char* line, uint64_t flag, char* data) {
  const auto* words = reinterpret_cast<const uint64_t*>(line);
  const uint64_t first = __atomic_load_n(&words[0], __ATOMIC_ACQUIRE);
  const uint64_t second = __atomic_load_n(&words[1], __ATOMIC_ACQUIRE);
  const uint32_t wanted = NCCL_LL_FLAG(flag);
  if (static_cast<uint32_t>(first >> 32) != wanted || static_cast<uint32_t>(second >> 32) != wanted)
    return false;
  const uint64_t value = (first & 0xffffffffu) | (second << 32);
  std::memcpy(data, &value, sizeof value);
  return true;
}

void writeLl(char* line, uint64_t flag, const char* data) {
  uint64_t value;
  std::memcpy(&value, data, sizeof value);
  auto* words = reinterpret_cast<uint64_t*>(line);
  const uint64_t upper = static_cast<uint64_t>(NCCL_LL_FLAG(flag)) << 32;
  __atomic_store_n(&words[0], (value & 0xffffffffu) | upper, __ATOMIC_RELAXED);
  __atomic_store_n(&words[1], (value >> 32) | upper, __ATOMIC_RELEASE);
}

bool cleansLl(uint64_t step) { return (step & NCCL_LL_CLEAN_MASK) == NCCL_LL_CLEAN_MASK; }

// LL128: 128 bytes (RCCL: 64), the last 8 of them the flag.
bool readLl128(const char* line, uint64_t flag, char* data) {
  const auto* words = reinterpret_cast<const uint64_t*>(line);
  if (__atomic_load_n(&words[NCCL_LL128_DATAELEMS], __ATOMIC_ACQUIRE) != flag) return false;
  std::memcpy(data, line, NCCL_LL128_DATAELEMS * sizeof(uint64_t));
  return true;
}

void writeLl128(char* line, uint64_t flag, const char* data) {
  std::memcpy(line, data, NCCL_LL128_DATAELEMS * sizeof(uint64_t));
  __atomic_store_n(reinterpret_cast<uint64_t*>(line) + NCCL_LL128_DATAELEMS, flag, __ATOMIC_RELEASE);
}

constexpr LineFormat kLl = {.line_bytes = sizeof(ncclLLFifoLine),
                            .data_bytes = 8,
                            .lines_per_group = 1,
                            .read = readLl,
                            .write = writeLl,
                            .cleansAt = cleansLl};

constexpr LineFormat kLl128 = {
    .line_bytes = NCCL_LL128_LINESIZE,
    .data_bytes = NCCL_LL128_DATAELEMS * sizeof(uint64_t),
    .lines_per_group = WARP_SIZE * NCCL_LL128_SHMEM_ELEMS_PER_THREAD / NCCL_LL128_LINEELEMS,
    .read = readLl128,
    .write = writeLl128,
    .cleansAt = [](uint64_t) { return false; }};

static_assert(kLl128.data_bytes <= kMaxLineData);
static_assert(kLl128.lines_per_group % kLinesPerPiece == 0);

}  // namespace

const LineFormat& lineFormat(int protocol) { return protocol == NCCL_PROTO_LL ? kLl : kLl128; }

}  // namespace kernels
