#include "net/device/device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <set>
#include <span>

#include "base/log.h"
#include "base/text/name_selection.h"
#include "base/text/words.h"
#include "net/device/reopener.h"
#include "net/patience.h"
#include "sysfs/pci_devices.h"
#include "verbs/drivers/mlx5.h"
#include "verbs/drivers/siw.h"
#include "verbs/gpu_direct.h"
#include "verbs/port.h"

namespace railwise::net {
namespace {

// NCCL keeps the pointers of getProperties beyond finalize and a new init, so these strings are never freed.
const char* internString(const std::string& text) {
  static std::mutex mutex;
  static auto& strings = *new std::deque<std::string>;
  const std::lock_guard lock(mutex);
  for (const std::string& known : strings) {
    if (known == text) return known.c_str();
  }
  return strings.emplace_back(text).c_str();
}

// A device and port before sorting.
struct Candidate {
  Hca* hca;
  verbs::Port port;
  verbs::PciPlace place;
  PortChoice choice;        // its rail and plane
  std::string data_direct;  // the PCI path of the function by which it is used; "": its own
};

// net_ib's number for several planes: this bit, and one bit for each plane. Planes are numbered from 1 in the
// order of the devices; bit 0 means "not known" (NCCL 2.30.7, net_ib/init.cc, ncclIbGetPlaneIndex).
constexpr int kPlanesBit = 0x4000;
constexpr std::size_t kMostPlanes = 14;

// What NCCL_IB_HCA selects of the port.
PortChoice choiceOf(const PortSelection& selection, const Hca& hca, uint8_t port) {
  PortChoice choice = choosePort(selection, hca.name(), port);
  if (choice.plane < kPlanesBit) return choice;
  RAILWISE_WARN("%s port %u: NCCL_IB_HCA says plane %d, but planes from %d stand for several: not used",
                hca.name(), port, choice.plane, kPlanesBit);
  choice.plane = -1;
  return choice;
}

// The forms in which NCCL sees a port (net_ib's rule: NCCL 2.30.7, net_ib/init.cc). A NIC with a data-direct
// function is shown as that function alone, or as itself and that function (NCCL_IB_DATA_DIRECT=2). "": as
// itself.
std::vector<std::string> waysToShow(const Hca& hca, const Config& config) {
  const std::string data_direct =
      config.ib_data_direct > 0 ? verbs::dataDirectPath(hca.context(), hca.pd()) : std::string();
  if (data_direct.empty()) return {""};
  RAILWISE_INFO(log::kInit | log::kNet, "%s: data-direct function at %s", hca.name(), data_direct.c_str());
  return config.ib_data_direct == 2 ? std::vector<std::string>{"", data_direct}
                                    : std::vector<std::string>{data_direct};
}

Result<verbs::Port> readPort(const Hca& hca, uint8_t number, const Config& config) {
  Result<verbs::Port> port = verbs::queryPort(hca.context(), number, config.ib_query_port_speed != 0);
  if (port.ok()) port->lag_ports = verbs::lagPorts(hca.context(), *port);
  return port;
}

void findPorts(Hca& hca, const Config& config, std::vector<Candidate>& found) {
  const verbs::PciPlace place = verbs::pciPlace(hca.context()->device, config.ib_merge_vfs != 0);
  const PortSelection selection = parsePortSelection(config.ib_hca).value_or(PortSelection());
  std::vector<verbs::Port> all;
  std::vector<std::string> paths;  // asked for once a port is used
  for (uint8_t number = 1; number <= hca.attributes().phys_port_cnt; ++number) {
    const PortChoice choice = choiceOf(selection, hca, number);
    if (!choice.selected) {
      RAILWISE_INFO(log::kInit | log::kNet, "%s port %u: not chosen by NCCL_IB_HCA=%s", hca.name(), number,
                    config.ib_hca.c_str());
      continue;
    }
    Result<verbs::Port> port = readPort(hca, number, config);
    if (!port.ok()) {
      RAILWISE_WARN("%s port %u: cannot be queried (%s), not used", hca.name(), number,
                    std::strerror(port.status().sys_errno));
      continue;
    }
    all.push_back(*port);
    if (!port->reliable && !port->iwarp) {
      RAILWISE_INFO(log::kInit | log::kNet, "%s port %u: neither InfiniBand, RoCE nor iWARP, not used",
                    hca.name(), number);
    } else if (!port->active) {
      RAILWISE_INFO(log::kInit | log::kNet, "%s port %u: not active, not used", hca.name(), number);
    } else {
      if (paths.empty()) paths = waysToShow(hca, config);
      for (const std::string& path : paths) found.push_back({&hca, *port, place, choice, path});
    }
  }
  hca.setPorts(all);
}

// A mistyped name chooses nothing. One list of what is left out may be meant for nodes of several kinds.
void warnOfNamesOfNoDevice(const Config& config, const std::vector<std::string>& devices) {
  const PortSelection selection = parsePortSelection(config.ib_hca).value_or(PortSelection());
  if (selection.exclude) return;
  for (const std::string& name : namesOfNoDevice(selection, devices))
    RAILWISE_WARN("NCCL_IB_HCA=%s: no device of this machine is named \"%s\"; there are %s",
                  config.ib_hca.c_str(), name.c_str(), joined(devices).c_str());
}

// Without a watcher everything works, but a failure is noticed only when a message fails. The reason is
// logged.
void watchEvents(DeviceList& list, const Config& config) {
  Result<std::unique_ptr<EventWatcher>> watcher = EventWatcher::start();
  if (!watcher.ok()) return;
  list.watcher = std::move(*watcher);
  if (config.failover != 0) list.reopener = std::make_unique<Reopener>(config, *list.watcher);
  for (const auto& hca : list.hcas) {
    if (list.reopener != nullptr) list.reopener->guard(*hca);
    (void)list.watcher->watch(hca->state());
  }
}

// net_ib sorts by PCI address and puts devices without one last (NCCL 2.30.7, net_ib/init.cc,
// ncclIbCompareDevs). NCCL merges its internal GIN and RMA devices with ours by name and index, so the order
// must be the same.
bool before(const Candidate& a, const Candidate& b) {
  const int64_t order_a = sysfs::pciOrder(a.place.path);
  const int64_t order_b = sysfs::pciOrder(b.place.path);
  if (order_a == order_b) return false;
  if (order_a < 0 || order_b < 0) return order_b < 0;
  return order_a < order_b;
}

int pointerSupport(const verbs::GpuDirect& gpu_direct, const verbs::Port& port) {
  // A flush reads through a queue pair that is connected to itself, which iWARP cannot do.
  if (port.iwarp) return kHostPointers;
  return kHostPointers | (gpu_direct.peer_memory.empty() ? 0 : kDevicePointers) |
         (gpu_direct.dma_buf ? kDmaBufPointers : 0);
}

// The name of a port, unique: the verbs name for port 1 (net_ib's name, also for a data-direct function),
// with ":port" for the others.
std::string deviceName(const Candidate& candidate) {
  const std::string name = candidate.hca->name() + std::string(candidate.data_direct.empty() ? "" : "_dma");
  return candidate.port.number == 1 ? name : name + ":" + std::to_string(candidate.port.number);
}

std::unique_ptr<Device> makeDevice(const Candidate& candidate, const Config& config,
                                   const std::vector<std::unique_ptr<Device>>& earlier) {
  Hca& hca = *candidate.hca;
  const bool data_direct = !candidate.data_direct.empty();
  const std::string& path = data_direct ? candidate.data_direct : candidate.place.function0_path;
  DeviceProperties properties = {};
  properties.force_flush = data_direct;
  properties.name = internString(deviceName(candidate));
  properties.pci_path = path.empty() ? nullptr : internString(path);
  properties.guid = hca.attributes().sys_image_guid;
  verbs::GpuDirect gpu_direct = verbs::gpuDirect(hca.pd(), config.sysfs_root);
  if (data_direct) gpu_direct.dma_buf = true;  // asked with its path
  RAILWISE_INFO(log::kInit | log::kNet, "%s: GPUDirect: %s%s", properties.name, gpu_direct.text().c_str(),
                data_direct ? ", through the data-direct function" : "");
  properties.pointer_support = pointerSupport(gpu_direct, candidate.port);
  properties.speed_mbps = candidate.port.speed_mbps;
  // net_ib's rule: ports of one PCI device are numbered by the ports found before, because cards with a
  // function per port call each verbs port 1.
  properties.port = candidate.port.number;
  if (!path.empty()) {
    properties.port +=
        static_cast<int>(std::count_if(earlier.begin(), earlier.end(), [&](const auto& device) {
          return device->properties().pci_path == properties.pci_path;
        }));
  }
  properties.latency_us = 0;  // "not set", as net_ib
  properties.max_connections = hca.attributes().max_qp;
  const uint64_t request = candidate.port.max_message_bytes & ~(kCutAlignment - 1);
  properties.max_message_bytes = std::min<uint64_t>(kMaxMessageBytes, request * kMaxRequestsOfMessage);
  properties.rail = candidate.choice.rail;
  properties.plane = candidate.choice.plane;
  Rail rail = {&hca,
               candidate.port,
               &hca.gidTable(candidate.port, config),
               properties.name,
               properties.rail,
               properties.plane,
               data_direct,
               properties.pointer_support};
  const verbs::Port& port = candidate.port;
  rail.record_rail = record::addRail({.device = hca.name(),
                                      .port = port.number,
                                      .link = static_cast<uint8_t>(port.iwarp      ? 3
                                                                   : port.ethernet ? 2
                                                                                   : 1),
                                      .rail = properties.rail,
                                      .plane = properties.plane,
                                      .claimed_mbps = static_cast<uint32_t>(std::max(port.speed_mbps, 0))});
  return std::make_unique<Device>(config, properties, std::vector<Rail>{rail},
                                  std::vector<int>{static_cast<int>(earlier.size())});
}

// Without failover a connection cannot do without a device that has failed.
std::vector<RailDomain> protectionDomains(const Config& config, const std::vector<Rail>& rails) {
  std::vector<RailDomain> domains;
  for (const Rail& rail : rails) {
    const Hca& latest = *rail.now().hca;
    domains.emplace_back(latest.pd(), config.failover != 0 ? &latest.state() : nullptr);
  }
  return domains;
}

MemoryOptions memoryOptionsOf(const Config& config, const std::vector<Rail>& rails) {
  uint32_t data_direct = 0;
  for (std::size_t i = 0; i < rails.size(); ++i) data_direct |= rails[i].data_direct ? 1U << i : 0U;
  return memoryOptions(config, data_direct);
}

// The value that all rails share, else "not known".
int common(const std::vector<const Device*>& members, int DeviceProperties::*field) {
  const int first = members.front()->properties().*field;
  const bool equal = std::all_of(members.begin(), members.end(),
                                 [&](const Device* member) { return member->properties().*field == first; });
  return equal ? first : -1;
}

int fusedPlane(const std::vector<const Device*>& members) {
  int planes = kPlanesBit;
  for (const Device* member : members) planes |= 1 << member->planeNumber();
  return planes;
}

void numberPlanes(std::vector<std::unique_ptr<Device>>& devices) {
  std::vector<int> planes = {-1};
  for (const auto& device : devices) {
    const int plane = device->properties().plane;
    auto found = std::find(planes.begin(), planes.end(), plane);
    if (found == planes.end()) {
      if (planes.size() == kMostPlanes) {
        RAILWISE_WARN("NCCL_IB_HCA names more than %zu planes: %s counts as on none", kMostPlanes - 1,
                      device->name());
        continue;
      }
      found = planes.insert(planes.end(), plane);
    }
    device->setPlaneNumber(static_cast<int>(found - planes.begin()));
  }
}

// `opened`: the names of the devices that could be opened, with commas.
Status noDevice(const Config& config, int present, const std::string& opened) {
  const char* const software = "set RAILWISE_DEVICE=software to run on the software device";
  if (present == 0) {
    RAILWISE_WARN(
        "no RDMA device: none in /sys/class/infiniband. Load the NIC's driver, give the container "
        "/dev/infiniband, or %s",
        software);
  } else if (opened.empty()) {
    RAILWISE_WARN(
        "no RDMA device: %d found, none could be opened. Check the rights on /dev/infiniband and "
        "that ibverbs-providers is installed, or %s",
        present, software);
  } else {
    const bool is_software = config.device.starts_with("software");
    RAILWISE_WARN(
        "no RDMA device: none of %s has an active InfiniBand or RoCE port%s. Check %sthe cables and "
        "`ibv_devinfo`%s%s",
        opened.c_str(),
        config.ib_hca.empty() ? "" : (" that NCCL_IB_HCA=" + config.ib_hca + " chooses").c_str(),
        config.ib_hca.empty() ? "" : "NCCL_IB_HCA, ", is_software ? "" : ", or ",
        is_software ? "" : software);
  }
  return {Code::kNoDevice, 0};
}

// The device of an identity, or null; `problem` says why. When several cards are reset at once, a name may
// move to another card. A node GUID does not. Virtual functions may have none; they are known by their name.
ibv_device* findDevice(std::span<ibv_device* const> list, const HcaIdentity& identity, std::string& problem) {
  const verbs::Library& verbs = verbs::library();
  ibv_device* found = nullptr;
  problem = "no device has its GUID or name";
  for (ibv_device* const device : list) {
    const bool has_name = identity.name == verbs.get_device_name(device);
    const bool has_guid = verbs.get_device_guid(device) == identity.node_guid;
    if (has_guid && (has_name || (found == nullptr && identity.node_guid != 0))) found = device;
    if (has_name && !has_guid) problem = "another device has its name";
  }
  return found;
}

}  // namespace

Result<std::unique_ptr<Hca>> Hca::open(ibv_device* device, std::string& problem) {
  const verbs::Library& verbs = verbs::library();
  std::unique_ptr<Hca> hca(new Hca);
  hca->name_ = verbs.get_device_name(device);
  hca->registered_ = std::make_shared<RegisteredMemory>();
  const auto failed = [&](const char* call, int reason) {
    problem = std::string(call) + " failed: " + std::strerror(reason);
    return Status{Code::kSystem, reason};
  };
  int error = 0;
  hca->context_.reset(verbs::makeOrExplain([&] { return verbs.open_device(device); }, error));
  if (hca->context_ == nullptr) return failed("ibv_open_device", error);
  if (error = verbs.query_device(hca->context(), &hca->attributes_); error != 0)
    return failed("ibv_query_device", error);
  verbs::keepSignalsFrom(*hca->context(), hca->attributes_);
  hca->pd_.reset(verbs::makeOrExplain([&] { return verbs.alloc_pd(hca->context()); }, error));
  if (hca->pd_ == nullptr) return failed("ibv_alloc_pd", error);
  return hca;
}

void Hca::setPorts(const std::vector<verbs::Port>& ports) {
  state_ = std::make_unique<DeviceState>(context(), ports);
}

HcaIdentity Hca::identity() const {
  HcaIdentity identity = {name_, attributes_.node_guid, {}, earlier_generations_ + 1};
  for (const auto& [number, table] : gid_tables_) identity.ports.push_back(number);
  return identity;
}

Result<std::unique_ptr<Hca>> Hca::openAnew(const HcaIdentity& identity, const Config& config,
                                           std::string& problem) {
  const verbs::Library& verbs = verbs::library();
  int present = 0;
  ibv_device** const list = verbs.get_device_list(&present);
  if (list == nullptr) present = 0;
  ibv_device* const found = findDevice(std::span(list, static_cast<std::size_t>(present)), identity, problem);
  const auto openFound = [&]() -> Result<std::unique_ptr<Hca>> {
    if (found != nullptr) return open(found, problem);
    return Status{Code::kNoDevice, ENODEV};
  };
  Result<std::unique_ptr<Hca>> opened = openFound();
  if (list != nullptr) verbs.free_device_list(list);
  if (!opened.ok()) return opened;
  Hca& hca = **opened;
  if (hca.attributes_.node_guid != identity.node_guid) {
    problem = "another device has its name";
    return Status{Code::kNoDevice, ENODEV};
  }
  std::vector<verbs::Port> ports;
  for (const uint8_t number : identity.ports) {
    const Result<verbs::Port> port = readPort(hca, number, config);
    problem = "its port " + std::to_string(number) + " cannot be queried";
    if (!port.ok()) return port.status();
    ports.push_back(*port);
  }
  hca.setPorts(ports);
  for (const verbs::Port& port : ports) (void)hca.gidTable(port, config);
  hca.earlier_generations_ = identity.generations;
  hca.state().setReturned();
  return opened;
}

bool Hca::setNextGeneration(std::unique_ptr<Hca>& nextGeneration, std::size_t renewed) {
  {
    const std::lock_guard lock(registered_->mutex());
    if (renewed != registered_->sizeLocked()) return false;
    owned_next_generation_ = std::move(nextGeneration);
    owned_next_generation_->registered_ = registered_;
    next_generation_.store(owned_next_generation_.get(), std::memory_order_release);
  }
  state_->ringAll();
  return true;
}

bool Hca::answers() {
  const bool silent = stops_.late();
  if (said_silent_.exchange(silent, std::memory_order_relaxed) || !silent) return !silent;
  RAILWISE_WARN(
      "%s: its driver has not answered ibv_modify_qp for a second: nothing new is made with the device until "
      "it does: look for errors of the NIC in `dmesg`",
      name());
  return false;
}

void Hca::noteRefusal(Refusal kind, int error) {
  if (said_refusal_[static_cast<std::size_t>(kind)].exchange(true, std::memory_order_relaxed)) return;
  const bool stop = kind == Refusal::kStop;
  RAILWISE_WARN("%s: %s: %s. The queue pair may still write, so %s: look for errors of the NIC in `dmesg`",
                name(), stop ? "ibv_modify_qp refuses to stop a queue pair" : "ibv_destroy_qp is refused",
                std::strerror(error),
                stop ? "its connection waits and asks again"
                     : "the memory that it uses is not used again until the driver destroys it");
}

bool Hca::finishCalls() {
  if (inForkedChild()) return false;
  const bool stopped = stops_.finish(Patience::kDriverSilent);
  const bool destroyed = destructions_.finish(Patience::kDriverSilent);
  const bool later = owned_next_generation_ == nullptr || owned_next_generation_->finishCalls();
  return stopped && destroyed && later && !queue_pair_stays_.load(std::memory_order_relaxed);
}

verbs::GidTable& Hca::gidTable(const verbs::Port& port, const Config& config) {
  std::unique_ptr<verbs::GidTable>& table = gid_tables_[port.number];
  if (table == nullptr) {
    table = std::make_unique<verbs::GidTable>(context(), port, config);
    state_->setGids(port.number, table.get());
  }
  return *table;
}

bool Rail::sharesKeysWith(const Rail& later) const {
  if (same(later)) return true;
  if (port.number != later.port.number) return false;
  const Hca* life = hca;
  while (life != nullptr && life != later.hca) life = life->nextGeneration();
  return life != nullptr && life->state().hasKeys();
}

Rail Rail::now() const {
  Hca* latest = hca;
  while (Hca* const next = latest->nextGeneration()) latest = next;
  if (latest == hca) return *this;
  Rail renewed = *this;
  renewed.hca = latest;
  renewed.port = latest->state().port(port.number).value_or(port);
  renewed.gids = latest->gids(port.number);
  return renewed;
}

uint32_t Rail::changes() const {
  uint32_t sum = 0;
  for (const Hca* life = hca; life != nullptr; life = life->nextGeneration())
    sum += 1 + life->state().changes(port.number);
  return sum;
}

void Rail::tell(verbs::FatalFlag* bell) const {
  for (const Hca* life = hca; life != nullptr; life = life->nextGeneration()) life->state().tell(bell);
}

void Rail::forget(verbs::FatalFlag* bell) const {
  for (const Hca* life = hca; life != nullptr; life = life->nextGeneration()) life->state().forget(bell);
}

DeviceList::DeviceList() = default;
DeviceList::DeviceList(DeviceList&&) noexcept = default;

DeviceList& DeviceList::operator=(DeviceList&& other) noexcept {
  std::swap(hcas, other.hcas);
  std::swap(reopener, other.reopener);
  std::swap(watcher, other.watcher);
  std::swap(devices, other.devices);
  return *this;
}

DeviceList::~DeviceList() {
  if (reopener != nullptr) reopener->stop();
  if (!finishCalls()) leave();
}

bool DeviceList::finishCalls() const {
  bool finished = true;
  for (const auto& hca : hcas) finished = hca->finishCalls() && finished;
  return finished;
}

void DeviceList::leave() {
  static std::mutex mutex;
  static auto& left = *new std::deque<DeviceList>;
  if (!std::ranges::any_of(hcas, [](const auto& hca) { return hca->inForkedChild(); }))
    RAILWISE_INFO(log::kNet,
                  "a driver has not ended every queue pair: its devices stay open until the process ends");
  verbs::keepLoaded();
  if (reopener != nullptr) reopener->stop();
  if (watcher != nullptr) (void)watcher->finish(Patience::kDriverSilent);
  try {
    const std::lock_guard lock(mutex);
    left.emplace_back(std::move(*this));
  } catch (const std::bad_alloc&) {  // they stay in memory without an owner
    for (auto& device : devices) (void)device.release();
    for (auto& hca : hcas) (void)hca.release();
    (void)reopener.release();
    (void)watcher.release();
  }
}

Device::Device(const Config& config, DeviceProperties properties, std::vector<Rail> rails,
               std::vector<int> members)
    : properties_(properties), rails_(std::move(rails)), members_(std::move(members)) {
  std::set<RegisteredMemory*> registered;  // in the order in which all lock them
  for (const Rail& rail : rails_) registered.insert(&rail.hca->registered());
  std::vector<std::unique_lock<std::mutex>> locks;
  for (RegisteredMemory* const each : registered) locks.emplace_back(each->mutex());
  const std::vector<RailDomain> domains = protectionDomains(config, rails_);
  memory_ = std::make_shared<MemoryCache>(domains, memoryOptionsOf(config, rails_));
  windows_ = std::make_shared<WindowArena>(domains);
  for (RegisteredMemory* const each : registered) {
    each->addLocked(memory_);
    each->addLocked(windows_);
  }
}

Result<DeviceList> discoverDevices(const Config& config) {
  const verbs::Library& verbs = verbs::library();
  int present = 0;
  ibv_device** list = verbs.get_device_list(&present);
  if (list == nullptr) present = 0;
  std::vector<std::string> opened;
  DeviceList result;
  std::vector<Candidate> candidates;
  for (int i = 0; i < present; ++i) {
    std::string problem;
    Result<std::unique_ptr<Hca>> hca = Hca::open(list[i], problem);
    if (!hca.ok()) {
      RAILWISE_WARN("%s: %s; the device is not used", verbs.get_device_name(list[i]), problem.c_str());
      continue;
    }
    opened.emplace_back(verbs.get_device_name(list[i]));
    const std::size_t before_it = candidates.size();
    findPorts(**hca, config, candidates);
    // A device that is not used is closed: nobody can remove an open device, and its events do not concern
    // this process.
    if (candidates.size() > before_it) result.hcas.push_back(std::move(*hca));
  }
  if (list != nullptr) verbs.free_device_list(list);
  if (config.ib_device_pci_order != 0) std::stable_sort(candidates.begin(), candidates.end(), before);
  for (const Candidate& candidate : candidates) {
    result.devices.push_back(makeDevice(candidate, config, result.devices));
    result.devices.back()->setIndex(static_cast<int>(result.devices.size()) - 1);
  }
  if (result.devices.empty()) return noDevice(config, present, joined(opened));
  warnOfNamesOfNoDevice(config, opened);
  numberPlanes(result.devices);
  watchEvents(result, config);
  return result;
}

Result<std::unique_ptr<Device>> fuseDevices(const Config& config, const std::vector<const Device*>& members) {
  if (members.empty() || members.size() > std::size_t{kMaxRails}) {
    RAILWISE_WARN("makeVDevice: %zu devices to fuse, 1 to %d are possible", members.size(), kMaxRails);
    return Status{Code::kInvalidArgument, 0};
  }
  if (members.size() > 1 && config.ib_merge_nics == 0) {
    RAILWISE_INFO(log::kInit | log::kNet, "makeVDevice: NCCL_IB_MERGE_NICS=0 forbids fusing NICs");
    return Status{Code::kInvalidUsage, 0};
  }
  const auto placeless = std::find_if(members.begin(), members.end(), [](const Device* member) {
    return member->properties().pci_path == nullptr;
  });
  if (members.size() > 1 && placeless != members.end() && config.fuse_placeless == 0) {
    // NCCL up to 2.30.7 puts such a device under the first CPU's <nic>, where it counts as a port of every
    // other NIC, and puts the fused device into a <nic> inside that <nic>, which NCCL then does not read
    // (ncclTopoGetVNicParent).
    RAILWISE_INFO(
        log::kInit | log::kNet,
        "makeVDevice: %s has no place in the PCI tree, and NCCL would lose it once fused: it stays alone",
        (*placeless)->name());
    return Status{Code::kInvalidUsage, 0};
  }
  DeviceProperties properties = members.front()->properties();
  std::string name;
  std::vector<Rail> rails;
  std::vector<int> indices;
  properties.speed_mbps = 0;
  for (const Device* member : members) {
    const DeviceProperties& its = member->properties();
    if (std::count(members.begin(), members.end(), member) > 1) {
      RAILWISE_WARN("makeVDevice: %s is named twice", its.name);
      return Status{Code::kInvalidArgument, 0};
    }
    const Rail& rail = member->rails().front();
    const verbs::Port& first = members.front()->rails().front().port;
    if (rail.port.ethernet != first.ethernet || rail.port.iwarp != first.iwarp) {
      RAILWISE_WARN("makeVDevice: %s and %s have different link layers", members.front()->name(), its.name);
      return Status{Code::kInvalidArgument, 0};
    }
    name += (name.empty() ? "" : "+") + std::string(its.name);
    rails.push_back(rail);
    indices.push_back(member->members().front());
    properties.speed_mbps += its.speed_mbps;
    properties.pointer_support &= its.pointer_support;
    properties.force_flush |= its.force_flush;
    properties.max_connections = std::min(properties.max_connections, its.max_connections);
    properties.max_message_bytes = std::min(properties.max_message_bytes, its.max_message_bytes);
  }
  properties.name = internString(name);
  properties.rail = common(members, &DeviceProperties::rail);
  properties.plane = fusedPlane(members);
  return std::make_unique<Device>(config, properties, std::move(rails), std::move(indices));
}

}  // namespace railwise::net
