// Ids and their addresses (rdma_create_id(3), rdma_bind_addr(3), rdma_resolve_addr(3)).
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "softdev/cm/objects.h"
#include "softdev/fabric/ports.h"

namespace railwise::softdev::cm {
namespace {

// A forked child has copies of the sockets. It closes them, because to the peer a copy would look like a
// living id.
void forgetInChild() {
  for (auto& [serial, id] : manager().ids) {
    for (const int fd : id->sockets) close(fd);
    id->sockets.clear();
  }
  manager().mutex.unlock();
}

// Must register after the fabric has registered its handlers: handlers that run before a fork run in reverse
// order, and our mutex comes before the fabric's.
void watchForks() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork([] { manager().mutex.lock(); }, [] { manager().mutex.unlock(); }, forgetInChild);
  });
}

bool isZero(const Gid& gid) {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](uint8_t byte) { return byte == 0; });
}

bool sameLink(const PortRecord& here, const PortRecord& there) {
  return here.link_layer == there.link_layer && here.iwarp == there.iwarp;
}

// The port that has the destination address, if the id's own port can reach it. Null otherwise.
const PortRecord* reached(const Id& id) {
  const PortRecord* there = findAddress(*as<Context>(id.verbs).fabric->segment, id.destination.ip);
  return there != nullptr && sameLink(portOf(id), *there) ? there : nullptr;
}

// Chooses a port of this host that reaches the destination, and an address of that port.
bool chooseSource(Id& id) {
  ibv_device** list = getDeviceList(nullptr);
  bool found = false;
  for (ibv_device** at = list; at != nullptr && *at != nullptr && !found; ++at) {
    Device& device = as<Device>(*at);
    for (uint32_t number = 1; number <= device.config.portCount() && !found; ++number) {
      if (useDevice(id, device, static_cast<uint8_t>(number)) != 0) continue;
      const std::span<const Gid> addresses = addressesOf(portOf(id));
      Address source;
      source.port = id.source.port;
      if (reached(id) != nullptr && !addresses.empty() && !isZero(addresses.back())) {
        // Takes the routable address, which comes last.
        std::memcpy(source.ip, addresses.back().raw, sizeof source.ip);
        closeSockets(id);
        found = bindHere(id, source) == 0;
      }
      if (!found) leaveDevice(id);
    }
  }
  freeDeviceList(list);
  return found;
}

}  // namespace

Manager& manager() {
  static Manager& the = *new Manager;
  return the;
}

Id* newId(Channel& channel, void* context, rdma_port_space ps) {
  auto made = std::make_unique<Id>();
  Id* const id = made.get();
  id->channel = &channel;
  id->context = context;
  id->ps = ps;
  id->qp_type = IBV_QPT_RC;
  id->serial = ++manager().last_serial;
  manager().ids[id->serial] = id;
  return made.release();
}

void closeSockets(Id& id) {
  for (const int fd : id.sockets) {
    // A forked child may have a copy of the socket. Then closing our socket would not remove it from the set.
    (void)epoll_ctl(id.channel->fd, EPOLL_CTL_DEL, fd, nullptr);
    close(fd);
  }
  id.sockets.clear();
}

void watch(Id& id) {
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLRDHUP;
  wanted.data.u64 = id.serial;
  // A socket that neither listens nor is connected reports a hang-up, so it is not yet added to the set.
  if (id.state == State::kIdle || id.state == State::kBound || id.state == State::kAddressResolved ||
      id.state == State::kRouteResolved)
    return;
  for (const int fd : id.sockets) (void)epoll_ctl(id.channel->fd, EPOLL_CTL_ADD, fd, &wanted);
}

namespace {

std::list<OpenDevice>::iterator placeOf(const ibv_context* context) {
  std::list<OpenDevice>& all = manager().devices;
  return std::find_if(all.begin(), all.end(),
                      [&](const OpenDevice& open) { return open.context == context; });
}

// A context of the device that works; null with errno set: there is none.
OpenDevice* openContext(Device& device) {
  std::list<OpenDevice>& all = manager().devices;
  const auto works = [&](const OpenDevice& open) {
    return open.device == &device &&
           as<Context>(open.context).record->fatal.load(std::memory_order_acquire) == 0;
  };
  if (const auto found = std::find_if(all.begin(), all.end(), works); found != all.end()) return &*found;
  OpenDevice& made = all.emplace_back(OpenDevice{&device, nullptr, 0});
  made.context = openDevice(&device);
  if (made.context == nullptr) {
    const int error = errno;
    all.pop_back();
    errno = error;
    return nullptr;
  }
  watchForks();
  return &made;
}

void closeUnused(std::list<OpenDevice>::iterator open) {
  // If the program still has objects on the context, the context stays open for the next id.
  if (open->uses == 0 && closeDevice(open->context) == 0) manager().devices.erase(open);
}

}  // namespace

bool hasAddressNow(Device& device, const Address& address, uint8_t* port) {
  OpenDevice* const open = openContext(device);
  if (open == nullptr) return false;
  const Context& context = as<Context>(open->context);
  bool found = false;
  for (uint32_t number = 1; number <= device.config.portCount() && !found; ++number) {
    for (const Gid& gid : addressesOf(context.fabric->segment->ports[context.record->ports[number - 1]]))
      found = found || std::memcmp(gid.raw, address.ip, sizeof address.ip) == 0;
    if (found) *port = static_cast<uint8_t>(number);
  }
  closeUnused(placeOf(open->context));
  return found;
}

