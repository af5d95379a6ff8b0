// Completion channels and their events (softdev.h).
#include <cerrno>

#include "softdev/datapath.h"
#include "softdev/objects.h"

namespace railwise::softdev {

ibv_comp_channel* createCompChannel(ibv_context*) {
  errno = EOPNOTSUPP;
  return nullptr;
}

int destroyCompChannel(ibv_comp_channel*) { return EOPNOTSUPP; }

int getCqEvent(ibv_comp_channel*, ibv_cq**, void**) {
  errno = EOPNOTSUPP;
  return -1;
}

void ackCqEvents(ibv_cq*, unsigned int) {}
int reqNotifyCq(ibv_cq*, int) { return EOPNOTSUPP; }
int resizeCq(ibv_cq*, int) { return EOPNOTSUPP; }

ibv_cq_ex* createCqEx(ibv_context*, ibv_cq_init_attr_ex*) {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace railwise::softdev
