#include "net/net.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "base/take_out.h"
#include "net/patience.h"
#include "net/topology/in_use.h"
#include "net/topology/strict.h"
#include "net/topology/topology.h"
#include "record/writer.h"
#include "verbs/library.h"

namespace railwise::net {
namespace {

std::mutex g_mutex;
int g_references = 0;
// The members of the virtual devices that NCCL has made, by device index. They outlive Net (deviceCount()).
using MemberNames = std::vector<std::string>;
std::vector<MemberNames>& g_fused = *new std::vector<MemberNames>;
std::unique_ptr<Net>& instance() {
  // Never destroyed at exit: NCCL's threads may still be running then.
  static auto& net = *new std::unique_ptr<Net>;
  return net;
}

}  // namespace

Result<Net*> Net::acquire() {
  const std::lock_guard lock(g_mutex);
  if (instance() == nullptr) {
    struct Start {
      ~Start() {
        if (net == nullptr) return;
        net.reset();
        record::stop();
        verbs::unload();
      }
      std::unique_ptr<Net> net;
    } started{std::unique_ptr<Net>(new Net)};
    RAILWISE_TRY(started.net->start());
    instance() = std::move(started.net);
  }
  ++g_references;
  return instance().get();
}

void Net::release() {
  const std::lock_guard lock(g_mutex);
  if (--g_references > 0) return;
  instance().reset();
  record::stop();
  verbs::unload();
}

Net::~Net() {
  if (list_.reopener != nullptr) list_.reopener->stop();
  if (list_.finishCalls()) return;
  // The devices' caches have registrations with those that stay.
  for (auto& device : virtual_) (void)device.release();
  for (auto& device : retired_) (void)device.release();
  list_.leave();
}

Net* Net::current() {
  const std::lock_guard lock(g_mutex);
  return instance().get();
}

// Loads verbs and finds the devices.
Status Net::findDevices() {
  // A user who names a libibverbs means NCCL's own network over InfiniBand alone (nccl_own_network.h).
  if (config_.ib_disable != 0 && config_.device != "verbs") {
    RAILWISE_INFO(log::kInit | log::kNet,
                  "disabled by NCCL_IB_DISABLE=1 (with RAILWISE_DEVICE=verbs only NCCL's own IB network is)");
    return {Code::kNoDevice, 0};
  }
  RAILWISE_TRY(verbs::load(config_));
  verbs::library().fork_init();
  Result<DeviceList> list = discoverDevices(config_);
  if (!list.ok()) return list.status();
  list_ = std::move(*list);
  return Status::success();
}

void Net::startRecord() const {
  if (config_.metrics == 0) return;
  record::WriterSettings settings;
  settings.folder = config_.metrics_dir;
  settings.most_connections = static_cast<uint32_t>(config_.metrics_connections);
  settings.keep = std::chrono::seconds(config_.metrics_keep_s);
  settings.host = host_;
  settings.plugin = "Railwise " RAILWISE_VERSION;
  const LaunchedRank launched = launchedRank();
  settings.rank = launched.rank;
  settings.ranks = launched.ranks;
  record::start(settings);
}

Status Net::start() {
  config_ = Config::load();
  warnOfMisspeltSettings();
  const Result<StrictMode> strict = strictMode(config_);
  if (!strict.ok()) return strict.status();
  host_ = localHostName(config_.device.starts_with("software") ? config_.host : "");
  gpu_driver_ = net::gpuDriver(config_);
  startRecord();
  const Status found = findDevices();
  if (!found.ok()) return strict->device ? refuseWithoutDevice(config_) : found;
  topology_ = provideTopology(config_);
  RAILWISE_TRY(checkStrictly(*strict, config_, topology_, list_.devices));
  Result<std::unique_ptr<EventWatcher>> peers = EventWatcher::start("railwise-peers");
  if (peers.ok()) peers_ = std::move(*peers);
  if (peers_ != nullptr && config_.failover != 0) resumer_ = Resumer::create(*peers_);
  std::string names;
  for (const auto& device : list_.devices) {
    const verbs::Port& port = device->rails().front().port;
    names += " " + std::string(device->name()) + (port.iwarp ? "/iWARP" : port.ethernet ? "/RoCE" : "/IB");
  }
  RAILWISE_INFO(log::kInit | log::kNet, "Railwise " RAILWISE_VERSION ", %s:%s", verbs::library().name,
                names.c_str());
  restoreVirtualDevices();
  return Status::success();
}

const PathBandwidth& Net::paths() const {
  std::call_once(paths_found_, [this] { paths_ = findRails(config_, topology_, list_.devices); });
  return paths_;
}

const Device* Net::device(int index) const {
  const auto physical = static_cast<int>(list_.devices.size());
  if (index < 0 || index >= physical + virtual_count_.load(std::memory_order_acquire)) return nullptr;
  return index < physical ? list_.devices[static_cast<std::size_t>(index)].get()
                          : virtual_[static_cast<std::size_t>(index - physical)].get();
}

void Net::reloaded() {
  const std::lock_guard lock(mutex_);
  fused_ = false;
}

int Net::deviceCount() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(list_.devices.size()) + (fused_ ? virtual_count_.load() : 0);
}

