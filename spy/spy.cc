#include "spy/spy.h"

#include <unistd.h>

#include <chrono>
#include <mutex>

#include "base/log.h"
#include "base/process.h"
#include "nccl/logger.h"
#include "record/writer.h"
#include "spy/inner.h"
#include "spy/registry.h"

namespace railwise::spy {
namespace {

constexpr const char* kPrefix = "NET/Spy : ";

struct State {
  std::mutex mutex;
  std::string name;
  int version = 0;
  bool said = false;
};
State& state() {
  static State& it = *new State;
  return it;
}

void startRecord(const std::string& name) {
  const Config& config = inner().config;
  if (config.metrics == 0) return;
  const LaunchedRank launched = launchedRank();
  record::start({.folder = config.metrics_dir,
                 .most_connections = static_cast<uint32_t>(config.metrics_connections),
                 .keep = std::chrono::seconds(config.metrics_keep_s),
                 .host = hostName() + ":" + std::to_string(getpid()),
                 .plugin = name,
                 .plugin_file = inner().file,
                 .spy = true,
                 .rank = launched.rank,
                 .ranks = launched.ranks});
}

// The process ends. NCCL's logger may be gone already, so nothing is logged to it.
[[gnu::destructor]] void endOfProcess() {
  if (apiInUse() == 0) return;
  setNcclLogger(nullptr, kPrefix);
  writeReport();
  record::stop();
}

}  // namespace

void begin(ncclDebugLogger_t logger, const char* name, int version) {
  setNcclLogger(logger, kPrefix);
  const std::string shown = name != nullptr ? name : "(no name)";
  bool first = false;
  {
    const std::lock_guard lock(state().mutex);
    state().name = shown;
    state().version = version;
    first = !state().said;
    state().said = true;
  }
  startRecord(shown);
  if (!first) return;
  RAILWISE_INFO(log::kInit | log::kNet, "watching %s (v%d) of %s", shown.c_str(), version,
                inner().file.c_str());
  if (!inner().hidden.empty())
    RAILWISE_INFO(
        log::kInit | log::kNet,
        "that library also exports %s, which NCCL does not find through the spy: name the library in "
        "NCCL_TUNER_PLUGIN or NCCL_PROFILER_PLUGIN too",
        inner().hidden.c_str());
}

void end(bool told) {
  if (!Registry::get().idle()) return;
  reportNow();
  if (told) record::stop();
}

std::string pluginName() {
  const std::lock_guard lock(state().mutex);
  return state().name;
}

int apiInUse() {
  const std::lock_guard lock(state().mutex);
  return state().version;
}

}  // namespace railwise::spy
