// The lines of LL and LL128: data and flags together, so that a receiver that polls a line sees when it is
// complete.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kernels {

struct LineFormat {
  size_t line_bytes;
  size_t data_bytes;       // in a line
  size_t lines_per_group;  // a message has whole groups
  // Copies the data of a line if its flag is that of `flag`, else returns false.
  bool (*read)(const char* line, uint64_t flag, char* data);
  void (*write)(char* line, uint64_t flag, const char* data);
  // Whether the step with this number writes all lines of its buffer, so that no flag of a whole turn of the
  // counter before stays behind.
  bool (*cleansAt)(uint64_t step);

  size_t linesOf(size_t bytes) const {
    const size_t group_bytes = data_bytes * lines_per_group;
    return (bytes + group_bytes - 1) / group_bytes * lines_per_group;
  }
};

constexpr size_t kMaxLineData = 120;
// Lines that are received, reduced and sent at a time: one group of LL128, or a part of RCCL's.
constexpr size_t kLinesPerPiece = 16;

// Of NCCL_PROTO_LL or NCCL_PROTO_LL128.
const LineFormat& lineFormat(int protocol);

}  // namespace kernels
