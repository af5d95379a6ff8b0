// Owning handles of verbs objects: 8 bytes each, released through the library table in force. A failed
// release is logged, because a caller could not do anything about it. The rules for threads are those of
// verbs.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/log.h"
#include "verbs/library.h"

namespace railwise::verbs {

struct Release {
  void operator()(ibv_context* context) const { check("ibv_close_device", library().close_device(context)); }
  void operator()(ibv_pd* pd) const { check("ibv_dealloc_pd", library().dealloc_pd(pd)); }
  void operator()(ibv_mr* mr) const { check("ibv_dereg_mr", library().dereg_mr(mr)); }
  void operator()(ibv_cq* cq) const { check("ibv_destroy_cq", library().destroy_cq(cq)); }
  void operator()(ibv_qp* qp) const { check("ibv_destroy_qp", library().destroy_qp(qp)); }

 private:
  static void check(const char* call, int error) {
    if (error != 0) RAILWISE_INFO(log::kNet, "%s failed with error %d", call, error);
  }
};

using Context = std::unique_ptr<ibv_context, Release>;
using Pd = std::unique_ptr<ibv_pd, Release>;
using Mr = std::unique_ptr<ibv_mr, Release>;
using Cq = std::unique_ptr<ibv_cq, Release>;
using Qp = std::unique_ptr<ibv_qp, Release>;

// The errno of a call that was refused with `error`. siw's library answers -1 and sets errno, as the manual
// of older libibverbs allows.
inline int reasonOfPost(int error) {
  if (error != -1) return std::abs(error);
  return errno != 0 ? errno : EIO;
}

// Destroys the queue pair. On an error the handle keeps it, for it still exists: the driver's errno.
inline int destroy(Qp& queue_pair) {
  ibv_qp* const raw = queue_pair.release();
  if (raw == nullptr) return 0;
  const int error = library().destroy_qp(raw);
  if (error == 0) return 0;
  queue_pair.reset(raw);
  return reasonOfPost(error);
}

// Calls a verb that returns null on failure. `error` receives the reason, or EIO if the driver gives none
// (siw's does not). errno is cleared first, so that the value of an earlier call is not taken for the reason.
template <typename Make>
auto makeOrExplain(Make make, int& error) {
  errno = 0;
  auto* const made = make();
  error = made != nullptr ? 0 : errno != 0 ? errno : EIO;
  return made;
}

// May a call that was refused with this errno succeed a little later? Not if the set-up is wrong, and not if
// it is an address that is not resolved yet (ETIMEDOUT): who asks for that asks again anyway. EINVAL says
// little: drivers answer it for many reasons.
inline bool mayPass(int error) {
  switch (error) {
    case EFAULT:
    case EPERM:
    case EACCES:
    case EOPNOTSUPP:
    case ENOSYS:
    case ETIMEDOUT:
      return false;
    default:
      return true;
  }
}

}  // namespace railwise::verbs
