#include "doctor/pair/measuring/open_end.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "base/dynamic_library.h"
#include "base/text/name_selection.h"
#include "doctor/pair/measuring/wire.h"
#include "sysfs/pci_devices.h"
#include "verbs/port.h"
#include "verbs/queue_pair.h"

namespace railwise::doctor::pair {
namespace {

// CUDA's driver API in our own declarations (cuda.h of CUDA 12): a result of 0 is success.
using CuResult = int;
using CuDevice = int;
using CuContext = void*;
using CuAddress = unsigned long long;
constexpr int kDmaBufHandle = 1;  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
// cuMemGetHandleForAddressRange takes whole pages only; blocks of this size are aligned to it.
constexpr std::size_t kGpuPage = std::size_t{2} << 20;

struct CudaDriver {
  const DynamicLibrary& library;
  CuResult (*init)(unsigned flags) = library["cuInit"];
  CuResult (*device_of)(CuDevice* device, const char* bus_id) = library["cuDeviceGetByPCIBusId"];
  CuResult (*retain)(CuContext* context, CuDevice device) = library["cuDevicePrimaryCtxRetain"];
  CuResult (*release)(CuDevice device) = library["cuDevicePrimaryCtxRelease_v2"];
  CuResult (*set_current)(CuContext context) = library["cuCtxSetCurrent"];
  CuResult (*allocate)(CuAddress* address, std::size_t bytes) = library["cuMemAlloc_v2"];
  CuResult (*free)(CuAddress address) = library["cuMemFree_v2"];
  CuResult (*to_gpu)(CuAddress to, const void* from, std::size_t bytes) = library["cuMemcpyHtoD_v2"];
  CuResult (*from_gpu)(void* to, CuAddress from, std::size_t bytes) = library["cuMemcpyDtoH_v2"];
  CuResult (*error_name)(CuResult result, const char** name) = library["cuGetErrorName"];
  // Null before CUDA 11.7.
  CuResult (*handle_for)(void* handle, CuAddress address, std::size_t bytes, int type,
                         unsigned long long flags) = library["cuMemGetHandleForAddressRange"];

  bool complete() const {
    return init && device_of && retain && release && set_current && allocate && free && to_gpu && from_gpu &&
           error_name;
  }
  std::string nameOf(CuResult result) const {
    const char* name = nullptr;
    if (error_name(result, &name) == 0 && name != nullptr) return name;
    return "error " + std::to_string(result);
  }
};

class CudaBlock final : public GpuBlock {
 public:
  CudaBlock(const CudaDriver& driver, CuContext context, CuAddress address, std::size_t bytes)
      : driver_(driver), context_(context), address_(address) {
    if (driver.handle_for == nullptr || driver.handle_for(&fd_, address, bytes, kDmaBufHandle, 0) != 0)
      fd_ = -1;
  }
  ~CudaBlock() override {
    if (fd_ >= 0) close(fd_);
    if (driver_.set_current(context_) == 0) (void)driver_.free(address_);
  }
  CudaBlock(const CudaBlock&) = delete;
  CudaBlock& operator=(const CudaBlock&) = delete;

  uint64_t address() const override { return address_; }
  int dmaBuf() const override { return fd_; }
  bool write(std::size_t offset, const void* from, std::size_t bytes) override {
    return driver_.set_current(context_) == 0 && driver_.to_gpu(address_ + offset, from, bytes) == 0;
  }
  bool read(std::size_t offset, void* to, std::size_t bytes) const override {
    return driver_.set_current(context_) == 0 && driver_.from_gpu(to, address_ + offset, bytes) == 0;
  }

 private:
  const CudaDriver& driver_;
  const CuContext context_;
  const CuAddress address_;
  int fd_ = -1;
};

class CudaGpus final : public GpuDriver {
 public:
  explicit CudaGpus(DynamicLibrary library) : library_(std::move(library)) {}
  ~CudaGpus() override {
    for (const auto& [bus_id, used] : used_) (void)driver_.release(used.device);
  }
  CudaGpus(const CudaGpus&) = delete;
  CudaGpus& operator=(const CudaGpus&) = delete;

  const CudaDriver& driver() const { return driver_; }

  Outcome<std::unique_ptr<GpuBlock>> allocate(const std::string& bus_id, std::size_t bytes) override {
    const std::size_t whole = (bytes + kGpuPage - 1) / kGpuPage * kGpuPage;
    const auto used = use(bus_id);
    if (!used.ok()) return used.failure();
    CuAddress address = 0;
    CuResult result = driver_.set_current(used->context);
    if (result == 0) result = driver_.allocate(&address, whole);
    if (result != 0) return Error{"GPU " + bus_id + ": no memory: " + driver_.nameOf(result)};
    return std::unique_ptr<GpuBlock>(std::make_unique<CudaBlock>(driver_, used->context, address, whole));
  }