int useDevice(Id& id, Device& device, uint8_t port) {
  if (id.device == nullptr) {
    OpenDevice* const found = openContext(device);
    if (found == nullptr) return errno;
    ++found->uses;
    id.device = &device;
    id.verbs = found->context;
  }
  id.port_num = port;
  return id.device == &device ? 0 : EINVAL;
}

void leaveDevice(Id& id) {
  if (id.device == nullptr) return;
  const auto found = placeOf(id.verbs);
  --found->uses;
  closeUnused(found);
  id.device = nullptr;
  id.verbs = nullptr;
}

const PortRecord& portOf(const Id& id) {
  const Context& context = as<Context>(id.verbs);
  return context.fabric->segment->ports[context.record->ports[id.port_num - 1]];
}

void deleteId(Id& id) {
  Channel& channel = id.events();
  std::vector<Id*> unseen;  // ids of requests that the program has not seen yet
  std::erase_if(channel.ready, [&](Event* event) {
    if (event->id != &id && event->counted != &id) return false;
    if (event->id != &id) unseen.push_back(static_cast<Id*>(event->id));
    delete event;
    return true;
  });
  if (id.state == State::kListening) {
    for (const auto& [serial, other] : manager().ids) {
      if (other->listener == id.serial && other->state == State::kCalled) unseen.push_back(other);
    }
  }
  for (Id* other : unseen) deleteId(*other);
  countAnswered(id);
  closeSockets(id);
  leaveDevice(id);
  manager().ids.erase(id.serial);
  delete &id;
}

int createId(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space ps) {
  if (channel == nullptr) return answer(EOPNOTSUPP);  // an id without a channel is not supported
  if (ps != RDMA_PS_TCP && ps != RDMA_PS_IB) return answer(EPROTONOSUPPORT);
  std::lock_guard lock(manager().mutex);
  *id = newId(*static_cast<Channel*>(channel), context, ps);
  return 0;
}

int destroyId(rdma_cm_id* base) {
  Id& id = *static_cast<Id*>(base);
  std::unique_lock lock(manager().mutex);
  closeSockets(id);  // after this no new event comes
  manager().acknowledged.wait(lock, [&] { return id.events_given == id.events_acknowledged; });
  deleteId(id);
  return 0;
}

int resolveAddr(rdma_cm_id* base, sockaddr* source, sockaddr* destination, int) {
  Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  Address from;
  if ((id.state != State::kIdle && id.state != State::kBound) || !readAddress(destination, &id.destination) ||
      id.destination.any())
    return answer(EINVAL);
  if (source != nullptr && id.state == State::kIdle) {
    if (!readAddress(source, &from)) return answer(EINVAL);
    if (!from.any()) {
      if (const int error = bindHere(id, from); error != 0) return answer(error);
    }
  }
  writeAddress(id.destination, &id.route.addr.dst_storage);
  const bool resolved = id.device != nullptr ? reached(id) != nullptr : chooseSource(id);
  if (resolved) id.state = State::kAddressResolved;
  raise(id, resolved ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR, resolved ? 0 : -EHOSTUNREACH);
  return 0;
}

int resolveRoute(rdma_cm_id* base, int) {
  Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  if (id.state != State::kAddressResolved) return answer(EINVAL);
  id.state = State::kRouteResolved;
  raise(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
  return 0;
}

__be16 getSrcPort(rdma_cm_id* base) {
  const Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  return htons(id.source.port);
}

int setOption(rdma_cm_id* base, int level, int name, void* value, size_t bytes) {
  Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  if (level != RDMA_OPTION_ID) return answer(ENOSYS);
  const bool is_byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (value == nullptr || bytes != (is_byte ? sizeof(uint8_t) : sizeof(int))) return answer(EINVAL);
  const uint8_t byte = *static_cast<const uint8_t*>(value);
  if (name == RDMA_OPTION_ID_TOS) id.traffic_class = byte;
  if (name == RDMA_OPTION_ID_ACK_TIMEOUT) {
    if (byte > 31) return answer(EINVAL);
    id.ack_timeout = byte;
  }
  return name <= RDMA_OPTION_ID_ACK_TIMEOUT ? 0 : answer(ENOSYS);
}

int localAddresses(ibv_context* base, uint8_t port, ibv_gid* addresses, int most) {
  const Context& context = as<Context>(base);
  if (port < 1 || port > context.record->port_count) return 0;
  int count = 0;
  const std::span<const Gid> all =
      addressesOf(context.fabric->segment->ports[context.record->ports[port - 1]]);
  for (auto gid = all.rbegin(); gid != all.rend(); ++gid) {  // routable addresses come after link-local ones
    // A RoCE v1 address is in the list as a RoCE v2 address too.
    if (gid->type == static_cast<uint32_t>(GidType::kRoceV1) || isZero(*gid)) continue;
    if (count < most) std::memcpy(addresses[count].raw, gid->raw, sizeof gid->raw);
    ++count;
  }
  return std::min(count, most);
}

}  // namespace railwise::softdev::cm
