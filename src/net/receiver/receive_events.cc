#include "net/receiver/receive_events.h"

#include "net/profiler.h"

namespace railwise::net {
namespace {

profiler::Event eventOf(const Receive& receive, int device, std::size_t bytes) {
  profiler::Event event = {};
  event.kind = RAILWISE_PROFILER_RECEIVE;
  event.device = device;
  event.rail = -1;
  event.message = receive.number;
  event.bytes = bytes;
  return event;
}

}  // namespace

void startEvents(Receive& receive, std::span<const ReceiveBuffer> buffers, int device, const ibv_qp* qp) {
  receive.profiled = true;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    profiler::Event event = eventOf(receive, device, buffers[i].bytes);
    event.qp_number = qp != nullptr ? qp->qp_num : 0;
    event.tag = buffers[i].tag;
    receive.events[i] = profiler::start(buffers[i].profiler, event);
  }
}

void stopEvents(const Receive& receive, int device) {
  for (std::size_t i = 0; i < receive.count; ++i)
    profiler::stop(receive.events[i], eventOf(receive, device, receive.size(i)));
}

}  // namespace railwise::net
