// Asynchronous events (softdev.h).
#include <cerrno>

#include "softdev/objects.h"

namespace railwise::softdev {

int getAsyncEvent(ibv_context* context, ibv_async_event*) {
  if (as<Context>(context).events.take()) errno = EIO;
  return -1;
}

void ackAsyncEvent(ibv_async_event*) {}

}  // namespace railwise::softdev
