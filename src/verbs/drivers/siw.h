// Linux's soft-iWARP (siw) sends data in the thread that posts. Its TCP socket sends without MSG_NOSIGNAL
// (drivers/infiniband/sw/siw/siw_qp_tx.c). So the thread gets SIGPIPE when the peer has reset the connection,
// and SIGPIPE ends a program that does not ignore it. A plugin must not change how a job handles signals.
// Therefore the plugin blocks SIGPIPE in the thread for the time of the post.
#pragma once

#include <infiniband/verbs.h>

namespace railwise::verbs {

// Posting to queue pairs of a siw device raises no signal from now on. Call it before the first queue pair is
// made; the devices of other vendors stay as they are. Any thread.
void keepSignalsFrom(ibv_context& context, const ibv_device_attr& attributes);

}  // namespace railwise::verbs