Result<int> Net::makeVirtualDevice(std::span<const int> members) {
  const auto physical = static_cast<int>(list_.devices.size());
  if (members.size() == 1 && members[0] >= 0 && members[0] < physical) return members[0];
  const std::lock_guard lock(mutex_);
  if (!std::exchange(fused_, true)) virtual_count_ = 0;  // begins anew; those of before keep their places
  const int index = virtual_count_;
  const Device* const before = virtual_[static_cast<std::size_t>(index)].get();
  const bool same = before != nullptr && std::ranges::equal(before->members(), members);
  if (!same) RAILWISE_TRY(addVirtualDevice(members));
  virtual_count_.store(index + 1, std::memory_order_release);
  if (static_cast<std::size_t>(index) >= g_fused.size()) g_fused.resize(static_cast<std::size_t>(index) + 1);
  MemberNames& names = g_fused[static_cast<std::size_t>(index)];
  names.clear();
  for (const int member : members) names.push_back(list_.devices[static_cast<std::size_t>(member)]->name());
  return physical + index;
}

// At the next free place.
Status Net::addVirtualDevice(std::span<const int> members) {
  const auto physical = static_cast<int>(list_.devices.size());
  if (physical + virtual_count_ >= kMaxDevices) {
    RAILWISE_WARN("makeVDevice: there are %d devices already, NCCL takes no more", kMaxDevices);
    return {Code::kInvalidArgument, 0};
  }
  std::vector<const Device*> devices;
  for (const int member : members) {
    if (member < 0 || member >= physical) {
      RAILWISE_WARN("makeVDevice: device %d is not a physical one: there are %d", member, physical);
      return {Code::kInvalidArgument, 0};
    }
    devices.push_back(list_.devices[static_cast<std::size_t>(member)].get());
  }
  (void)paths();  // the rail of the new device is that of its members, if they have one in common
  Result<std::unique_ptr<Device>> fused = fuseDevices(config_, devices);
  if (!fused.ok()) return fused.status();
  RAILWISE_INFO(log::kInit | log::kNet, "made device %s of %zu rails, %d Gb/s", (*fused)->name(),
                members.size(), (*fused)->properties().speed_mbps / 1000);
  std::unique_ptr<Device>& place = virtual_[static_cast<std::size_t>(virtual_count_)];
  if (place != nullptr) retired_.push_back(std::move(place));
  place = std::move(*fused);
  place->setIndex(physical + virtual_count_);
  return Status::success();
}

// Makes the virtual devices of an earlier init again, as long as all their members are there. A later device
// must not get the index of one that is missing, so the list ends there.
void Net::restoreVirtualDevices() {
  for (const MemberNames& names : g_fused) {
    std::vector<int> members;
    for (const std::string& name : names) {
      const auto found = std::find_if(list_.devices.begin(), list_.devices.end(),
                                      [&](const auto& device) { return device->name() == name; });
      if (found == list_.devices.end()) return;
      members.push_back(static_cast<int>(found - list_.devices.begin()));
    }
    if (!addVirtualDevice(members).ok()) return;
    ++virtual_count_;
  }
}

std::array<int, kMaxRails> Net::railBandwidths(const Device& device) const {
  std::vector<RailPort> ports;
  for (std::size_t i = 0; i < device.rails().size(); ++i) {
    const Rail& rail = device.rails()[i];
    const verbs::Port now = rail.hca->state().port(rail.port.number).value_or(rail.port);
    ports.push_back({static_cast<std::size_t>(device.members()[i]), now.speed_mbps});
  }
  // A single rail needs no shares.
  const int gpu = ports.size() > 1 ? gpuInUse(config_, paths(), ports) : -1;
  std::array<int, kMaxRails> mbps = {};
  for (std::size_t i = 0; i < ports.size(); ++i) mbps[i] = railMbps(paths(), gpu, ports[i]);
  return mbps;
}

// Sorts the standby rails: those nearest to the GPU that is nearest to the device's own rails come first.
// Connections take equally near rails in turn, so that the connections of a NIC that fails do not all move to
// the same other NIC.
std::vector<Rail> Net::standbysOf(const Device& device) const {
  if (config_.failover == 0) return {};
  std::vector<RailPort> own;
  for (std::size_t i = 0; i < device.rails().size(); ++i)
    own.push_back({static_cast<std::size_t>(device.members()[i]), device.rails()[i].port.speed_mbps});
  const PathBandwidth& paths = this->paths();
  const int gpu = paths.nearestGpu(own);
  const auto count = list_.devices.size();
  const auto first = static_cast<std::size_t>(device.members().front());
  struct Choice {
    topo::PathType path;
    int mbps;  // negative: more is better
    std::size_t turn;
    const Rail* rail;
    auto operator<=>(const Choice&) const = default;
  };
  std::vector<Choice> choices;
  for (std::size_t turn = 1; turn < count; ++turn) {
    const std::size_t index = (first + turn) % count;
    const Rail& rail = list_.devices[index]->rails().front();
    const verbs::Port& port = device.rails().front().port;
    const bool member = std::any_of(device.rails().begin(), device.rails().end(),
                                    [&](const Rail& its) { return its.same(rail); });
    if (member || rail.port.ethernet != port.ethernet || rail.port.iwarp != port.iwarp) continue;
    choices.push_back(
        {paths.type(gpu, index), -railMbps(paths, gpu, {index, rail.port.speed_mbps}), turn, &rail});
  }
  std::sort(choices.begin(), choices.end());
  std::vector<Rail> standbys;
  for (const Choice& choice : choices) {
    if (standbys.size() < std::size_t{kMaxRails}) standbys.push_back(*choice.rail);
  }
  return standbys;
}

