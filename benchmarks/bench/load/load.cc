#include "benchmarks/bench/load/load.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/dynamic_library.h"
#include "cli/options/message.h"

struct ibv_device;  // declared here, because <infiniband/verbs.h> is not needed for anything else

namespace railwise::cli {

namespace {

constexpr std::size_t kWords = 17;

std::string flag(bool value) { return value ? "1" : "0"; }

}  // namespace

std::vector<std::string> wordsOf(const BenchTask& task) {
  return {std::to_string(task.plugin.api),
          flag(task.plugin.raw),
          std::to_string(task.shape.size),
          std::to_string(task.shape.window),
          std::to_string(task.shape.grouped),
          std::to_string(static_cast<int>(task.ends)),
          flag(task.ping_pong),
          std::to_string(task.set_ups),
          std::to_string(task.device),
          std::to_string(task.rails),
          flag(task.verbose),
          std::to_string(static_cast<int>(task.shape.pattern)),
          std::to_string(task.shape.connections),
          std::to_string(task.shape.steps),
          std::to_string(task.shape.gpu_delay),
          flag(task.shape.optional_completion),
          task.plugin.plugin};
}

std::optional<BenchTask> readTask(Args words) {
  if (words.size() != kWords) return std::nullopt;
  const auto number = [&](std::size_t i) { return std::atoi(words[i]); };
  return BenchTask{.plugin = {words[16], number(0), number(1) != 0},
                   .shape = {.size = std::strtoull(words[2], nullptr, 10),
                             .window = number(3),
                             .grouped = number(4),
                             .pattern = static_cast<BenchPattern>(number(11)),
                             .connections = number(12),
                             .steps = number(13),
                             .gpu_delay = number(14),
                             .optional_completion = number(15) != 0},
                   .ends = static_cast<BenchEnds>(number(5)),
                   .ping_pong = number(6) != 0,
                   .set_ups = number(7),
                   .device = number(8),
                   .rails = number(9),
                   .verbose = number(10) != 0};
}

namespace {

bool fuseRails(NetApi& api, BenchTask& task) {
  if (task.rails == 1) return true;
  std::vector<int> rails(static_cast<std::size_t>(task.rails));
  std::iota(rails.begin(), rails.end(), task.device);
  return api.makeVDevice(rails, &task.device) == ncclSuccess;
}

}  // namespace

std::optional<BenchSetUp> BenchLoad::connectMore(int) {
  fail("connections are counted with both ends in one thread");
  return std::nullopt;
}

uint64_t checkedMessages(const BenchTask& task) {
  const BenchShape& shape = task.shape;
  if (task.ping_pong) return static_cast<uint64_t>(shape.window);
  constexpr uint64_t kBytes = 16 << 20;
  const uint64_t wanted = std::max(std::clamp<uint64_t>(kBytes / std::max<uint64_t>(shape.size, 1), 16, 256),
                                   static_cast<uint64_t>(shape.window));
  return roundUp(wanted, shape.unit());
}

void settleDevices() {
  static std::optional<DynamicLibrary> library;  // stays loaded
  const char* const device = std::getenv("RAILWISE_DEVICE");
  if (device == nullptr || !std::string_view(device).starts_with("software")) return;
  auto opened = DynamicLibrary::open({"libibverbs.so.1"});
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

PluginOptions optionsOf(const BenchTask& task) {
  return {.plugin = task.plugin.plugin, .api = task.plugin.api, .verbose = task.verbose};
}

Outcome<LoadedPlugin> loadForBench(BenchTask& task) {
  settleDevices();
  auto plugin = loadPlugin(optionsOf(task));
  if (!plugin.ok()) return plugin;
  const auto count = startPlugin(*plugin->api, 1);
  if (!count.ok()) return count.failure();
  NetProperties properties;
  if (task.device + task.rails > *count)
    return Error{
        textOf("the plugin has %d devices: no %d from device %d on", *count, task.rails, task.device)};
  if (!fuseRails(*plugin->api, task))
    return Error{textOf("the plugin cannot make one device of %d", task.rails)};
  if (plugin->api->getProperties(task.device, &properties) != ncclSuccess)
    return Error{textOf("the plugin does not describe its device %d", task.device)};
  if (task.shape.grouped > properties.max_recvs)
    return Error{textOf("the plugin takes %d buffers in a receive", properties.max_recvs)};
  return plugin;
}

}  // namespace railwise::cli
