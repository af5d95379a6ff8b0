#include "description.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "softdev/config/config.h"

namespace softgpu {
namespace {

constexpr size_t kMaxGpus = 32;             // NCCL's own limit for NVML devices
constexpr size_t kUsualBytes = 80UL << 30;  // of a data centre GPU

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Bytes that every GPU offers: SOFTGPU_MEMORY in MiB, or what an H100 has, but no more than half of the
// computer's memory, since programs size their buffers by it.
size_t memoryBytes() {
  const std::string told = variable("SOFTGPU_MEMORY");
  if (!told.empty()) return static_cast<size_t>(std::strtoull(told.c_str(), nullptr, 10)) << 20;
  const size_t real =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return std::min(kUsualBytes, real / 2);
}

// The text that describes the machine, as RAILWISE_DEVICE has it behind "software:"; "": none.
std::string machineText() {
  const std::string own = variable("SOFTGPU_MACHINE");
  if (!own.empty()) return own;
  constexpr std::string_view kPrefix = "software:";
  const std::string device = variable("RAILWISE_DEVICE");
  return device.starts_with(kPrefix) ? device.substr(kPrefix.size()) : "";
}

bool isGpu(const railwise::softdev::HostConfig& host, const std::string& bus_id) {
  return std::any_of(host.gpus.begin(), host.gpus.end(),
                     [&](const auto& gpu) { return gpu.busid() == bus_id; });
}

std::vector<GpuDescription> machineGpus() {
  std::vector<GpuDescription> gpus;
  const std::string text = machineText();
  if (text.empty()) return gpus;
  const auto machine = railwise::softdev::parseMachine(text.c_str(), variable("RAILWISE_HOST"));
  if (!machine.ok()) return gpus;  // the parser has said why
  for (const railwise::softdev::GpuConfig& gpu : machine->host().gpus) {
    GpuDescription description;
    description.bus_id = normalBusId(gpu.busid());
    if (description.bus_id.empty()) continue;
    description.sm = static_cast<int>(gpu.sm);
    description.numa = gpu.numa;
    if (gpu.part_id != 0) description.part_id = gpu.part_id;
    for (uint32_t link = 0; link < gpu.nvlinkCount(); ++link) {
      const std::string& target = gpu.nvlinkTarget(link);
      description.nvlinks.push_back({target, !isGpu(machine->host(), target)});
    }
    gpus.push_back(description);
  }
  // NVML's order, and CUDA's for GPUs of one kind.
  std::sort(gpus.begin(), gpus.end(), [](const auto& a, const auto& b) { return a.bus_id < b.bus_id; });
  return gpus;
}

// Bus ids that no /sys knows.
std::vector<GpuDescription> inventedGpus() {
  const std::string told = variable("SOFTGPU_COUNT");
  const size_t count = told.empty() ? 1 : std::strtoull(told.c_str(), nullptr, 10);
  std::vector<GpuDescription> gpus(std::min(count, kMaxGpus));
  for (size_t i = 0; i < gpus.size(); ++i) {
    char bus_id[32];
    std::snprintf(bus_id, sizeof bus_id, "ff00:%02zx:00.0", i + 1);
    gpus[i].bus_id = bus_id;
  }
  return gpus;
}

std::vector<GpuDescription> describe() {
  std::vector<GpuDescription> gpus = machineGpus();
  if (gpus.empty()) gpus = inventedGpus();
  if (gpus.size() > kMaxGpus) gpus.resize(kMaxGpus);
  const std::string sm = variable("SOFTGPU_SM");
  const size_t memory = memoryBytes();
  for (GpuDescription& gpu : gpus) {
    if (!sm.empty()) gpu.sm = std::atoi(sm.c_str());
    if (gpu.memory_bytes == 0) gpu.memory_bytes = memory;
    if (gpu.name.empty()) gpu.name = "Railwise software GPU";
  }
  return gpus;
}

bool readBusId(const std::string& text, unsigned numbers[4]) {
  int end = 0;
  const int read = std::sscanf(text.c_str(), "%8x:%2x:%2x.%1x%n", &numbers[0], &numbers[1], &numbers[2],
                               &numbers[3], &end);
  return read == 4 && static_cast<size_t>(end) == text.size();
}

unsigned busIdNumber(const std::string& bus_id, int which) {
  unsigned numbers[4] = {};
  return readBusId(bus_id, numbers) ? numbers[which] : 0;
}

}  // namespace

unsigned GpuDescription::pciDomain() const { return busIdNumber(bus_id, 0); }
unsigned GpuDescription::pciBus() const { return busIdNumber(bus_id, 1); }
unsigned GpuDescription::pciSlot() const { return busIdNumber(bus_id, 2); }

std::string normalBusId(const std::string& text) {
  unsigned numbers[4] = {};
  if (!readBusId(text, numbers)) return "";
  char normal[32];
  std::snprintf(normal, sizeof normal, "%04x:%02x:%02x.%x", numbers[0], numbers[1], numbers[2], numbers[3]);
  return normal;
}

const std::vector<GpuDescription>& describedGpus() {
  static const auto& gpus = *new std::vector<GpuDescription>(describe());
  return gpus;
}

// As CUDA documents it: the list ends at the first entry that names no GPU, and a GPU that is named twice
// leaves none.
std::vector<size_t> visibleGpus(const char* cuda_visible_devices, size_t count) {
  std::vector<size_t> visible;
  if (cuda_visible_devices == nullptr) {
    for (size_t i = 0; i < count; ++i) visible.push_back(i);
    return visible;
  }
  const char* at = cuda_visible_devices;
  for (;;) {
    char* end = nullptr;
    const unsigned long number =
        std::isdigit(static_cast<unsigned char>(*at)) != 0 ? std::strtoul(at, &end, 10) : count;
    if (number >= count) break;
    if (std::find(visible.begin(), visible.end(), number) != visible.end()) return {};
    visible.push_back(number);
    if (*end != ',') break;
    at = end + 1;
  }
  return visible;
}

}  // namespace softgpu
