#include "tools/bench_worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/dynamic_library.h"
#include "tools/bench_traffic.h"
#include "tools/message.h"
#include "tools/plugin_loader.h"

struct ibv_device;  // of <infiniband/verbs.h>, which is not needed here

// Known to callgrind by its name.
extern "C" [[gnu::noinline]] bool railwiseBenchCounted(railwise::tools::BenchTraffic* traffic,
                                                       uint64_t messages) {
  return traffic->run(messages);
}

namespace railwise::tools {
namespace {

constexpr uint64_t kWarmUp = 256;  // messages, every byte checked

uint64_t nanoseconds(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// The answers' own descriptor: a plugin may print to stdout.
std::FILE* takeStdout() {
  std::FILE* const answers = fdopen(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), "w");
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return answers;
}

int fail(std::FILE* answers, const std::string& why) {
  std::fprintf(answers, "error %s\n", why.c_str());
  std::fflush(answers);
  return kExitFailed;
}

// The libibverbs in front of the system's takes its devices from RAILWISE_DEVICE, by which Railwise's own
// plugin would choose its built-in device instead of any libibverbs. So the one looks first.
void settleDevices(std::optional<DynamicLibrary>& library) {
  const char* const device = std::getenv("RAILWISE_DEVICE");
  if (device == nullptr || !std::string_view(device).starts_with("software")) return;
  std::string error;
  auto opened = DynamicLibrary::open({"libibverbs.so.1"}, &error);
  if (!opened.ok()) return;
  library.emplace(std::move(*opened));
  using GetList = ibv_device** (*)(int*);
  using FreeList = void (*)(ibv_device**);
  const auto get = reinterpret_cast<GetList>(library->symbol("ibv_get_device_list"));
  const auto free = reinterpret_cast<FreeList>(library->symbol("ibv_free_device_list"));
  if (get == nullptr || free == nullptr) return;
  int count = 0;
  if (ibv_device** const list = get(&count); list != nullptr) free(list);
  setenv("RAILWISE_DEVICE", "verbs", 1);
}

bool timedRun(BenchTraffic& traffic, uint64_t messages, std::FILE* answers) {
  const uint64_t wall = nanoseconds(CLOCK_MONOTONIC);
  const uint64_t cpu = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
  const bool ran = traffic.run(messages);
  const uint64_t cpu_ns = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
  const uint64_t wall_ns = nanoseconds(CLOCK_MONOTONIC) - wall;
  if (ran) std::fprintf(answers, "ran %" PRIu64 " %" PRIu64 "\n", cpu_ns, wall_ns);
  return ran;
}

bool countedRun(BenchTraffic& traffic, uint64_t messages, const std::string& file, std::FILE* answers) {
  const bool ran = railwiseBenchCounted(&traffic, messages);
  if (ran) std::fprintf(answers, "counted %s\n", file.c_str());
  return ran;
}

// The orders of stdin until its end. False: failed, and the traffic says why.
bool obey(const LoadedPlugin& plugin, BenchTraffic& traffic, std::FILE* answers) {
  if (!traffic.verify(kWarmUp)) return false;
  const NetApi& api = *plugin.api;
  std::fprintf(answers, "ready %d %d %s\n", api.version(), getpid(), api.name());
  std::fflush(answers);
  char order[64];
  char what[16];
  unsigned long long messages = 0;
  while (std::fgets(order, sizeof order, stdin) != nullptr &&
         std::sscanf(order, "%15s %llu", what, &messages) == 2) {
    const bool ran = std::string_view(what) == "count" ? countedRun(traffic, messages, plugin.path, answers)
                                                       : timedRun(traffic, messages, answers);
    if (!ran) return false;
    std::fflush(answers);
  }
  return true;
}

}  // namespace

int benchWorker(Args args) {
  std::FILE* const answers = takeStdout();
  if (answers == nullptr || args.size() < 6) return kExitUsage;
  PluginOptions options;
  options.api = std::atoi(args[0]);
  const int device = std::atoi(args[1]);
  const BenchShape shape = {std::strtoull(args[2], nullptr, 10), std::atoi(args[3]), std::atoi(args[4])};
  options.verbose = std::atoi(args[5]) != 0;
  if (args.size() > 6) options.plugin = args[6];
  setPluginLog(options.verbose ? PluginLog::kInfo : PluginLog::kWarn);
  std::optional<DynamicLibrary> verbs;  // stays loaded
  settleDevices(verbs);
  std::string error;
  auto plugin = loadPlugin(options, &error);
  if (!plugin.ok()) return fail(answers, error);
  NetApi& api = *plugin->api;
  const auto count = startPlugin(api, 1, &error);
  if (!count.ok()) return fail(answers, error);
  NetProperties properties;
  if (device >= *count || api.getProperties(device, &properties) != ncclSuccess)
    return fail(answers, textOf("the plugin has %d devices, no device %d", *count, device));
  if (shape.grouped > properties.max_recvs)
    return fail(answers, textOf("the plugin takes %d buffers in a receive", properties.max_recvs));
  BenchTraffic traffic(api, device, shape);
  if (!traffic.connect()) return fail(answers, traffic.error());
  bool right = false;
  // Messages move on a thread of their own, as NCCL's contract has it.
  std::thread progress([&] { right = obey(*plugin, traffic, answers); });
  progress.join();
  if (!right || !traffic.close()) return fail(answers, traffic.error());
  (void)api.finalize();
  return kExitOk;
}

}  // namespace railwise::tools
