// NVIDIA's GPUs from NVML (libnvidia-ml.so.1). Constants and layouts as in NVIDIA's nvml.h. Only the calls
// that find the GPUs must be there: any other may be missing in an older library, or fail for a GPU, and what
// it tells is then unknown.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/pci.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "gpu/vendor.h"

namespace railwise::gpu {
namespace {

using NvmlReturn = int;  // an enum in C
using NvmlDevice = struct NvmlDeviceHandle*;

constexpr NvmlReturn kNvmlSuccess = 0;
constexpr NvmlReturn kNvmlInvalidArgument = 2;
constexpr NvmlReturn kNvmlInsufficientSize = 7;
constexpr NvmlReturn kNvmlDriverNotLoaded = 9;

constexpr unsigned kNvmlMaxLinks = 36;  // NVML_NVLINK_MAX_LINKS; 18 before NVLink 6
constexpr unsigned kNvmlMaxMig = 64;
constexpr unsigned kNvmlMaxProcesses = 1u << 20;
constexpr double kNvmlMaxLinkMbps = 1e7;  // 10 TB/s over one link is a mistake

// nvmlIntNvLinkDeviceType_t
constexpr int kNvmlRemoteGpu = 0;
constexpr int kNvmlRemoteSwitch = 2;
constexpr int kNvmlRemoteUnknown = 0xff;

// NVML_FI_DEV_NVLINK_...
constexpr unsigned kNvmlFieldSpeedLink0 = 84;   // SPEED_MBPS_L0, to L5
constexpr unsigned kNvmlFieldSpeedCommon = 90;  // SPEED_MBPS_COMMON
constexpr unsigned kNvmlFieldSpeed = 164;       // GET_SPEED: of the link in scopeId
constexpr unsigned kNvmlFieldC2cCount = 170;    // C2C_LINK_COUNT
constexpr unsigned kNvmlFieldC2cStatus = 171;   // C2C_LINK_GET_STATUS: of the link in scopeId
constexpr unsigned kNvmlFieldC2cMbps = 172;     // C2C_LINK_GET_MAX_BW
constexpr std::array<unsigned, 4> kNvmlFieldErrorTotals = {38, 45, 52,
                                                           59};  // CRC flit, CRC data, replay, recovery

// nvmlClocksEventReason...: those that mean slower than the load asks for. Idle GPUs, and clocks that a
// person has set, are not throttled.
struct NvmlThrottle {
  uint64_t bit;
  const char* text;
};
constexpr NvmlThrottle kNvmlThrottles[] = {{0x40, "thermal (hardware)"},
                                           {0x20, "thermal (software)"},
                                           {0x80, "power brake"},
                                           {0x08, "hardware slowdown"},
                                           {0x04, "power cap"}};

struct NvmlPci {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(NvmlPci) == 68);

struct NvmlMemory {
  unsigned long long total, free, used;
};
static_assert(sizeof(NvmlMemory) == 24);

struct NvmlUtilisation {
  unsigned gpu, memory;
};
static_assert(sizeof(NvmlUtilisation) == 8);

struct NvmlFieldValue {
  unsigned field_id, scope_id;
  long long timestamp, latency_us;
  int value_type;
  NvmlReturn result;
  unsigned char value[8];
};
static_assert(sizeof(NvmlFieldValue) == 40);

struct NvmlAttributes {
  unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
  unsigned long long memory_mib;
};
static_assert(sizeof(NvmlAttributes) == 40);

struct NvmlFabric {  // nvmlGpuFabricInfo_t
  unsigned char cluster[16];
  NvmlReturn status;
  unsigned clique;
  unsigned char state;
};
static_assert(sizeof(NvmlFabric) == 28);

struct NvmlFabricV2 {  // nvmlGpuFabricInfo_v2_t
  unsigned version;
  unsigned char cluster[16];
  NvmlReturn status;
  unsigned clique;
  unsigned char state;
  unsigned health_mask;
};
static_assert(sizeof(NvmlFabricV2) == 36);
constexpr unsigned kNvmlFabricV2 = sizeof(NvmlFabricV2) | 2u << 24;

template <typename... Arguments>
using NvmlCall = NvmlReturn(Arguments...);

// Null: the library lacks the function.
struct NvmlApi {
  const DynamicLibrary& library;
  NvmlCall<>* init = library["nvmlInit_v2"];
  NvmlCall<unsigned*>* count = library["nvmlDeviceGetCount_v2"];
  NvmlCall<unsigned, NvmlDevice*>* handle = library["nvmlDeviceGetHandleByIndex_v2"];
  NvmlCall<char*, unsigned>* driver = library["nvmlSystemGetDriverVersion"];
  NvmlCall<NvmlDevice, char*, unsigned>* name = library["nvmlDeviceGetName"];
  NvmlCall<NvmlDevice, char*, unsigned>* uuid = library["nvmlDeviceGetUUID"];
  NvmlCall<NvmlDevice, char*, unsigned>* vbios = library["nvmlDeviceGetVbiosVersion"];
  NvmlCall<NvmlDevice, NvmlMemory*>* memory = library["nvmlDeviceGetMemoryInfo"];
  NvmlCall<NvmlDevice, int*, int*>* capability = library["nvmlDeviceGetCudaComputeCapability"];
  NvmlCall<NvmlDevice, NvmlPci*>* pci = library["nvmlDeviceGetPciInfo_v3"];
  NvmlCall<NvmlDevice, unsigned*>* numa = library["nvmlDeviceGetNumaNodeId"];
  NvmlCall<NvmlDevice, unsigned, unsigned long*, unsigned>* memory_affinity =
      library["nvmlDeviceGetMemoryAffinity"];
  NvmlCall<NvmlDevice, unsigned, int*>* link_state = library["nvmlDeviceGetNvLinkState"];
  NvmlCall<NvmlDevice, unsigned, unsigned*>* link_version = library["nvmlDeviceGetNvLinkVersion"];
  NvmlCall<NvmlDevice, unsigned, NvmlPci*>* link_remote_pci = library["nvmlDeviceGetNvLinkRemotePciInfo_v2"];
  NvmlCall<NvmlDevice, unsigned, int*>* link_remote_type = library["nvmlDeviceGetNvLinkRemoteDeviceType"];
  NvmlCall<NvmlDevice, unsigned, int, unsigned long long*>* link_errors =
      library["nvmlDeviceGetNvLinkErrorCounter"];
  NvmlCall<NvmlDevice, int, NvmlFieldValue*>* fields = library["nvmlDeviceGetFieldValues"];
  NvmlCall<NvmlDevice, NvmlFabric*>* fabric = library["nvmlDeviceGetGpuFabricInfo"];
  NvmlCall<NvmlDevice, NvmlFabricV2*>* fabric_v2 = library["nvmlDeviceGetGpuFabricInfoV"];
  NvmlCall<NvmlDevice, unsigned*, unsigned*>* mig_mode = library["nvmlDeviceGetMigMode"];
  NvmlCall<NvmlDevice, unsigned*>* mig_count = library["nvmlDeviceGetMaxMigDeviceCount"];
  NvmlCall<NvmlDevice, unsigned, NvmlDevice*>* mig_handle = library["nvmlDeviceGetMigDeviceHandleByIndex"];
  NvmlCall<NvmlDevice, NvmlAttributes*>* attributes = library["nvmlDeviceGetAttributes_v2"];
  NvmlCall<NvmlDevice, int, int, unsigned long long*>* ecc = library["nvmlDeviceGetTotalEccErrors"];
  NvmlCall<NvmlDevice, unsigned long long*>* throttle = library["nvmlDeviceGetCurrentClocksThrottleReasons"];
  NvmlCall<NvmlDevice, NvmlUtilisation*>* utilisation = library["nvmlDeviceGetUtilizationRates"];
  NvmlCall<NvmlDevice, unsigned*, void*>* processes = library["nvmlDeviceGetComputeRunningProcesses_v3"];
  NvmlCall<NvmlDevice, NvmlDevice, int, int*>* p2p = library["nvmlDeviceGetP2PStatus"];
  const char* (*error_text)(NvmlReturn) = library["nvmlErrorString"];
};

// The number in a field value (nvmlValue_t, by nvmlValueType_t). None: a type that cannot be.
std::optional<double> nvmlNumber(const NvmlFieldValue& field) {
  const auto as = [&field](auto value) {
    std::memcpy(&value, field.value, sizeof value);
    return static_cast<double>(value);
  };
  switch (field.value_type) {
    case 0:
      return as(double{});
    case 1:
      return as(unsigned{});
    case 2:
      return as((unsigned long){});
    case 3:
      return as((unsigned long long){});
    case 4:
      return as((long long){});
    case 5:
      return as(int{});
    case 6:
      return as((unsigned short){});
    default:
      return std::nullopt;
  }
}

// The generation in nvmlNvlinkVersion_t: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0, 6.0. 0: unknown.
int nvlinkGeneration(unsigned version) {
  constexpr int kGenerations[] = {0, 1, 2, 2, 3, 3, 4, 5, 6};
  return version < std::size(kGenerations) ? kGenerations[version] : 0;
}

const char* nvmlPeerReason(int status) {
  constexpr const char* kReasons[] = {"unknown",
                                      "chipset not supported",
                                      "GPU not supported",
                                      "IOH topology not supported",
                                      "disabled by registry key",
                                      "not supported"};
  return kReasons[status >= 0 && status < static_cast<int>(std::size(kReasons)) ? status : 0];
}

class NvmlReader {
 public:
  NvmlReader(const NvmlApi& api, const std::string& library, GpuTopology& topology)
      : api_(api), library_(library), topology_(topology) {}

