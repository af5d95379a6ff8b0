// Address handles (softdev.h): where a datagram goes.
#include <cerrno>

#include "softdev/objects.h"

namespace railwise::softdev {

ibv_ah* createAh(ibv_pd*, ibv_ah_attr*) {
  errno = EOPNOTSUPP;
  return nullptr;
}

int destroyAh(ibv_ah*) { return EOPNOTSUPP; }

}  // namespace railwise::softdev
