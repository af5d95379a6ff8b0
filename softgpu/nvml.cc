// libnvidia-ml.so.1: what NCCL asks NVML about the GPUs of the machine, all of them, whatever CUDA shows.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "description.h"
#include "nvml_api.h"

#define NVML_FUNCTION extern "C" __attribute__((visibility("default")))

namespace softgpu {
namespace {

std::atomic<int> initialized = 0;

// A handle is the number of the GPU plus 1.
nvmlDevice_t toHandle(size_t index) { return reinterpret_cast<nvmlDevice_t>(index + 1); }

// Null: no such device.
const GpuDescription* find(nvmlDevice_t handle) {
  const auto number = reinterpret_cast<size_t>(handle);
  const auto& gpus = describedGpus();
  return number >= 1 && number <= gpus.size() ? &gpus[number - 1] : nullptr;
}

nvmlReturn_t check(nvmlDevice_t handle, const void* out, const GpuDescription** gpu) {
  if (initialized == 0) return NVML_ERROR_UNINITIALIZED;
  *gpu = find(handle);
  return *gpu != nullptr && out != nullptr ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

// A device that the host does not see has a name that is no PCI address.
nvmlPciInfo_t describeAddress(const std::string& bus_id, unsigned part_id) {
  nvmlPciInfo_t info = {};
  GpuDescription device;
  device.bus_id = normalBusId(bus_id);
  if (device.bus_id.empty()) {
    std::snprintf(info.busId, sizeof info.busId, "%s", bus_id.c_str());
    std::snprintf(info.busIdLegacy, sizeof info.busIdLegacy, "%s", bus_id.c_str());
    return info;
  }
  info.domain = device.pciDomain();
  info.bus = device.pciBus();
  info.device = device.pciSlot();
  info.pciDeviceId = part_id << 16 | 0x10de;  // above NVIDIA's vendor id
  std::snprintf(info.busId, sizeof info.busId, "%08X:%02X:%02X.0", info.domain, info.bus, info.device);
  std::snprintf(info.busIdLegacy, sizeof info.busIdLegacy, "%04X:%02X:%02X.0", info.domain & 0xffffU,
                info.bus & 0xffU, info.device & 0xffU);
  return info;
}

bool hasSwitch(const GpuDescription& gpu) {
  return std::any_of(gpu.nvlinks.begin(), gpu.nvlinks.end(),
                     [](const NvLink& link) { return link.to_switch; });
}

// By an NVLink, or through NVSwitches.
bool linked(const GpuDescription& gpu, const GpuDescription& peer) {
  return (hasSwitch(gpu) && hasSwitch(peer)) ||
         std::any_of(gpu.nvlinks.begin(), gpu.nvlinks.end(),
                     [&](const NvLink& link) { return link.peer_bus_id == peer.bus_id; });
}

nvmlReturn_t fieldValue(const GpuDescription& gpu, nvmlFieldValue_t& field) {
  unsigned value = 0;
  switch (field.fieldId) {
    case NVML_FI_DEV_NVLINK_LINK_COUNT:
      value = static_cast<unsigned>(gpu.nvlinks.size());
      break;
    case NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT:
      for (const NvLink& link : gpu.nvlinks) value += link.to_switch ? 1 : 0;
      break;
    case NVML_FI_DEV_NVLINK_GET_STATE:
      value = field.scopeId < gpu.nvlinks.size() ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
      break;
    case NVML_FI_DEV_C2C_LINK_COUNT:  // no GPU is joined to its CPU
      break;
    default:
      return NVML_ERROR_NOT_SUPPORTED;
  }
  field.valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
  field.value.uiVal = value;
  return NVML_SUCCESS;
}

// A number in a file that the kernel has for the GPU; `otherwise` where it has none.
double systemNumber(const GpuDescription& gpu, const char* file_name, double otherwise) {
  const std::string path = "/sys/bus/pci/devices/" + gpu.bus_id + "/" + file_name;
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return otherwise;
  double number = 0;
  const bool read = std::fscanf(file, "%lf", &number) == 1;
  std::fclose(file);
  return read ? number : otherwise;
}

// The vendor is below the device.
unsigned subsystem(const GpuDescription& gpu) {
  return static_cast<unsigned>(systemNumber(gpu, "subsystem_device", 0)) << 16 |
         static_cast<unsigned>(systemNumber(gpu, "subsystem_vendor", 0));
}

unsigned pcieGeneration(double gigatransfers) {
  unsigned generation = 1;
  for (const double since : {5., 8., 16., 32., 64.}) generation += gigatransfers >= since ? 1 : 0;
  return generation;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

NVML_FUNCTION nvmlReturn_t nvmlInit_v2() {
  ++initialized;
  return NVML_SUCCESS;
}

NVML_FUNCTION nvmlReturn_t nvmlInit() { return nvmlInit_v2(); }

NVML_FUNCTION nvmlReturn_t nvmlShutdown() {
  if (initialized == 0) return NVML_ERROR_UNINITIALIZED;
  --initialized;
  return NVML_SUCCESS;
}

NVML_FUNCTION const char* nvmlErrorString(nvmlReturn_t error) {
  switch (error) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return "Argument version mismatch";
    default:
      return "Unknown Error";
  }
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  if (initialized == 0) return NVML_ERROR_UNINITIALIZED;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned>(describedGpus().size());
  return NVML_SUCCESS;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetCount(unsigned int* count) { return nvmlDeviceGetCount_v2(count); }

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  if (initialized == 0) return NVML_ERROR_UNINITIALIZED;
  if (device == nullptr || index >= describedGpus().size()) return NVML_ERROR_INVALID_ARGUMENT;
  *device = toHandle(index);
  return NVML_SUCCESS;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  if (initialized == 0) return NVML_ERROR_UNINITIALIZED;
  const std::string wanted = bus_id != nullptr ? normalBusId(bus_id) : "";
  if (device == nullptr || wanted.empty()) return NVML_ERROR_INVALID_ARGUMENT;
  const auto& gpus = describedGpus();
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].bus_id != wanted) continue;
    *device = toHandle(i);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, index, &gpu);
  if (error == NVML_SUCCESS) *index = static_cast<unsigned>(gpu - describedGpus().data());
  return error;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int bytes) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, name, &gpu);
  if (error == NVML_SUCCESS) std::snprintf(name, bytes, "%s", gpu->name.c_str());
  return error;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, major != nullptr ? minor : nullptr, &gpu);
  if (error != NVML_SUCCESS) return error;
  *major = gpu->sm / 10;
  *minor = gpu->sm % 10;
  return NVML_SUCCESS;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* info) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, info, &gpu);
  if (error != NVML_SUCCESS) return error;
  *info = describeAddress(gpu->bus_id, gpu->part_id);
  info->pciSubSystemId = subsystem(*gpu);
  return NVML_SUCCESS;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t* info) {
  nvmlPciInfo_t plain;
  const nvmlReturn_t error = nvmlDeviceGetPciInfo_v3(device, info != nullptr ? &plain : nullptr);
  if (error != NVML_SUCCESS) return error;
  if (info->version != nvmlVersion<nvmlPciInfoExt_v1_t>(1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  info->domain = plain.domain;
  info->bus = plain.bus;
  info->device = plain.device;
  info->pciDeviceId = plain.pciDeviceId;
  info->pciSubSystemId = plain.pciSubSystemId;
  info->baseClass = 3;  // a display controller
  info->subClass = 2;   // for 3D
  std::memcpy(info->busId, plain.busId, sizeof info->busId);
  return NVML_SUCCESS;
}

// A GPU that is in no /sys has the link that NCCL takes where NVML cannot tell.
NVML_FUNCTION nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device,
                                                               unsigned int* generation) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, generation, &gpu);
  if (error == NVML_SUCCESS) *generation = pcieGeneration(systemNumber(*gpu, "current_link_speed", 16));
  return error;
}