  Outcome<void> read() {
    if (api_.init == nullptr || api_.count == nullptr || api_.handle == nullptr)
      return Error{library_ +
                   " lacks nvmlInit_v2, nvmlDeviceGetCount_v2 or nvmlDeviceGetHandleByIndex_v2: it is too "
                   "old, or not NVML"};
    if (const NvmlReturn result = api_.init(); result != kNvmlSuccess)
      return Error{library_ + " is installed but does not start: " + errorText(result) +
                   (result == kNvmlDriverNotLoaded ? "" : ". Try nvidia-smi")};
    unsigned count = 0;
    if (const NvmlReturn result = api_.count(&count); result != kNvmlSuccess)
      return Error{library_ + " does not tell how many GPUs there are: " + errorText(result)};
    if (count > kMaxDevices) {
      remark(library_ + " speaks of " + std::to_string(count) + " GPUs: the first " +
             std::to_string(kMaxDevices) + " are asked");
      count = kMaxDevices;
    }
    std::string driver;
    if (char text[80] = ""; answers(api_.driver, text, unsigned{sizeof text}))
      driver = bufferText(text, sizeof text, "the driver's version", topology_);
    for (unsigned i = 0; i < count; ++i) {
      NvmlDevice handle = nullptr;
      if (const NvmlReturn result = api_.handle(i, &handle); result != kNvmlSuccess) {
        remark(library_ + " cannot open GPU " + std::to_string(i) + ": " + errorText(result));
        continue;
      }
      addWhole(handle, static_cast<int>(i), driver);
    }
    // When all whole GPUs are known, since links and peers lead from one to another.
    const std::size_t whole = topology_.gpus.size();
    for (std::size_t i = 0; i < whole; ++i) readLinks(topology_.gpus[i], handles_[i]);
    readPeers();
    for (std::size_t i = 0; i < whole; ++i) addMig(static_cast<int>(i));
    return {};
  }

