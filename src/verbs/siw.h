// Linux's soft-iWARP (siw) sends in the thread that posts, on a TCP socket without MSG_NOSIGNAL
// (drivers/infiniband/sw/siw/siw_qp_tx.c): whoever posts to a queue pair whose connection the peer has reset
// gets SIGPIPE, which ends a program that does not ignore it. A plugin must not change what a job does with
// its signals, so the thread that posts keeps SIGPIPE away from itself meanwhile.
#pragma once

#include <infiniband/verbs.h>

namespace railwise::verbs {

// vendor_id of siw's devices (SIW_VENDOR_ID, siw.h).
constexpr uint32_t kSiwVendor = 0x626d74;

// Posting to queue pairs of a siw device raises no signal from now on. Call it before the first queue pair is
// made; the devices of other vendors stay as they are. Any thread.
void keepSignalsFrom(ibv_context& context, const ibv_device_attr& attributes);

}  // namespace railwise::verbs