// NVML's numbers for speeds are those of the generations that have them.
NVML_FUNCTION nvmlReturn_t nvmlDeviceGetPcieLinkMaxSpeed(nvmlDevice_t device, unsigned int* speed) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, speed, &gpu);
  if (error == NVML_SUCCESS) *speed = pcieGeneration(systemNumber(*gpu, "max_link_speed", 16));
  return error;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int* lanes) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, lanes, &gpu);
  if (error == NVML_SUCCESS) *lanes = static_cast<unsigned>(systemNumber(*gpu, "current_link_width", 16));
  return error;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                                    nvmlEnableState_t* state) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, state, &gpu);
  if (error != NVML_SUCCESS) return error;
  if (link >= gpu->nvlinks.size()) return NVML_ERROR_NOT_SUPPORTED;
  *state = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
                                                         nvmlNvLinkCapability_t capability,
                                                         unsigned int* value) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, value, &gpu);
  if (error != NVML_SUCCESS) return error;
  if (link >= gpu->nvlinks.size()) return NVML_ERROR_NOT_SUPPORTED;
  *value = capability == NVML_NVLINK_CAP_SLI_BRIDGE ? 0 : 1;
  return NVML_SUCCESS;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                               nvmlPciInfo_t* info) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, info, &gpu);
  if (error != NVML_SUCCESS) return error;
  if (link >= gpu->nvlinks.size()) return NVML_ERROR_NOT_SUPPORTED;
  const NvLink& one = gpu->nvlinks[link];
  *info = describeAddress(one.peer_bus_id,
                          one.to_switch ? 0x22a3 : gpu->part_id);  // an NVSwitch's, or a like GPU's
  return NVML_SUCCESS;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
                                                            nvmlPciInfo_v1_t* info) {
  nvmlPciInfo_t all;
  const nvmlReturn_t error =
      nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, info != nullptr ? &all : nullptr);
  if (error != NVML_SUCCESS) return error;
  *info = {};
  std::memcpy(info->busId, all.busIdLegacy, sizeof info->busId);
  info->domain = all.domain;
  info->bus = all.bus;
  info->device = all.device;
  info->pciDeviceId = all.pciDeviceId;
  return NVML_SUCCESS;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                               nvmlIntNvLinkDeviceType_t* type) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, type, &gpu);
  if (error != NVML_SUCCESS) return error;
  if (link >= gpu->nvlinks.size()) return NVML_ERROR_NOT_SUPPORTED;
  *type = gpu->nvlinks[link].to_switch ? NVML_NVLINK_DEVICE_TYPE_SWITCH : NVML_NVLINK_DEVICE_TYPE_GPU;
  return NVML_SUCCESS;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer,
                                                  nvmlGpuP2PCapsIndex_t index, nvmlGpuP2PStatus_t* status) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, status, &gpu);
  if (error != NVML_SUCCESS) return error;
  if (find(peer) == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const bool there = index == NVML_P2P_CAPS_INDEX_READ || index == NVML_P2P_CAPS_INDEX_WRITE ||
                     (index == NVML_P2P_CAPS_INDEX_NVLINK && linked(*gpu, *find(peer)));
  *status = there ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
  return NVML_SUCCESS;
}