 private:
  void remark(std::string text) { topology_.remarks.push_back(std::move(text)); }

  std::string errorText(NvmlReturn result) const {
    const char* text = api_.error_text != nullptr ? api_.error_text(result) : nullptr;
    return (text != nullptr ? std::string(text, strnlen(text, 200)) : "error") + " (" +
           std::to_string(result) + ")";
  }

  static std::string gpu(const Device& device) { return "NVIDIA GPU " + std::to_string(device.vendor_index); }

  void addWhole(NvmlDevice handle, int vendor_index, const std::string& driver) {
    Device device;
    device.index = static_cast<int>(topology_.gpus.size());
    device.vendor_index = vendor_index;
    device.driver = driver;
    readNames(device, handle);
    readPlace(device, handle);
    readFabric(device, handle);
    readLoad(device, handle);
    readHealth(device, handle);
    unsigned current = 0;
    unsigned pending = 0;
    device.partitioned = answers(api_.mig_mode, handle, &current, &pending) && current == 1;
    topology_.gpus.push_back(std::move(device));
    handles_.push_back(handle);
  }

  // What a whole GPU and a MIG instance have.
  void readNames(Device& device, NvmlDevice handle) {
    device.vendor = Vendor::kNvidia;
    if (char text[96] = ""; answers(api_.name, handle, text, unsigned{sizeof text}))
      device.model = bufferText(text, sizeof text, "the name of " + gpu(device), topology_);
    if (char text[96] = ""; answers(api_.uuid, handle, text, unsigned{sizeof text}))
      device.uuid = bufferText(text, sizeof text, "the UUID of " + gpu(device), topology_);
    if (char text[32] = ""; answers(api_.vbios, handle, text, unsigned{sizeof text}))
      device.firmware = bufferText(text, sizeof text, "the VBIOS version of " + gpu(device), topology_);
    int major = 0;
    int minor = 0;
    if (answers(api_.capability, handle, &major, &minor) && major > 0 && major < 100 && minor >= 0 &&
        minor < 10) {
      device.architecture = std::to_string(major) + "." + std::to_string(minor);
      device.sm = major * 10 + minor;
    }
    if (NvmlMemory memory = {}; answers(api_.memory, handle, &memory)) {
      device.memory_bytes = memory.total;
      device.memory_used_bytes = memory.used;
    }
  }

