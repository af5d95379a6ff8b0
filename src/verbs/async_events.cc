#include "verbs/async_events.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace railwise::verbs {
namespace {

using Of = AsyncEvent::Of;

struct Meaning {
  uint32_t type;
  Of of;
  EventEffect effect;
  const char* text;
};

// Headers of old rdma-core releases do not have this event (ibv_event_type in
// kernel-headers/rdma/ib_user_verbs.h).
constexpr uint32_t kDeviceSpeedChange = 20;

constexpr Meaning kMeanings[] = {
    {IBV_EVENT_CQ_ERR, Of::kCompletionQueue, EventEffect::kFatal,
     "a completion queue overflowed or failed: look for errors of the NIC in `dmesg`"},
    {IBV_EVENT_QP_FATAL, Of::kQueuePair, EventEffect::kFatal,
     "the NIC could not report an error of this queue pair: look for errors of the NIC in `dmesg`"},
    {IBV_EVENT_QP_REQ_ERR, Of::kQueuePair, EventEffect::kFatal,
     "the peer sent a request that is not valid: are both ends of the same version?"},
    {IBV_EVENT_QP_ACCESS_ERR, Of::kQueuePair, EventEffect::kFatal,
     "the peer touched memory that it may not: was a buffer deregistered too early?"},
    {IBV_EVENT_COMM_EST, Of::kQueuePair, EventEffect::kNone,
     "the peer's first packet came early, which is all right"},
    {IBV_EVENT_SQ_DRAINED, Of::kQueuePair, EventEffect::kNone, "its sends are drained"},
    {IBV_EVENT_PATH_MIG, Of::kQueuePair, EventEffect::kNone, "it migrated to its alternate path"},
    {IBV_EVENT_PATH_MIG_ERR, Of::kQueuePair, EventEffect::kNone,
     "it could not migrate to its alternate path"},
    {IBV_EVENT_DEVICE_FATAL, Of::kDevice, EventEffect::kFatal,
     "the device failed: look for its reset or removal in `dmesg`"},
    {IBV_EVENT_PORT_ACTIVE, Of::kPort, EventEffect::kPortUp, "link up"},
    {IBV_EVENT_PORT_ERR, Of::kPort, EventEffect::kPortDown,
     "link down: check the cable, the switch port and `ibstat`"},
    {IBV_EVENT_LID_CHANGE, Of::kPort, EventEffect::kAddresses,
     "its LID changed: was the subnet manager restarted? Connections of before may fail"},
    {IBV_EVENT_PKEY_CHANGE, Of::kPort, EventEffect::kAddresses,
     "its partition keys changed: is NCCL_IB_PKEY still the right index?"},
    {IBV_EVENT_SM_CHANGE, Of::kPort, EventEffect::kAddresses,
     "another subnet manager took over, which is all right when it was meant"},
    {IBV_EVENT_SRQ_ERR, Of::kOther, EventEffect::kNone, "a shared receive queue failed"},
    {IBV_EVENT_SRQ_LIMIT_REACHED, Of::kOther, EventEffect::kNone, "a shared receive queue runs low"},
    {IBV_EVENT_QP_LAST_WQE_REACHED, Of::kQueuePair, EventEffect::kNone,
     "it took its last request from a shared receive queue"},
    {IBV_EVENT_CLIENT_REREGISTER, Of::kPort, EventEffect::kAddresses,
     "the subnet manager asks for new registrations: was it restarted?"},
    {IBV_EVENT_GID_CHANGE, Of::kPort, EventEffect::kAddresses,
     "its GID table changed: did its network interface get another IP address? Connections of before may "
     "fail"},
    {IBV_EVENT_WQ_FATAL, Of::kOther, EventEffect::kNone, "a work queue failed"},
    {kDeviceSpeedChange, Of::kPort, EventEffect::kPortChanged,
     "its speed changed: check the cable if it is less than it should be"},
};

constexpr Meaning kUnknown = {~0U, Of::kOther, EventEffect::kNone, "an event that Railwise does not know"};

const Meaning& meaningOf(ibv_event_type type) {
  const auto found = std::find_if(std::begin(kMeanings), std::end(kMeanings), [&](const Meaning& meaning) {
    return meaning.type == static_cast<uint32_t>(type);
  });
  return found != std::end(kMeanings) ? *found : kUnknown;
}

}  // namespace

std::optional<ibv_event_type> FatalFlag::eventOf(uint32_t value) {
  if (value == 0 || value == kRung) return std::nullopt;
  return static_cast<ibv_event_type>(value - 1);
}

std::optional<ibv_event_type> FatalFlag::event() const {
  return eventOf(event_.load(std::memory_order_acquire));
}

void FatalFlag::raise(ibv_event_type type) {
  uint32_t before = event_.load(std::memory_order_relaxed);
  while ((before == 0 || before == kRung) &&
         !event_.compare_exchange_weak(before, static_cast<uint32_t>(type) + 1, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

void FatalFlag::ring() {
  // Writes also what is there already: a load alone may come before the news that the caller has stored.
  uint32_t before = event_.load(std::memory_order_relaxed);
  while (!event_.compare_exchange_weak(before, before == 0 ? kRung : before, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

Status makeEventsNonBlocking(ibv_context* context) {
  const int flags = fcntl(context->async_fd, F_GETFL);
  if (flags >= 0 && fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) == 0) return Status::success();
  const int error = errno;
  RAILWISE_WARN("%s: its asynchronous events cannot be read: %s", library().get_device_name(context->device),
                std::strerror(error));
  return {Code::kSystem, error};
}

Result<bool> takeEvent(ibv_context* context, const std::function<void(const AsyncEvent&)>& handle) {
  ibv_async_event raw = {};
  int result = 0;
  do {
    result = library().get_async_event(context, &raw);
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    return Status{Code::kSystem, errno};
  }
  AsyncEvent event{.type = raw.event_type, .of = meaningOf(raw.event_type).of};
  if (event.of == Of::kPort) event.port = static_cast<uint8_t>(raw.element.port_num);
  if (event.of == Of::kQueuePair) {
    event.qp_number = raw.element.qp->qp_num;
    event.context = &raw.element.qp->qp_context;
  }
  if (event.of == Of::kCompletionQueue) event.context = &raw.element.cq->cq_context;
  struct Acknowledge {
    ~Acknowledge() { library().ack_async_event(event); }
    ibv_async_event* event;
  } acknowledged{&raw};  // destroying the object that the event is about waits for that
  handle(event);
  return true;
}

EventEffect effectOf(ibv_event_type type) { return meaningOf(type).effect; }

const char* eventText(ibv_event_type type) { return meaningOf(type).text; }

std::string describeEvent(const char* device, const AsyncEvent& event) {
  std::string text = device;
  if (event.of == Of::kPort) text += " port " + std::to_string(event.port);
  if (event.of == Of::kQueuePair) text += " qp " + std::to_string(event.qp_number);
  const Meaning& meaning = meaningOf(event.type);
  text += std::string(": ") + meaning.text;
  return &meaning == &kUnknown ? text + " (" + std::to_string(event.type) + ")" : text;
}

}  // namespace railwise::verbs
