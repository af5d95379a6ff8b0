// The extended attributes of a device, and its clock (softdev.h).
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softdev/queues/objects.h"

namespace railwise::softdev {
namespace {

// IBV_DEVICE_ATOMIC_WRITE, which our headers do not have.
constexpr uint64_t kCapAtomicWrite = uint64_t{1} << 40;
constexpr uint64_t kClockKhz = 1'000'000;  // completions have timestamps in nanoseconds

}  // namespace

int queryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                  size_t attr_size) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (attr_size < sizeof attr->orig_attr) return EINVAL;
  ibv_device_attr_ex answer{};
  if (const int error = queryDevice(context, &answer.orig_attr); error != 0) return error;
  answer.completion_timestamp_mask = UINT64_MAX;
  answer.hca_core_clock = kClockKhz;
  answer.device_cap_flags_ex = answer.orig_attr.device_cap_flags | kCapAtomicWrite;
  answer.phys_port_cnt_ex = answer.orig_attr.phys_port_cnt;
  std::memset(attr, 0, attr_size);
  std::memcpy(attr, &answer, std::min(attr_size, sizeof answer));
  return 0;
}

int queryRealTime(ibv_context*, ibv_values_ex* values) {
  const uint32_t wanted = values->comp_mask;
  values->comp_mask = 0;
  if ((wanted & IBV_VALUES_MASK_RAW_CLOCK) == 0) return 0;
  clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
  values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  return 0;
}

}  // namespace railwise::softdev