  void readPlace(Device& device, NvmlDevice handle) {
    if (NvmlPci pci = {}; answers(api_.pci, handle, &pci))
      device.busid = busId(pci, "the PCI address of " + gpu(device));
    // nvmlDeviceGetNumaNodeId tells of GPUs that are NUMA nodes themselves (Grace), whose memory node is not
    // the processor's. So the node of the nearest memory comes first.
    unsigned long nodes[16] = {};
    constexpr unsigned kWithinNode = 0;  // NVML_AFFINITY_SCOPE_NODE
    if (answers(api_.memory_affinity, handle, unsigned{std::size(nodes)}, nodes, kWithinNode)) {
      constexpr int kBits = 8 * sizeof nodes[0];
      for (int node = 0; node < static_cast<int>(std::size(nodes)) * kBits && device.numa < 0; ++node)
        if ((nodes[node / kBits] >> (node % kBits) & 1) != 0) device.numa = node;
    }
    if (unsigned node = 0; device.numa < 0 && answers(api_.numa, handle, &node) && node < 65536)
      device.numa = static_cast<int>(node);
  }

  // "0000:0f:00.0"; empty when the library does not know the address, which it then fills with ones.
  std::string busId(const NvmlPci& pci, const std::string& what) {
    std::string text = lowerCase(bufferText(pci.bus_id, sizeof pci.bus_id, what, topology_));
    // NVML writes eight digits of domain. Every machine so far needs four.
    if (text.size() == kBusIdLength + 4 && text.starts_with("0000")) text.erase(0, 4);
    const bool known = text.size() >= kBusIdLength &&
                       text.find_first_not_of("0123456789abcdef:.") == std::string::npos &&
                       !text.starts_with("ffffffff") && text.find_first_not_of("0:.") != std::string::npos;
    return known ? text : "";
  }

  void readFabric(Device& device, NvmlDevice handle) {
    NvmlFabricV2 info = {};
    info.version = kNvmlFabricV2;
    if (!answers(api_.fabric_v2, handle, &info)) {
      NvmlFabric old = {};
      if (!answers(api_.fabric, handle, &old)) return;
      std::memcpy(info.cluster, old.cluster, sizeof info.cluster);
      info.status = old.status;
      info.clique = old.clique;
      info.state = old.state;
    }
    constexpr const char* kStates[] = {"", "not started", "in progress", "completed"};
    if (info.state == 0 || info.state >= std::size(kStates)) return;
    device.fabric_state = kStates[info.state];
    if (info.state != 3) return;
    if (info.status != kNvmlSuccess) {
      device.fabric_state = "failed";
      remark(gpu(device) + " could not join its NVLink fabric: " + errorText(info.status) +
             ". See the fabric manager (or IMEX and NMX) of the machine");
      return;
    }
    // A domain within one host (NVSwitches of a DGX H100) has no cluster, only zeros.
    if (std::all_of(std::begin(info.cluster), std::end(info.cluster),
                    [](unsigned char byte) { return byte == 0; }))
      return;
    for (std::size_t i = 0; i < sizeof info.cluster; ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) device.fabric_cluster += '-';
      device.fabric_cluster += formatText("%02x", info.cluster[i]);
    }
    device.fabric_clique = info.clique <= INT32_MAX ? static_cast<int>(info.clique) : -1;
  }

