// Queue pairs with send operations (ibv_qp_ex) and what else is newer than ibv_create_qp (softdev.h).
#include <cerrno>

#include "softdev/objects.h"

namespace railwise::softdev {

ibv_qp* createQpEx(ibv_context*, ibv_qp_init_attr_ex*) {
  errno = EOPNOTSUPP;
  return nullptr;
}

ibv_qp_ex* qpToQpEx(ibv_qp*) { return nullptr; }
int setEce(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }
int queryEce(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }

int queryDeviceEx(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*, size_t) {
  return EOPNOTSUPP;
}

}  // namespace railwise::softdev
