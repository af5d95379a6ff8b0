// Asynchronous events and completion channels.
#include "softdev/drop_in/front.h"

using namespace railwise;
using softdev::guarded;

RAILWISE_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return guarded<-1>([&] { return softdev::getAsyncEvent(context, event); });
}
RAILWISE_EXPORT void ibv_ack_async_event(ibv_async_event* event) { softdev::ackAsyncEvent(event); }

RAILWISE_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return guarded([&] { return softdev::createCompChannel(context); });
}
RAILWISE_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return guarded([&] { return softdev::destroyCompChannel(channel); });
}
RAILWISE_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** user) {
  return guarded<-1>([&] { return softdev::getCqEvent(channel, cq, user); });
}
RAILWISE_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned int events) { softdev::ackCqEvents(cq, events); }
