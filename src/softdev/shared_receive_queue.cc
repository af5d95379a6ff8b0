// Shared receive queues (softdev.h).
#include <cerrno>

#include "softdev/datapath.h"
#include "softdev/objects.h"

namespace railwise::softdev {

ibv_srq* createSrq(ibv_pd*, ibv_srq_init_attr*) {
  errno = EOPNOTSUPP;
  return nullptr;
}

ibv_srq* createSrqEx(ibv_context*, ibv_srq_init_attr_ex*) {
  errno = EOPNOTSUPP;
  return nullptr;
}

int modifySrq(ibv_srq*, ibv_srq_attr*, int) { return EOPNOTSUPP; }
int querySrq(ibv_srq*, ibv_srq_attr*) { return EOPNOTSUPP; }
int getSrqNum(ibv_srq*, uint32_t*) { return EOPNOTSUPP; }
int destroySrq(ibv_srq*) { return EOPNOTSUPP; }
int postSrqRecv(ibv_srq*, ibv_recv_wr*, ibv_recv_wr**) { return EOPNOTSUPP; }

}  // namespace railwise::softdev
