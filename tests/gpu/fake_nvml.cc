// A libnvidia-ml.so.1 for tests, which answers from a machine file (machine_file.h). Layouts are written down
// as offsets, apart from the declarations in src/gpu/nvml.cc (NVIDIA's nvml.h). With FAKE_OLD it is a library
// of an older driver, which lacks functions. RAILWISE_FAKE_GPU_MODE: fail, hang, crash, exit, lie, many,
// endless, lost, noinit.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <sstream>

#include "tests/gpu/machine_file.h"

#define FAKE extern "C" __attribute__((visibility("default")))

using railwise::test::fakeMode;
using railwise::test::MachinePart;

namespace {

constexpr int kUnsupported = 3;
constexpr int kInvalid = 2;

const MachinePart& machine() {
  static const MachinePart read = railwise::test::readMachineFile(std::getenv("RAILWISE_FAKE_GPUS"));
  return read;
}

const MachinePart& part(void* handle) { return *static_cast<const MachinePart*>(handle); }

template <typename T>
void write(void* to, size_t offset, T value) {
  std::memcpy(static_cast<char*>(to) + offset, &value, sizeof value);
}

// Whether the call answers at all: 0, or the error.
int refuses(void* handle, const char* key) {
  if (fakeMode("fail")) return 999;
  return part(handle).find(key) != nullptr ? 0 : kUnsupported;
}

int text(void* handle, const char* key, char* to, unsigned bytes) {
  if (const int error = refuses(handle, key)) return error;
  if (fakeMode("endless")) {
    std::memset(to, 'A', bytes);
    return 0;
  }
  const std::string& value = *part(handle).find(key);
  if (value.size() >= bytes) return 7;
  std::memcpy(to, value.c_str(), value.size() + 1);
  return 0;
}

template <typename T>
int number(void* handle, const char* key, T* to) {
  if (const int error = refuses(handle, key)) return error;
  *to = static_cast<T>(part(handle).number(key));
  return 0;
}

struct FakeLink {
  int type = 0;
  std::string address;
  unsigned mbps = 0;
  unsigned version = 0;
  unsigned errors = 0;
};

// "links COUNT gpu|switch|cpu ADDRESS MBPS VERSION ERRORS": one row for each other end.
std::vector<FakeLink> links(void* handle) {
  std::vector<FakeLink> all;
  for (const auto& [key, value] : part(handle).rows) {
    if (key != "links") continue;
    std::istringstream words(value);
    int count = 0;
    std::string type;
    FakeLink link;
    words >> count >> type >> link.address >> link.mbps >> link.version >> link.errors;
    link.type = type == "gpu" ? 0 : type == "cpu" ? 1 : type == "switch" ? 2 : 255;
    all.insert(all.end(), count, link);
  }
  if (fakeMode("lie") && !all.empty()) {
    all[0].type = 0;
    all[0].address = "00000000:99:00.0";
  }
  return all;
}

// Only for links that the GPU has.
template <typename Answer>
int ofLink(void* handle, unsigned index, const Answer& answer) {
  if (fakeMode("fail")) return 999;
  const std::vector<FakeLink> all = links(handle);
  if (index >= all.size()) return index < 18 ? kUnsupported : kInvalid;
  answer(all[index]);
  return 0;
}

void writePci(void* pci, const std::string& address) {
  std::memset(pci, 0, 68);
  std::memcpy(static_cast<char*>(pci) + 36, address.c_str(), std::min<size_t>(address.size(), 31));
}

}  // namespace

