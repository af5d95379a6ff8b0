#include "tools/bench_load.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/dynamic_library.h"
#include "tools/bench_raw.h"
#include "tools/bench_two_ends.h"
#include "tools/message.h"

struct ibv_device;  // of <infiniband/verbs.h>, which is not needed here

namespace railwise::tools {
namespace {

class OneThread : public BenchLoad {
 public:
  explicit OneThread(BenchTask task) : task_(std::move(task)) {}

  bool start() override {
    plugin_ = loadForBench(task_, &error_);
    if (!plugin_) return false;
    origin_ = originOf(*plugin_);
    sender_.emplace(*plugin_->api, task_.shape);
    receiver_.emplace(*plugin_->api, task_.shape);
    if (!connectEnds(*sender_, *receiver_, task_.device, &error_)) return false;
    return (sender_->registerMemory() && receiver_->registerMemory()) || failed();
  }

  bool check() override {
    verify(true);
    const bool right = move(checkedMessages(task_));
    verify(false);
    return right;
  }

  std::optional<BenchRan> run(uint64_t messages) override {
    const BenchClock clock;
    if (!move(messages)) return std::nullopt;
    return clock.ran();
  }

  std::optional<BenchSetUp> connectMore(int connections) override {
    return setUpConnections(*plugin_->api, task_.device, connections, &error_);
  }

  bool close() override {
    if (!sender_->close() || !receiver_->close()) return failed();
    (void)plugin_->api->finalize();
    return true;
  }

 private:
  bool failed() {  // what an end says
    const std::string& of_sender = sender_->error();
    return fail(of_sender.empty() ? receiver_->error() : of_sender);
  }

  void verify(bool on) {
    sender_->verify(on);
    receiver_->verify(on);
  }

  bool move(uint64_t messages) {
    const uint64_t end = receiver_->done() + messages;
    Patience patience;
    while (receiver_->done() < end || sender_->done() < end) {
      bool moved = receiver_->postAll(end);
      moved |= sender_->postAll(end);
      moved |= receiver_->testAll();
      moved |= sender_->testAll();
      if (!moved && !(sender_->error().empty() && receiver_->error().empty())) return failed();
      if (patience.lost(moved))
        return fail(textOf("nothing moves any more: %llu of %llu messages received",
                           static_cast<unsigned long long>(receiver_->done()),
                           static_cast<unsigned long long>(end)));
    }
    return true;
  }

  BenchTask task_;
  std::optional<LoadedPlugin> plugin_;
  std::optional<BenchSender> sender_;
  std::optional<BenchReceiver> receiver_;
};

bool fuseRails(NetApi& api, BenchTask& task) {
  if (task.rails == 1) return true;
  std::vector<int> rails(static_cast<std::size_t>(task.rails));
  std::iota(rails.begin(), rails.end(), task.device);
  return api.makeVDevice(rails, &task.device) == ncclSuccess;
}

}  // namespace

std::unique_ptr<BenchLoad> BenchLoad::create(const BenchTask& task) {
  if (task.ends != BenchEnds::kOneThread)
    return makeTwoEnds(task, task.plugin.raw ? makeRawEnd : makePluginEnd);
  if (task.plugin.raw) return makeRawWrites(task);
  return std::make_unique<OneThread>(task);
}

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
  return roundUp(wanted, static_cast<std::size_t>(shape.grouped));
}

BenchOrigin originOf(const LoadedPlugin& plugin) {
  return {plugin.api->name(), plugin.path, plugin.api->version()};
}

void settleDevices() {
  static std::optional<DynamicLibrary> library;  // stays loaded
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

std::optional<LoadedPlugin> loadForBench(BenchTask& task, std::string* error) {
  settleDevices();
  PluginOptions options;
  options.plugin = task.plugin.plugin;
  options.api = task.plugin.api;
  options.verbose = task.verbose;
  auto plugin = loadPlugin(options, error);
  if (!plugin.ok()) return std::nullopt;
  const auto count = startPlugin(*plugin->api, 1, error);
  if (!count.ok()) return std::nullopt;
  NetProperties properties;
  if (task.device + task.rails > *count) {
    *error = textOf("the plugin has %d devices: no %d from device %d on", *count, task.rails, task.device);
  } else if (!fuseRails(*plugin->api, task)) {
    *error = textOf("the plugin cannot make one device of %d", task.rails);
  } else if (plugin->api->getProperties(task.device, &properties) != ncclSuccess) {
    *error = textOf("the plugin does not describe its device %d", task.device);
  } else if (task.shape.grouped > properties.max_recvs) {
    *error = textOf("the plugin takes %d buffers in a receive", properties.max_recvs);
  } else {
    return std::move(*plugin);
  }
  return std::nullopt;
}

}  // namespace railwise::tools
