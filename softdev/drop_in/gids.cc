// The GID table with types, by entry and as a whole, and the partition keys.
#include <cerrno>

#include "softdev/drop_in/front.h"
#include "softdev/drop_in/private_versions.h"

using namespace railwise;
using softdev::guarded;

namespace railwise::drop_in {

// The result of ibv_query_gid_type, a private function of rdma-core: the type by its text in /sys.
enum class SysfsGidType : int { kIbOrRoceV1 = 0, kRoceV2 = 1 };

}  // namespace railwise::drop_in

RAILWISE_EXPORT int ibv_query_gid(ibv_context* context, uint8_t port_num, int index, ibv_gid* gid) {
  return guarded<-1>([&] { return softdev::queryGid(context, port_num, index, gid); });
}

RAILWISE_EXPORT int _ibv_query_gid_ex(ibv_context* context, uint32_t port_num, uint32_t index,
                                      ibv_gid_entry* entry, uint32_t flags, size_t entry_size) {
  return guarded([&] { return softdev::queryGidEx(context, port_num, index, entry, flags, entry_size); });
}
RAILWISE_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max_entries,
                                             uint32_t flags, size_t entry_size) {
  return guarded<-ENOMEM>(
      [&] { return softdev::queryGidTable(context, entries, max_entries, flags, entry_size); });
}

RAILWISE_EXPORT int ibv_query_pkey(ibv_context* context, uint8_t port_num, int index, __be16* pkey) {
  return guarded<-1>([&] { return softdev::queryPkey(context, port_num, index, pkey); });
}

RAILWISE_EXPORT int ibv_get_pkey_index(ibv_context* context, uint8_t port_num, __be16 pkey) {
  __be16 entry;
  for (int i = 0; softdev::queryPkey(context, port_num, i, &entry) == 0; ++i)
    if (entry == pkey) return i;
  return -1;
}

// A private function of rdma-core, which its ibv_devinfo calls.
extern "C" {
[[gnu::used]] int railwise_query_gid_type(ibv_context* context, uint8_t port_num, unsigned int index,
                                          drop_in::SysfsGidType* type) {
  ibv_gid_entry entry;
  const int error = _ibv_query_gid_ex(context, port_num, index, &entry, 0, sizeof entry);
  if (error != 0 && error != ENODATA) {
    errno = error;
    return -1;
  }
  *type = error == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? drop_in::SysfsGidType::kRoceV2
                                                               : drop_in::SysfsGidType::kIbOrRoceV1;
  return 0;
}
}
RAILWISE_PRIVATE_VERSIONS_ibv_query_gid_type("railwise_query_gid_type");
