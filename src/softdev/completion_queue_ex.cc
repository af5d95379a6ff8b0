// Extended completion queues (softdev.h): polled one completion at a time, whose fields are read by
// functions.
#include <time.h>

#include <cerrno>

#include "softdev/completion_queue.h"
#include "softdev/completion_ring.h"
#include "softdev/datapath.h"

namespace railwise::softdev {

ibv_cq_ex* createCqEx(ibv_context*, ibv_cq_init_attr_ex*) {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace railwise::softdev