ConnectionOptions Net::connectionOptions(const Device& device, int traffic_class, int queue_pairs) const {
  ConnectionOptions options{config_, host_, traffic_class, queue_pairs, railBandwidths(device)};
  options.standbys = standbysOf(device);
  options.devices = physicalDevices();
  options.gpu_driver = gpu_driver_;
  options.watcher = watcher();
  options.resumer = resumer();
  return options;
}

const Device* Net::findDevice(int index) {
  const Device* found = device(index);
  if (found == nullptr) RAILWISE_WARN("device %d does not exist: there are %d", index, deviceCount());
  return found;
}

// RoCE switches choose an equal-cost path for each queue pair. A connection of a rank with few peers needs
// several queue pairs to use more than one path.
constexpr int kFlowsWanted = 4;

ConnectionOptions Context::options(const Device& device, int traffic_class) const {
  const Config& config = net_.config();
  int queue_pairs = config.ib_qps_per_connection;
  const verbs::Port& port = device.rails().front().port;
  const int peers = peers_;
  if (queue_pairs == 0) {  // not set
    for (const Rail& rail : device.rails())
      queue_pairs = std::max<int>(queue_pairs, rail.port.lag_ports);  // one queue pair uses one port of a bond
    if (peers > 0 && port.ethernet && !port.iwarp)
      queue_pairs = std::clamp(kFlowsWanted / (peers * std::max(connections_per_peer_.load(), 1)),
                               queue_pairs, std::max(queue_pairs, kFlowsWanted));
  }
  ConnectionOptions options = net_.connectionOptions(device, traffic_class, queue_pairs);
  options.communicator = communicator_;
  return options;
}

Result<Listener*> Context::listen(const Device& device, void* handle) {
  Result<std::unique_ptr<Listener>> made = Listener::create(device, options(device, traffic_class_));
  if (!made.ok()) return made.status();
  std::memcpy(handle, &(*made)->handle(), sizeof(ListenHandle));
  (*made)->setOwner(this);
  const std::lock_guard lock(mutex_);
  return listeners_.emplace_back(std::move(*made)).get();
}

std::unique_ptr<Connector<SendConnection>> Context::takeAttempt(const Device& device,
                                                                const ListenHandle& handle) {
  if (handle.connecting == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(attempts_.begin(), attempts_.end(), [&](const Attempt& attempt) {
    return attempt.id == handle.connecting && attempt.connector->belongsTo(device, handle);
  });
  if (found == attempts_.end()) return nullptr;
  std::unique_ptr<Connector<SendConnection>> taken = std::move(found->connector);
  attempts_.erase(found);
  return taken;
}

Result<SendConnection*> Context::connect(const Device& device, void* handle_bytes, int traffic_class) {
  ListenHandle handle;
  std::memcpy(&handle, handle_bytes, sizeof handle);  // NCCL's buffer has no alignment
  uint32_t id = handle.connecting;
  std::vector<Attempt> abandoned;  // destroyed without the lock
  std::unique_ptr<Connector<SendConnection>> connector = takeAttempt(device, handle);
  if (connector == nullptr) {
    const int effective_class = traffic_class >= 0 ? traffic_class : traffic_class_;
    const ConnectionOptions its_options = options(device, effective_class);
    auto made = Connector<SendConnection>::create(
        device, its_options, handle, ListenerKind::kMessages,
        [&device, its_options, handle] { return SendConnection::create(device, its_options, handle); });
    if (!made.ok()) return made.status();
    connector = std::move(*made);
    const std::lock_guard lock(mutex_);
    // NCCL has no call to give up an attempt. Attempts that it has abandoned end here, or with the context.
    // Not at each call: NCCL may begin thousands of attempts at once.
    if (const auto now = Clock::now(); now - looked_for_abandoned_ >= Patience::kTick) {
      looked_for_abandoned_ = now;
      const auto given_up = std::partition(attempts_.begin(), attempts_.end(), [](const Attempt& attempt) {
        return !attempt.connector->abandoned();
      });
      abandoned.assign(std::make_move_iterator(given_up), std::make_move_iterator(attempts_.end()));
      attempts_.erase(given_up, attempts_.end());
    }
    if (++last_attempt_ == 0) ++last_attempt_;  // 0: no attempt
    id = last_attempt_;
  }
  const auto remember = [&](uint32_t value) {
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