FAKE int nvmlInit_v2() { return fakeMode("noinit") ? 9 : 0; }
FAKE const char* nvmlErrorString(int error) {
  return error == 9 ? "Driver Not Loaded" : error == 15 ? "GPU is lost" : "Unknown Error";
}
FAKE int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = fakeMode("many") ? 4'000'000'000u : static_cast<unsigned>(machine().parts.size());
  return 0;
}
FAKE int nvmlDeviceGetHandleByIndex_v2(unsigned index, const void** handle) {
  if (fakeMode("lost") && index == 1) return 15;
  if (index >= machine().parts.size()) return kInvalid;
  *handle = &machine().parts[index];
  return 0;
}
FAKE int nvmlSystemGetDriverVersion(char* to, unsigned bytes) {
  return text(const_cast<MachinePart*>(&machine()), "driver", to, bytes);
}
FAKE int nvmlDeviceGetName(void* handle, char* to, unsigned bytes) {
  if (fakeMode("hang")) sleep(3);
  if (fakeMode("crash")) __builtin_trap();
  if (fakeMode("exit")) _exit(7);
  return text(handle, "name", to, bytes);
}
FAKE int nvmlDeviceGetUUID(void* handle, char* to, unsigned bytes) { return text(handle, "uuid", to, bytes); }
FAKE int nvmlDeviceGetVbiosVersion(void* handle, char* to, unsigned bytes) {
  return text(handle, "vbios", to, bytes);
}
FAKE int nvmlDeviceGetMemoryInfo(void* handle, unsigned long long* memory) {
  if (const int error = refuses(handle, "memory")) return error;
  memory[0] = part(handle).number("memory") << 20;
  memory[2] = part(handle).find("used") != nullptr ? part(handle).number("used") << 20 : 0;
  memory[1] = memory[0] - memory[2];
  return 0;
}
FAKE int nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) {
  if (const int error = refuses(handle, "sm")) return error;
  *major = static_cast<int>(part(handle).number("sm")) / 10;
  *minor = static_cast<int>(part(handle).number("sm")) % 10;
  return 0;
}
FAKE int nvmlDeviceGetPciInfo_v3(void* handle, void* pci) {
  if (const int error = refuses(handle, "bus")) return error;
  writePci(pci, *part(handle).find("bus"));
  return 0;
}
FAKE int nvmlDeviceGetNvLinkState(void* handle, unsigned link, int* active) {
  return ofLink(handle, link, [&](const FakeLink& one) { *active = one.mbps > 0 || one.version > 0; });
}
FAKE int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* handle, unsigned link, void* pci) {
  return ofLink(handle, link, [&](const FakeLink& one) { writePci(pci, one.address); });
}
FAKE int nvmlDeviceGetNvLinkErrorCounter(void* handle, unsigned link, int counter,
                                         unsigned long long* value) {
  return ofLink(handle, link, [&](const FakeLink& one) { *value = counter == 0 ? one.errors : 0; });
}
FAKE int nvmlDeviceGetTotalEccErrors(void* handle, int type, int counter, unsigned long long* errors) {
  return type == 1 && counter == 0 ? number(handle, "ecc", errors) : kUnsupported;
}
FAKE int nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* reasons) {
  return number(handle, "throttle", reasons);
}
FAKE int nvmlDeviceGetUtilizationRates(void* handle, unsigned* rates) {
  return number(handle, "load", &rates[0]);
}

#ifndef FAKE_OLD
FAKE int nvmlDeviceGetNvLinkVersion(void* handle, unsigned link, unsigned* version) {
  return ofLink(handle, link, [&](const FakeLink& one) { *version = one.version; });
}
FAKE int nvmlDeviceGetNvLinkRemoteDeviceType(void* handle, unsigned link, int* type) {
  return ofLink(handle, link, [&](const FakeLink& one) { *type = one.type; });
}
// "c2c COUNT MBPS": links to the CPU of the package.
std::optional<unsigned> fieldOf(void* handle, unsigned id, unsigned scope) {
  constexpr unsigned kSpeedCommon = 90;
  constexpr unsigned kC2cCount = 170;
  constexpr unsigned kC2cMbps = 172;
  const std::vector<FakeLink> all = links(handle);
  if (id == kSpeedCommon && scope < all.size() && all[scope].mbps > 0) return all[scope].mbps;
  if (id < kC2cCount || id > kC2cMbps || part(handle).find("c2c") == nullptr) return std::nullopt;
  std::istringstream words(*part(handle).find("c2c"));
  unsigned count = 0;
  unsigned mbps = 0;
  words >> count >> mbps;
  return id == kC2cCount ? count : id == kC2cMbps ? mbps : 1;
}

