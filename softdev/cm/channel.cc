// Event channels (rdma_create_event_channel(3), rdma_get_cm_event(3)). The descriptor of a channel is an
// epoll set. It holds the sockets of the channel's ids, and one eventfd for events that this process itself
// has caused.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "softdev/cm/objects.h"

namespace railwise::softdev::cm {
namespace {

constexpr int kAtOnce = 16;

void push(Channel& channel, Event* event) {
  channel.ready.push_back(event);
  if (channel.ready.size() == 1) (void)eventfd_write(channel.signal_fd, 1);
}

Event* pop(Channel& channel) {
  Event* event = channel.ready.front();
  channel.ready.pop_front();
  eventfd_t count = 0;
  if (channel.ready.empty()) (void)eventfd_read(channel.signal_fd, &count);
  return event;
}

bool mayWait(const Channel& channel) { return (fcntl(channel.fd, F_GETFL) & O_NONBLOCK) == 0; }

// InfiniBand's messages carry private data of fixed size: the receiver also sees the zeros behind the data.
uint8_t bytesSeen(const Id& id, const Message& message) {
  if (id.iwarp()) return message.bytes;
  if (message.kind == Kind::kRequest) return kRequestBytes;
  return message.kind == Kind::kReply ? kReplyBytes : kRejectBytes;
}

Event* newEvent(Id& id, rdma_cm_event_type type, int status, const Message* message) {
  auto* event = new Event{};
  event->id = &id;
  event->event = type;
  event->status = status;
  event->counted = &id;
  if (message == nullptr) return event;
  rdma_conn_param& conn = event->param.conn;
  const bool carries = message->kind != Kind::kReady && message->kind != Kind::kDisconnect;
  if (carries) {
    std::memcpy(event->private_data, message->private_data, message->bytes);
    conn.private_data_len = bytesSeen(id, *message);
    conn.private_data = conn.private_data_len > 0 ? event->private_data : nullptr;
  }
  // The peer's initiator depth limits our responder resources, and vice versa.
  conn.responder_resources = message->initiator_depth;
  conn.initiator_depth = message->responder_resources;
  conn.flow_control = message->flow_control;
  conn.retry_count = message->retry_count;
  conn.rnr_retry_count = message->rnr_retry_count;
  conn.srq = message->srq;
  conn.qp_num = message->qp_num;
  return event;
}

}  // namespace

int answer(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

void raise(Id& id, rdma_cm_event_type type, int status, const Message* message) {
  push(id.events(), newEvent(id, type, status, message));
}

void raiseRequest(Id& listener, Id& id) {
  Event* event = newEvent(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &id.remote);
  event->listen_id = &listener;
  event->counted = &listener;
  push(id.events(), event);
}

rdma_event_channel* createEventChannel() {
  auto* channel = new Channel{};
  channel->fd = epoll_create1(EPOLL_CLOEXEC);
  channel->signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  if (channel->fd >= 0 && channel->signal_fd >= 0 &&
      epoll_ctl(channel->fd, EPOLL_CTL_ADD, channel->signal_fd, &wanted) == 0)
    return channel;
  const int error = errno;
  destroyEventChannel(channel);
  errno = error;
  return nullptr;
}

void destroyEventChannel(rdma_event_channel* base) {
  auto* channel = static_cast<Channel*>(base);
  for (Event* event : channel->ready) delete event;
  if (channel->signal_fd >= 0) close(channel->signal_fd);
  if (channel->fd >= 0) close(channel->fd);
  delete channel;
}

int getEvent(rdma_event_channel* base, rdma_cm_event** event) {
  auto& channel = *static_cast<Channel*>(base);
  if (event == nullptr) return answer(EINVAL);
  // Reads everything that has arrived before it returns an event, so that a loop that calls until EAGAIN
  // ends.
  for (int timeout = 0;; timeout = mayWait(channel) ? -1 : 0) {
    epoll_event seen[kAtOnce];
    const int count = epoll_wait(channel.fd, seen, kAtOnce, timeout);
    if (count < 0) return -1;
    std::lock_guard lock(manager().mutex);
    for (int i = 0; i < count; ++i) {
      eventfd_t rings = 0;                   // id 0: our own events. An unknown id: a socket whose id is gone
      const uint64_t id = seen[i].data.u64;  // a copy, because epoll_event is packed
      if (id == 0 && channel.ready.empty()) (void)eventfd_read(channel.signal_fd, &rings);
      const auto found = manager().ids.find(id);
      if (found != manager().ids.end() && found->second->channel == base) readSockets(*found->second);
    }
    if (!channel.ready.empty()) {
      Event* next = pop(channel);
      ++next->counted->events_given;
      *event = next;
      return 0;
    }
    if (count == 0 && !mayWait(channel)) return answer(EAGAIN);
  }
}

int ackEvent(rdma_cm_event* base) {
  if (base == nullptr) return answer(EINVAL);
  auto* event = static_cast<Event*>(base);
  std::lock_guard lock(manager().mutex);
  ++event->counted->events_acknowledged;
  manager().acknowledged.notify_all();
  delete event;
  return 0;
}

int migrateId(rdma_cm_id* base, rdma_event_channel* target) {
  if (target == nullptr) return answer(EOPNOTSUPP);  // an id without a channel is not supported
  Id& id = *static_cast<Id*>(base);
  std::unique_lock lock(manager().mutex);
  Channel& from = id.events();
  auto& to = *static_cast<Channel*>(target);
  if (&from == &to) return 0;
  for (const int fd : id.sockets) (void)epoll_ctl(from.fd, EPOLL_CTL_DEL, fd, nullptr);
  id.channel = target;
  watch(id);
  std::deque<Event*> mine;
  std::deque<Event*> others;
  std::partition_copy(from.ready.begin(), from.ready.end(), std::back_inserter(mine),
                      std::back_inserter(others), [&](const Event* event) { return event->counted == &id; });
  while (!from.ready.empty()) (void)pop(from);
  for (Event* event : others) push(from, event);
  for (Event* event : mine) push(to, event);
  manager().acknowledged.wait(lock, [&] { return id.events_given == id.events_acknowledged; });
  return 0;
}

}  // namespace railwise::softdev::cm
