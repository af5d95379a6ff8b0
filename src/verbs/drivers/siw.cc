#include "verbs/drivers/siw.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/nic_drivers.h"

namespace railwise::verbs {
namespace {

using PostSend = int (*)(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad);

std::atomic<PostSend> g_post_send{nullptr};  // of siw's library: one for all devices

bool pending(int signal) {
  sigset_t signals;
  return sigpending(&signals) == 0 && sigismember(&signals, signal) == 1;
}

// A SIGPIPE that was there before stays for whom it was meant.
int postWithoutSignal(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
  const bool pending_before = pending(SIGPIPE);
  sigset_t pipe;
  sigset_t mask;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &mask);
  const int error = g_post_send.load(std::memory_order_acquire)(qp, work, bad);
  const int reason = errno;  // siw's library answers -1 with errno
  const timespec at_once = {};
  if (!pending_before) (void)sigtimedwait(&pipe, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  errno = reason;
  return error;
}

bool postRaisesSignal(uint32_t verbs_vendor) {
  return std::ranges::any_of(kNicDrivers, [&](const NicDriver& driver) {
    return driver.post_raises_signal && driver.verbs_vendor == verbs_vendor;
  });
}

}  // namespace

void keepSignalsFrom(ibv_context& context, const ibv_device_attr& attributes) {
  if (!postRaisesSignal(attributes.vendor_id) || context.ops.post_send == postWithoutSignal) return;
  g_post_send.store(context.ops.post_send, std::memory_order_release);
  context.ops.post_send = postWithoutSignal;
}

}  // namespace railwise::verbs