  void readLoad(Device& device, NvmlDevice handle) {
    if (NvmlUtilisation load = {}; answers(api_.utilisation, handle, &load) && load.gpu <= 100)
      device.utilisation_percent = static_cast<int>(load.gpu);
    // Without room for processes it tells their number alone.
    unsigned count = 0;
    if (api_.processes == nullptr) return;
    const NvmlReturn result = api_.processes(handle, &count, nullptr);
    if ((result == kNvmlSuccess || result == kNvmlInsufficientSize) && count <= kNvmlMaxProcesses)
      device.processes = static_cast<int>(count);
  }

  void readHealth(Device& device, NvmlDevice handle) {
    constexpr int kUncorrected = 1;  // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    constexpr int kVolatile = 0;     // NVML_VOLATILE_ECC: since the driver was loaded
    if (unsigned long long errors = 0; answers(api_.ecc, handle, kUncorrected, kVolatile, &errors))
      device.health.ecc_uncorrected = errors;
    unsigned long long reasons = 0;
    if (!answers(api_.throttle, handle, &reasons)) return;
    device.health.throttled = false;
    for (const NvmlThrottle& throttle : kNvmlThrottles) {
      if ((reasons & throttle.bit) == 0) continue;
      device.health.throttled = true;
      if (!device.health.throttle_reason.empty()) device.health.throttle_reason += ", ";
      device.health.throttle_reason += throttle.text;
    }
  }

  // MB/s of one link, one direction, as the library reports it. 0: it does not.
  double linkMbps(NvmlDevice handle, unsigned link) const {
    // The fields of single links end at link 5, just before that of all links.
    const unsigned own = link <= 5 ? kNvmlFieldSpeedLink0 + link : kNvmlFieldSpeedCommon;
    for (const unsigned field : {kNvmlFieldSpeed, own, kNvmlFieldSpeedCommon}) {
      const std::optional<double> mbps = fieldNumber(handle, field, link);
      if (mbps && *mbps > 0 && *mbps <= kNvmlMaxLinkMbps) return *mbps;
    }
    return 0;
  }

  std::optional<double> fieldNumber(NvmlDevice handle, unsigned id, unsigned scope) const {
    NvmlFieldValue field = {};
    field.field_id = id;
    field.scope_id = scope;
    field.result = -1;
    if (!answers(api_.fields, handle, 1, &field) || field.result != kNvmlSuccess) return std::nullopt;
    return nvmlNumber(field);
  }

  void readLinks(Device& device, NvmlDevice handle) {
    struct Bundle {
      int type;             // of the other end
      std::string address;  // of the other end
      Link link;
      bool all_rates = true;
    };
    std::vector<Bundle> bundles;  // in the order of their first links, as NCCL lists them
    std::optional<uint64_t> errors;
    for (unsigned i = 0; i < kNvmlMaxLinks && api_.link_state != nullptr; ++i) {
      int active = 0;
      const NvmlReturn result = api_.link_state(handle, i, &active);
      if (result == kNvmlInvalidArgument) break;  // the GPU has no more links
      if (result != kNvmlSuccess || active != 1) continue;
      int type = kNvmlRemoteUnknown;
      if (!answers(api_.link_remote_type, handle, i, &type)) type = kNvmlRemoteUnknown;
      std::string address;
      if (NvmlPci pci = {}; answers(api_.link_remote_pci, handle, i, &pci))
        address = busId(pci, "the address of the other end of an NVLink of " + gpu(device));
      // A virtual machine that is given GPUs without their switches does not see the other end: only a switch
      // is kept from it. NCCL takes it so, too.
      if (type == kNvmlRemoteUnknown && address.empty()) type = kNvmlRemoteSwitch;
      auto known = std::find_if(bundles.begin(), bundles.end(), [&](const Bundle& one) {
        return one.type == type && one.address == address;
      });
      if (known == bundles.end()) known = bundles.insert(known, {type, address, {}});
      Bundle& bundle = *known;
      bundle.link.width += 1;
      const double mbps = linkMbps(handle, i);
      bundle.link.gb_per_s += mbps / 1000;
      bundle.all_rates = bundle.all_rates && mbps > 0;
      if (unsigned version = 0; answers(api_.link_version, handle, i, &version))
        bundle.link.version = nvlinkGeneration(version);
      addLinkErrors(handle, i, errors);
    }
    if (!bundles.empty() && !errors) errors = errorTotals(handle);
    device.health.link_errors = errors;
    for (Bundle& bundle : bundles)
      addLink(device, bundle.type, bundle.address, std::move(bundle.link), bundle.all_rates);
    addC2c(device, handle);
  }

