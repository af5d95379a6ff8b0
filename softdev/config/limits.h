// Limits: the configuration checks them, every device reports them, and the shared segment has room for them.
#pragma once

#include <cstdint>

namespace railwise::softdev {

constexpr uint32_t kMaxDevicePorts = 4;  // of one device
constexpr uint32_t kMaxGids = 16;        // of one port
constexpr uint32_t kFirstQpIndex = 2;    // QP numbers 0 and 1 are special in InfiniBand

// Limits that every device reports and enforces.
constexpr uint32_t kMaxSge = 16;
constexpr uint32_t kMaxQpWr = 16384;
constexpr uint32_t kMaxRdAtomic = 16;
constexpr int kCompVectors = 1;

// An entry of a port's GID table.
struct Gid {
  uint8_t raw[16];
  uint32_t type;  // GidType of description.h
};

}  // namespace railwise::softdev
