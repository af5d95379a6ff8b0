// The kernel of a communicator of one rank.
#include <cstring>

#include "reduction.h"
#include "softgpu/kernel.h"
#include "tables.h"

namespace {

// A reduction of one rank: a multiplication.
void launchOneRank(const softgpu::Launch& launch) {
  void* destination = *static_cast<void* const*>(launch.parameters[0]);
  const void* source = *static_cast<const void* const*>(launch.parameters[1]);
  const size_t count = *static_cast<const size_t*>(launch.parameters[2]);
  const uint64_t argument = *static_cast<const uint64_t*>(launch.parameters[3]);
  const bool by_address = *static_cast<const bool*>(launch.parameters[4]);
  const int type = *static_cast<const int*>(launch.parameters[5]);
  kernels::Reduction reduction = kernels::reductionOf(ncclDevPreMulSum, type, argument);
  if (by_address)
    reduction.argument =
        kernels::loadArgument(reinterpret_cast<const void*>(argument), reduction.element_bytes);
  if (destination != source) std::memmove(destination, source, count * reduction.element_bytes);
  reduction.prepare(destination, count, reduction.argument);
}

[[maybe_unused]] const bool defined = [] {
  constexpr size_t kOneRank[] = {sizeof(void*),    sizeof(void*), sizeof(size_t),
                                 sizeof(uint64_t), sizeof(bool),  sizeof(int)};
  softgpuDefineKernel(kernels::kOneRankKernel, "ncclOneRankKernel", kOneRank, 6, launchOneRank);
  return true;
}();

}  // namespace