FAKE int nvmlDeviceGetFieldValues(void* handle, int count, void* values) {
  if (fakeMode("fail")) return 999;
  for (int i = 0; i < count; ++i) {
    char* value = static_cast<char*>(values) + 40 * i;
    unsigned field[2];
    std::memcpy(field, value, sizeof field);
    const std::optional<unsigned> known = fieldOf(handle, field[0], field[1]);
    write(value, 28, known ? 0 : kUnsupported);
    write(value, 24, 1);  // unsigned int
    if (known) write(value, 32, *known);
  }
  return 0;
}
FAKE int nvmlDeviceGetMemoryAffinity(void* handle, unsigned words, unsigned long* nodes, unsigned) {
  if (const int error = refuses(handle, "node")) return error;
  std::memset(nodes, 0, words * sizeof *nodes);
  nodes[0] = 1ul << part(handle).number("node");
  return 0;
}
FAKE int nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, void*) {
  const int error = number(handle, "processes", count);
  return error != 0 || *count == 0 ? error : 7;
}
// "fabric STATE CLIQUE STATUS CLUSTER", the cluster as 32 hexadecimal digits.
FAKE int nvmlDeviceGetGpuFabricInfoV(void* handle, void* info) {
  if (const int error = refuses(handle, "fabric")) return error;
  unsigned version = 0;
  std::memcpy(&version, info, sizeof version);
  if (version != (36u | 2u << 24)) return 25;
  std::istringstream words(*part(handle).find("fabric"));
  unsigned state = 0;
  unsigned clique = 0;
  int status = 0;
  std::string cluster;
  words >> state >> clique >> status >> cluster;
  for (size_t i = 0; i < 16; ++i)
    write(info, 4 + i, static_cast<unsigned char>(std::stoi(cluster.substr(2 * i, 2), nullptr, 16)));
  write(info, 20, status);
  write(info, 24, clique);
  write(info, 28, static_cast<unsigned char>(state));
  return 0;
}
FAKE int nvmlDeviceGetMigMode(void* handle, unsigned* current, unsigned* pending) {
  if (const int error = refuses(handle, "mig_slots")) return error;
  *current = *pending = part(handle).parts.empty() ? 0 : 1;
  return 0;
}
FAKE int nvmlDeviceGetMaxMigDeviceCount(void* handle, unsigned* count) {
  return number(handle, "mig_slots", count);
}
FAKE int nvmlDeviceGetMigDeviceHandleByIndex(void* handle, unsigned index, const void** instance) {
  if (fakeMode("fail")) return 999;
  if (index >= part(handle).parts.size()) return 6;  // an empty slot
  *instance = &part(handle).parts[index];
  return 0;
}
// "slices GPU COMPUTE"
FAKE int nvmlDeviceGetAttributes_v2(void* handle, void* attributes) {
  if (const int error = refuses(handle, "slices")) return error;
  std::istringstream words(*part(handle).find("slices"));
  unsigned gpu = 0;
  unsigned compute = 0;
  words >> gpu >> compute;
  std::memset(attributes, 0, 40);
  write(attributes, 24, gpu);
  write(attributes, 28, compute);
  write(attributes, 32, static_cast<unsigned long long>(part(handle).number("memory")));
  return 0;
}
// "p2p STATUS": to every other GPU; without it: allowed.
FAKE int nvmlDeviceGetP2PStatus(void* from, void*, int, int* status) {
  if (fakeMode("fail")) return 999;
  *status = part(from).find("p2p") != nullptr ? static_cast<int>(part(from).number("p2p")) : 0;
  return 0;
}
#endif
