#include "net/net.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/topology.h"
#include "verbs/library.h"

namespace railwise::net {
namespace {

std::mutex g_mutex;
int g_references = 0;
std::unique_ptr<Net>& instance() {
  // Never destroyed at exit: NCCL's threads may still be running then.
  static auto& net = *new std::unique_ptr<Net>;
  return net;
}

// Removes `object` from `owners`; what is not there is ignored.
template <typename T>
std::unique_ptr<T> takeOut(std::vector<std::unique_ptr<T>>& owners, const void* object) {
  const auto found =
      std::find_if(owners.begin(), owners.end(), [&](const auto& owner) { return owner.get() == object; });
  if (found == owners.end()) return nullptr;
  std::unique_ptr<T> taken = std::move(*found);
  *found = std::move(owners.back());
  owners.pop_back();
  return taken;
}

}  // namespace

Result<Net*> Net::acquire() {
  const std::lock_guard lock(g_mutex);
  if (instance() == nullptr) {
    std::unique_ptr<Net> net(new Net);
    const Status started = net->start();
    if (!started.ok()) {
      net.reset();
      verbs::unload();
      return started;
    }
    instance() = std::move(net);
  }
  ++g_references;
  return instance().get();
}

void Net::release() {
  const std::lock_guard lock(g_mutex);
  if (--g_references > 0) return;
  instance().reset();
  verbs::unload();
}

Net* Net::current() {
  const std::lock_guard lock(g_mutex);
  return instance().get();
}

Status Net::start() {
  config_ = Config::load();
  host_ = localHostName();
  if (config_.ib_disable != 0) {
    RAILWISE_INFO(log::kInit | log::kNet, "disabled by NCCL_IB_DISABLE=1");
    return {Code::kNoDevice, 0};
  }
  RAILWISE_TRY(verbs::load(config_));
  verbs::library().fork_init();
  Result<DeviceList> list = discoverDevices(config_);
  if (!list.ok()) return list.status();
  list_ = std::move(*list);
  findRails(config_, provideTopology(config_), list_.devices);
  std::string names;
  for (const Device& device : list_.devices) {
    names += " " + std::string(device.properties.name) + (device.port.ethernet ? "/RoCE" : "/IB");
  }
  RAILWISE_INFO(log::kInit | log::kNet, "Railwise " RAILWISE_VERSION ", %s:%s", verbs::library().name,
                names.c_str());
  return Status::success();
}

const Device* Context::device(int index) const {
  const std::vector<Device>& devices = net_.devices();
  if (index >= 0 && static_cast<size_t>(index) < devices.size()) return &devices[static_cast<size_t>(index)];
  RAILWISE_WARN("device %d does not exist: there are %zu", index, devices.size());
  return nullptr;
}

Result<Listener*> Context::listen(const Device& device, void* handle) {
  Result<std::unique_ptr<Listener>> made =
      Listener::create(device, {net_.config(), net_.host(), traffic_class_});
  if (!made.ok()) return made.status();
  std::memcpy(handle, &(*made)->handle(), sizeof(ListenHandle));
  (*made)->setOwner(this);
  const std::lock_guard lock(mutex_);
  return listeners_.emplace_back(std::move(*made)).get();
}

std::unique_ptr<Connector> Context::takeAttempt(const Device& device, const ListenHandle& handle) {
  if (handle.connecting == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(attempts_.begin(), attempts_.end(), [&](const Attempt& attempt) {
    return attempt.id == handle.connecting && attempt.connector->belongsTo(device, handle);
  });
  if (found == attempts_.end()) return nullptr;
  std::unique_ptr<Connector> taken = std::move(found->connector);
  attempts_.erase(found);
  return taken;
}

Result<SendConnection*> Context::connect(const Device& device, void* handle_bytes, int traffic_class) {
  ListenHandle handle;
  std::memcpy(&handle, handle_bytes, sizeof handle);  // NCCL's buffer has no alignment
  uint64_t id = handle.connecting;
  std::unique_ptr<Connector> connector = takeAttempt(device, handle);
  if (connector == nullptr) {
    const int effective_class = traffic_class >= 0 ? traffic_class : traffic_class_;
    Result<std::unique_ptr<Connector>> made =
        Connector::create(device, {net_.config(), net_.host(), effective_class}, handle);
    if (!made.ok()) return made.status();
    connector = std::move(*made);
    const std::lock_guard lock(mutex_);
    // Attempts that NCCL has given up without a word (it has none for that) end here, or with the context.
    std::erase_if(attempts_, [](const Attempt& attempt) { return attempt.connector->expired(); });
    id = ++last_attempt_;
  }
  const auto remember = [&](uint64_t value) {
    handle.connecting = value;
    std::memcpy(handle_bytes, &handle, sizeof handle);
  };
  Result<std::unique_ptr<SendConnection>> advanced = connector->advance();
  if (!advanced.ok()) {
    remember(0);
    return advanced.status();
  }
  remember(*advanced == nullptr ? id : 0);
  if (*advanced != nullptr) (*advanced)->setOwner(this);
  const std::lock_guard lock(mutex_);
  if (*advanced != nullptr) return sends_.emplace_back(std::move(*advanced)).get();
  attempts_.push_back({id, std::move(connector)});
  return static_cast<SendConnection*>(nullptr);
}

Result<ReceiveConnection*> Context::accept(Listener& listener) {
  Result<std::unique_ptr<ReceiveConnection>> accepted = listener.accept();
  if (!accepted.ok()) return accepted.status();
  if (*accepted == nullptr) return static_cast<ReceiveConnection*>(nullptr);
  Context& self = *listener.owner();
  (*accepted)->setOwner(&self);
  const std::lock_guard lock(self.mutex_);
  return self.receives_.emplace_back(std::move(*accepted)).get();
}

void Context::close(Listener* listener) {
  Context& self = *listener->owner();
  std::unique_lock lock(self.mutex_);
  const std::unique_ptr<Listener> taken = takeOut(self.listeners_, listener);
  lock.unlock();  // destroyed without the lock
}

void Context::close(Connection* connection) {
  Context& self = *connection->owner();
  std::unique_lock lock(self.mutex_);
  const std::unique_ptr<SendConnection> send = takeOut(self.sends_, connection);
  const std::unique_ptr<ReceiveConnection> receive = takeOut(self.receives_, connection);
  lock.unlock();
}

}  // namespace railwise::net