  // NVLink-C2C, from a GPU to the CPU of its package (Grace), as NCCL finds it (ncclTopoGetXmlFromGpu).
  void addC2c(const Device& device, NvmlDevice handle) {
    const double count = fieldNumber(handle, kNvmlFieldC2cCount, 0).value_or(0);
    if (count < 1 || count > kNvmlMaxLinks) return;
    Link link;
    link.from = device.index;
    link.kind = LinkKind::kC2c;
    link.latency = LatencyClass::kPackage;
    for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
      if (fieldNumber(handle, kNvmlFieldC2cStatus, i).value_or(0) != 1) continue;
      const double mbps = fieldNumber(handle, kNvmlFieldC2cMbps, i).value_or(0);
      if (mbps <= 0 || mbps > kNvmlMaxLinkMbps) continue;
      link.width += 1;
      link.gb_per_s += mbps / 1000;
    }
    if (link.width > 0) topology_.links.push_back(std::move(link));
  }

  void addLinkErrors(NvmlDevice handle, unsigned link, std::optional<uint64_t>& errors) const {
    // nvmlNvLinkErrorCounter_t: replay, recovery, CRC of flits, CRC of data.
    for (int counter = 0; counter < 4; ++counter)
      if (unsigned long long value = 0; answers(api_.link_errors, handle, link, counter, &value))
        errors = errors.value_or(0) + value;
  }

  std::optional<uint64_t> errorTotals(NvmlDevice handle) const {
    std::optional<uint64_t> errors;
    for (const unsigned id : kNvmlFieldErrorTotals)
      if (const std::optional<double> value = fieldNumber(handle, id, 0);
          value && *value >= 0 && *value < 1e18)
        errors = errors.value_or(0) + static_cast<uint64_t>(*value);
    return errors;
  }

  void addLink(const Device& device, int type, const std::string& address, Link link, bool all_rates) {
    link.from = device.index;
    link.to_busid = address;
    const auto other = std::find_if(topology_.gpus.begin(), topology_.gpus.end(), [&](const Device& one) {
      return !address.empty() && one.busid == address;
    });
    if (other != topology_.gpus.end()) link.to = other->index;
    link.kind = type == kNvmlRemoteSwitch ? LinkKind::kNvswitch : LinkKind::kNvlink;
    link.latency = type == kNvmlRemoteSwitch ? LatencyClass::kSwitched : LatencyClass::kDirect;
    const std::string links = counted(link.width, "NVLink") + " of " + gpu(device);
    if (link.to == link.from) {
      remark(links + (link.width == 1 ? " is" : " are") + " said to lead to itself: left out");
      return;
    }
    const bool gpu_end = type == kNvmlRemoteGpu || type == kNvmlRemoteUnknown;
    if (gpu_end && link.to < 0)
      remark(links + " lead" + (link.width == 1 ? "s" : "") + " to " +
             (address.empty() ? "a GPU without an address" : address) +
             ", which the library does not list: a GPU that this container does not see, or a mistake of the "
             "library");
    if (!all_rates) {
      link.gb_per_s = 0;
      remark("the library does not tell how fast " + links + (address.empty() ? "" : " to " + address) +
             (link.width == 1 ? " is" : " are"));
    }
    topology_.links.push_back(std::move(link));
  }