NVML_FUNCTION nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                                    nvmlFieldValue_t* values) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, values, &gpu);
  if (error != NVML_SUCCESS) return error;
  for (int i = 0; i < count; ++i) values[i].nvmlReturn = fieldValue(*gpu, values[i]);
  return NVML_SUCCESS;
}

// ECC is on, and the memory has no errors.
NVML_FUNCTION nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t,
                                                           nvmlEccCounterType_t, nvmlMemoryLocation_t,
                                                           unsigned long long* count) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, count, &gpu);
  if (error == NVML_SUCCESS) *count = 0;
  return error;
}

// From Hopper on, the fabric manager of a host registers every GPU behind NVSwitches. Without NVLink between
// hosts the cluster's UUID is zero, from which NCCL concludes that there is no MNNVL.
NVML_FUNCTION nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t* info) {
  const GpuDescription* gpu;
  const nvmlReturn_t error = check(device, info, &gpu);
  if (error != NVML_SUCCESS) return error;
  if (info->version != nvmlVersion<nvmlGpuFabricInfo_v2_t>(2)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  const bool registered = gpu->sm >= 90 && hasSwitch(*gpu);
  *info = {.version = info->version,
           .clusterUuid = {},
           .status = NVML_SUCCESS,
           .cliqueId = 0,
           .state = static_cast<unsigned char>(registered ? NVML_GPU_FABRIC_STATE_COMPLETED
                                                          : NVML_GPU_FABRIC_STATE_NOT_SUPPORTED),
           .healthMask = 0};
  return NVML_SUCCESS;
}

// NVML knows the place of a GPU in its rack from Blackwell on. No machine of ours describes a rack.
NVML_FUNCTION nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t, nvmlPlatformInfo_v2_t*) {
  return NVML_ERROR_NOT_SUPPORTED;
}

// No GPU computes confidentially.
NVML_FUNCTION nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t* state) {
  if (initialized == 0) return NVML_ERROR_UNINITIALIZED;
  if (state == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *state = {};
  return NVML_SUCCESS;
}

NVML_FUNCTION nvmlReturn_t nvmlSystemGetConfComputeSettings(nvmlSystemConfComputeSettings_v1_t* settings) {
  if (initialized == 0) return NVML_ERROR_UNINITIALIZED;
  if (settings == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (settings->version != nvmlVersion<nvmlSystemConfComputeSettings_v1_t>(1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  *settings = {
      .version = settings->version, .environment = 0, .ccFeature = 0, .devToolsMode = 0, .multiGpuMode = 0};
  return NVML_SUCCESS;
}
