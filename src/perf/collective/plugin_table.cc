// The net table and the RMA table of a plugin (traffic.h).
#include <utility>

#include "cli/options/message.h"
#include "perf/collective/links.h"
#include "perf/collective/windows.h"

namespace railwise::cli {
namespace {

template <typename Api>
class LoadedTable : public PluginTable {
 public:
  explicit LoadedTable(Loaded<Api> loaded) : loaded_(std::move(loaded)) {}
  const std::string& path() const override { return loaded_.path; }
  const char* name() const override { return api().name(); }
  int version() const override { return api().version(); }
  ncclResult_t getProperties(int device, NetProperties* properties) override {
    return api().getProperties(device, properties);
  }

 protected:
  Api& api() const { return *loaded_.api; }

 private:
  const Loaded<Api> loaded_;
};

class NetTableInUse final : public LoadedTable<NetApi> {
 public:
  using LoadedTable::LoadedTable;
  Outcome<int> start(uint64_t comm_id) override { return startPlugin(api(), comm_id); }
  ncclResult_t fuse(std::span<const int> devices, int* fused) override {
    return api().makeVDevice(devices, fused);
  }
  std::unique_ptr<Traffic> makeTraffic(const RankContext& context, Activity& activity, const LinkPlan& plan,
                                       int ranks) override {
    return std::make_unique<Links>(api(), context, activity, plan, ranks);
  }
  ncclResult_t finalize() override { return api().finalize(); }
};

class RmaTableInUse final : public LoadedTable<RmaApi> {
 public:
  RmaTableInUse(LoadedRma loaded, Collective collective)
      : LoadedTable(std::move(loaded)), collective_(collective) {}
  Outcome<int> start(uint64_t comm_id) override {
    auto devices = startRma(api(), comm_id, &plugin_);
    if (devices.ok() && traitsOf(collective_).manner == Manner::kGets && !api().canGet())
      return Error{textOf("plugin %s: ncclRmaPlugin_v%d has no iget, which perf %s needs", name(), version(),
                          collectiveName(collective_))};
    return devices;
  }
  // The RMA tables have no virtual devices.
  ncclResult_t fuse(std::span<const int> /*devices*/, int* /*fused*/) override { return ncclInvalidUsage; }
  std::unique_ptr<Traffic> makeTraffic(const RankContext& context, Activity& /*activity*/,
                                       const LinkPlan& plan, int ranks) override {
    return std::make_unique<Windows>(api(), plugin_, context, plan, collective_, ranks);
  }
  ncclResult_t finalize() override { return api().finalize(plugin_); }

 private:
  const Collective collective_;
  void* plugin_ = nullptr;
};

}  // namespace

Outcome<std::unique_ptr<PluginTable>> openTable(const PerfOptions& options) {
  if (isOneSided(options.collective)) {
    auto loaded = loadRma(options.plugin);
    if (!loaded.ok()) return loaded.failure();
    return std::unique_ptr<PluginTable>(
        std::make_unique<RmaTableInUse>(std::move(*loaded), options.collective));
  }
  auto loaded = loadPlugin(options.plugin);
  if (!loaded.ok()) return loaded.failure();
  return std::unique_ptr<PluginTable>(std::make_unique<NetTableInUse>(std::move(*loaded)));
}

}  // namespace railwise::cli