  void readPeers() {
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      for (std::size_t k = 0; k < handles_.size(); ++k) {
        int read = 0;
        int write = 0;
        constexpr int kReads = 0;   // NVML_P2P_CAPS_INDEX_READ
        constexpr int kWrites = 1;  // NVML_P2P_CAPS_INDEX_WRITE
        if (i == k || !answers(api_.p2p, handles_[i], handles_[k], kReads, &read) ||
            !answers(api_.p2p, handles_[i], handles_[k], kWrites, &write))
          continue;
        PeerStatus peer;
        peer.from = static_cast<int>(i);
        peer.to = static_cast<int>(k);
        peer.allowed = read == 0 && write == 0;
        if (!peer.allowed) peer.reason = nvmlPeerReason(read != 0 ? read : write);
        topology_.peers.push_back(std::move(peer));
      }
    }
  }

  // The MIG instances of a whole GPU.
  void addMig(int parent) {
    if (!topology_.gpus[parent].partitioned || api_.mig_handle == nullptr) return;
    const NvmlDevice whole = handles_[parent];
    unsigned slots = 0;
    if (!answers(api_.mig_count, whole, &slots) || slots > kNvmlMaxMig) {
      remark("the library does not tell which MIG instances " + gpu(topology_.gpus[parent]) + " has");
      return;
    }
    for (unsigned slot = 0; slot < slots; ++slot) {
      NvmlDevice handle = nullptr;
      if (!answers(api_.mig_handle, whole, slot, &handle)) continue;  // an empty slot
      const Device& gpu_device = topology_.gpus[parent];
      Device device;
      device.index = static_cast<int>(topology_.gpus.size());
      device.vendor_index = gpu_device.vendor_index;
      device.parent = parent;
      device.partitioned = true;
      readNames(device, handle);
      readLoad(device, handle);
      NvmlAttributes attributes = {};
      const bool known = answers(api_.attributes, handle, &attributes);
      // "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
      if (const auto at = device.model.rfind(" MIG "); at != std::string::npos) {
        device.partition = device.model.substr(at + 1);
        device.model.resize(at);
      } else if (known) {
        device.partition = migName(attributes);
      } else {
        device.partition = "MIG";
      }
      if (known && device.memory_bytes == 0 && attributes.memory_mib < 1u << 30)
        device.memory_bytes = uint64_t{attributes.memory_mib} << 20;
      // A GPU has as many slices as it can have instances.
      if (known && attributes.compute_slices > 0 && attributes.compute_slices <= slots)
        device.share = static_cast<double>(attributes.compute_slices) / slots;
      // What an instance has in common with its GPU.
      if (device.model.empty()) device.model = gpu_device.model;
      if (device.sm == 0) device.sm = gpu_device.sm;
      if (device.architecture.empty()) device.architecture = gpu_device.architecture;
      if (device.firmware.empty()) device.firmware = gpu_device.firmware;
      device.busid = gpu_device.busid;
      device.numa = gpu_device.numa;
      device.driver = gpu_device.driver;
      device.health = gpu_device.health;
      topology_.gpus.push_back(std::move(device));
    }
  }

  // "MIG 3g.40gb", or "MIG 1c.3g.40gb" when the instance has one of three slices of computing.
  static std::string migName(const NvmlAttributes& attributes) {
    std::string name = "MIG ";
    if (attributes.compute_slices != attributes.gpu_slices)
      name += std::to_string(attributes.compute_slices) + "c.";
    return name + std::to_string(attributes.gpu_slices) + "g." +
           std::to_string((attributes.memory_mib + 512) / 1024) + "gb";
  }

  const NvmlApi& api_;
  const std::string& library_;
  GpuTopology& topology_;
  std::vector<NvmlDevice> handles_;  // of the whole GPUs, by index
};

}  // namespace

std::unique_ptr<GpuVendor> makeNvml(const Config& config) {
  return makeVendor(
      {.vendor = Vendor::kNvidia,
       .library = "libnvidia-ml.so.1",
       .program = "nvidia-smi",
       .names = {"libnvidia-ml.so.1"},
       .path = config.nvml_library,
       .read = [](const DynamicLibrary& opened, const std::string& library, bool, GpuTopology& topology) {
         NvmlApi api{opened};
         if (api.throttle == nullptr) api.throttle = opened["nvmlDeviceGetCurrentClocksEventReasons"];
         return NvmlReader(api, library, topology).read();
       }});
}

}  // namespace railwise::gpu