 private:
  struct Used {
    CuDevice device = 0;
    CuContext context = nullptr;
  };

  Outcome<Used> use(const std::string& bus_id) {
    if (const auto known = used_.find(bus_id); known != used_.end()) return known->second;
    Used used;
    CuResult result = driver_.device_of(&used.device, bus_id.c_str());
    if (result == 0) result = driver_.retain(&used.context, used.device);
    if (result != 0) return Error{"GPU " + bus_id + " cannot be used: " + driver_.nameOf(result)};
    used_[bus_id] = used;
    return used;
  }

  DynamicLibrary library_;
  const CudaDriver driver_{library_};
  std::map<std::string, Used> used_;
};

// 4.096 us x 2^15 is 134 ms; with 8 tries a write to nowhere fails after about 1.1 s. Shorter timeouts fail
// on slow machines that still answer (Soft-RoCE in an emulator); on NICs that wait up to four times as long,
// which the specification allows, the limits of endpoint.h come first.
constexpr int kAcknowledgeTimeout = 15;
constexpr int kRetries = 7;

struct FoundNic {
  NicFacts facts;
  OpenNic open;
  std::string path;  // of the PCI function
};

LinkKind linkOf(const verbs::Port& port) {
  if (port.iwarp) return LinkKind::kIwarp;
  if (!port.reliable) return LinkKind::kOther;
  return port.ethernet ? LinkKind::kRoce : LinkKind::kInfiniBand;
}

uint32_t mtuBytes(ibv_mtu mtu) { return 128U << static_cast<unsigned>(mtu); }

void readGids(FoundNic& nic, const Config& config) {
  if (!nic.open.port.active || !nic.open.port.reliable) return;
  const auto gids = verbs::usableGids(nic.open.context.get(), nic.open.port, config);
  if (!gids.ok()) return;  // the pair test says that no address can be used
  nic.facts.gids.assign(gids->begin(), gids->end());
  nic.open.gids = nic.facts.gids;
}

// A queue pair tells what its device offers.
void readEce(FoundNic& nic, const Config& config) {
  if (nic.facts.link != LinkKind::kRoce || !nic.open.port.active) return;
  const verbs::Cq cq(verbs::library().create_cq(nic.open.context.get(), 1, nullptr, nullptr, 0));
  if (cq == nullptr) return;
  const auto made = verbs::createQueuePair(nic.open.pd.get(), cq.get(), nic.open.port, config, {1, 1, 0});
  if (!made.ok()) return;
  const auto ece = verbs::queryEce(made->qp.get(), config);
  if (!ece) return;
  nic.facts.ece_vendor = ece->vendor;
  nic.facts.ece_options = ece->options;
}

void readPort(FoundNic& nic, const Config& config) {
  const auto port = verbs::queryPort(nic.open.context.get(), nic.facts.port, config.ib_query_port_speed != 0);
  if (!port.ok()) {
    nic.facts.error = std::string("the port cannot be queried: ") + std::strerror(port.status().sys_errno);
    return;
  }
  nic.open.port = *port;
  nic.facts.active = port->active;
  nic.facts.link = linkOf(*port);
  nic.facts.speed_mbps = static_cast<uint32_t>(std::max(port->speed_mbps, 0));
  nic.facts.mtu_bytes = mtuBytes(port->mtu);
  nic.facts.lid = port->lid;
  readGids(nic, config);
  readEce(nic, config);
}

void readPlace(FoundNic& nic, const ibv_device* device, const sysfs::FileTree& tree) {
  const verbs::PciPlace place = verbs::pciPlace(device);
  nic.path = place.path;
  nic.facts.software = place.software || verbs::library().pci_path != nullptr;
  if (const sysfs::PciLink link = sysfs::narrowestLink(tree, place.path); link.known()) {
    nic.facts.pcie_mbps = link.mbps();
    nic.facts.pcie = link.text();
  }
  const std::string numa = sysfs::firstLine(tree, place.path + "/numa_node");
  nic.facts.numa = numa.empty() || numa[0] == '-' ? -1 : std::atoi(numa.c_str());
}

FoundNic openPort(ibv_device* device, uint8_t port, const Config& config, const sysfs::FileTree& tree) {
  FoundNic nic;
  nic.facts.device = verbs::library().get_device_name(device);
  nic.facts.port = port;
  readPlace(nic, device, tree);
  int error = 0;
  nic.open.context.reset(verbs::makeOrExplain([&] { return verbs::library().open_device(device); }, error));
  if (nic.open.context == nullptr) {
    nic.facts.error = std::string("the device cannot be opened: ") + std::strerror(error);
    return nic;
  }
  nic.open.pd.reset(
      verbs::makeOrExplain([&] { return verbs::library().alloc_pd(nic.open.context.get()); }, error));
  if (nic.open.pd == nullptr)
    nic.facts.error = std::string("no protection domain can be made: ") + std::strerror(error);
  else readPort(nic, config);
  return nic;
}

int portsOf(const FoundNic& first) {
  ibv_device_attr attributes = {};
  if (first.open.context == nullptr ||
      verbs::library().query_device(first.open.context.get(), &attributes) != 0)
    return 1;
  return std::max<int>(attributes.phys_port_cnt, 1);
}

void openPorts(ibv_device* device, const Config& config, const sysfs::FileTree& tree,
               std::vector<FoundNic>& found) {
  const PortSelection selection = parsePortSelection(config.ib_hca).value_or(PortSelection());
  const std::string name = verbs::library().get_device_name(device);
  FoundNic first = openPort(device, 1, config, tree);
  const int ports = portsOf(first);
  if (choosePort(selection, name, 1).selected) found.push_back(std::move(first));
  for (int port = 2; port <= ports; ++port) {
    if (choosePort(selection, name, port).selected)
      found.push_back(openPort(device, static_cast<uint8_t>(port), config, tree));
  }
}

// By PCI address, as NCCL numbers them; devices without an address come last.
bool before(const FoundNic& a, const FoundNic& b) {
  const int64_t first = sysfs::pciOrder(a.path);
  const int64_t second = sysfs::pciOrder(b.path);
  if (first < 0 || second < 0) return first >= 0 && second < 0;
  return first < second;
}

std::string noDevice(const Config& config, int devices) {
  if (devices > 0)
    return "none of the " + std::to_string(devices) + " RDMA devices is chosen by '" + config.ib_hca +
           "' (--nic, NCCL_IB_HCA)";
  return std::string("no RDMA device (") + verbs::library().name +
         " lists none): ls /sys/class/infiniband; is the driver loaded, and does the container have "
         "/dev/infiniband?";
}

// Gives every NIC the driver of its GPU, or none of them.
void useGpus(OpenEnd& end) {
  auto driver = GpuDriver::open();
  std::string problem = driver.ok() ? "" : driver.error();
  for (const OpenNic& nic : end.nics) {
    if (problem.empty() && nic.gpu.empty()) problem = "/sys lists no GPU";
  }
  if (problem.empty()) {
    end.driver = std::move(*driver);
    end.facts.memory = "the GPU nearest to each NIC";
  } else {
    end.facts.hidden.push_back("GPU memory: " + problem);
  }
  for (OpenNic& nic : end.nics) {
    nic.driver = end.driver.get();
    if (nic.driver == nullptr) nic.gpu.clear();
  }
}

}  // namespace

Outcome<std::unique_ptr<GpuDriver>> GpuDriver::open() {
  // A driver that is unloaded while its threads run would crash.
  auto library = DynamicLibrary::open({"libcuda.so.1"}, DynamicLibrary::Unload::kNever);
  if (!library.ok()) return Error{"no libcuda.so.1"};
  auto gpus = std::make_unique<CudaGpus>(std::move(*library));
  if (!gpus->driver().complete()) return Error{"libcuda.so.1 lacks functions of CUDA 11"};
  if (const CuResult result = gpus->driver().init(0); result != 0)
    return Error{"libcuda.so.1: cuInit: " + gpus->driver().nameOf(result)};
  return std::unique_ptr<GpuDriver>(std::move(gpus));
}

Config measuringConfig(Config config) {
  config.ib_timeout = kAcknowledgeTimeout;
  config.ib_retry_count = kRetries;
  return config;
}

OpenEnd openEnd(Config config, const sysfs::FileTree& tree, std::string host, bool gpu) {
  OpenEnd end;
  end.facts.host = std::move(host);
  end.config = measuringConfig(std::move(config));
  int count = 0;
  ibv_device** const list = verbs::library().get_device_list(&count);
  std::vector<FoundNic> found;
  for (int i = 0; i < count; ++i) openPorts(list[i], end.config, tree, found);
  if (list != nullptr) verbs::library().free_device_list(list);
  std::ranges::stable_sort(found, before);
  if (found.size() > kMaxNics) {
    end.facts.hidden.push_back("more than " + std::to_string(kMaxNics) + " ports: --nic chooses");
    found.resize(kMaxNics);
  }
  if (found.empty()) end.facts.failure = noDevice(end.config, count);
  for (FoundNic& nic : found) {
    if (gpu) nic.open.gpu = sysfs::nearestGpu(tree, nic.path);
    nic.open.numa = nic.facts.numa;
    end.facts.nics.push_back(std::move(nic.facts));
    end.nics.push_back(std::move(nic.open));
  }
  if (gpu) useGpus(end);
  return end;
}

}  // namespace railwise::doctor::pair
