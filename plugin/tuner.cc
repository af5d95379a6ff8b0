// The tuner: ncclTunerPlugin_v2 to _v6, which NCCL looks up in the library of its network plugin when
// NCCL_TUNER_PLUGIN names no other one. Contract: NCCL 2.30.7, src/include/plugin/tuner/, src/plugin/tuner.cc
// and src/enqueue.cc (ncclGetAlgoInfo).
//
// Each symbol is an indirect function, whose resolver returns null while RAILWISE_TUNER_CONFIG is not set.
// NCCL then finds no tuner and works exactly as without one. A tuner that is there and changes nothing would
// not do: NCCL calls it for every collective, looks up the registration of both buffers first, and drops
// NCCL_CTA_POLICY=EFFICIENCY (docs/develop/decisions.md).
//
// Threads: any thread may call init and finalize. getCollInfo of one communicator is called by one thread at
// a time.
#include "tuner/tuner.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/settings/config.h"
#include "nccl/tuner_v2.h"
#include "nccl/tuner_v3.h"
#include "nccl/tuner_v4.h"
#include "nccl/tuner_v5.h"
#include "nccl/tuner_v6.h"
#include "plugin/calls.h"
#include "plugin/guard.h"

namespace railwise::plugin {
namespace {

using tuner::Algorithm;
using tuner::Choice;
using tuner::Collective;
using tuner::Override;
using tuner::OverrideFile;
using tuner::Protocol;
using tuner::Question;
using tuner::Tuner;

// NCCL's number of a collective, algorithm or protocol.
template <typename Enum>
constexpr int code(Enum value) {
  return static_cast<int>(value);
}

static_assert(code(Collective::kBroadcast) == ncclFuncBroadcast &&
              code(Collective::kReduce) == ncclFuncReduce &&
              code(Collective::kAllGather) == ncclFuncAllGather &&
              code(Collective::kReduceScatter) == ncclFuncReduceScatter &&
              code(Collective::kAllReduce) == ncclFuncAllReduce);
static_assert(code(Algorithm::kTree) == NCCL_ALGO_TREE && code(Algorithm::kRing) == NCCL_ALGO_RING &&
              code(Algorithm::kCollNetDirect) == NCCL_ALGO_COLLNET_DIRECT &&
              code(Algorithm::kCollNetChain) == NCCL_ALGO_COLLNET_CHAIN &&
              code(Algorithm::kNvls) == NCCL_ALGO_NVLS && code(Algorithm::kNvlsTree) == NCCL_ALGO_NVLS_TREE &&
              code(Algorithm::kPat) == NCCL_ALGO_PAT);
static_assert(code(Protocol::kLl) == NCCL_PROTO_LL && code(Protocol::kLl128) == NCCL_PROTO_LL128 &&
              code(Protocol::kSimple) == NCCL_PROTO_SIMPLE);
static_assert(log::kTuning == 0x40);  // NCCL_TUNING

constexpr const char* kTunerName = "Railwise";
constexpr const char* kTunerSetting = "RAILWISE_TUNER_CONFIG";

// A process reads a file once. All its communicators have the same overrides then, although the user may edit
// the file for the next job while this one runs.
const OverrideFile& overrides() {
  static std::mutex mutex;
  static auto& files =
      *new std::map<std::string, OverrideFile>;  // never freed: communicators may outlive exit()
  const char* const path = environmentVariable(kTunerSetting);
  const std::lock_guard lock(mutex);
  const auto found = files.find(path != nullptr ? path : "");
  if (found != files.end()) return found->second;
  // NCCL keeps a tuner that it has found once, also where the user has taken the setting away since.
  if (path == nullptr || *path == '\0') return files.emplace("", OverrideFile{}).first->second;
  const Config config = Config::load();  // says where the file is, if the network did not
  return files.emplace(config.tuner_config, tuner::readOverrides(config.tuner_config)).first->second;
}

// Ranks that choose differently hang, or add up garbage. So a file with a mistake makes no communicator.
Status refuseFile(const OverrideFile& file) {
  constexpr std::size_t kMostWarnings = 20;
  const std::size_t count = file.mistakes.size();
  for (std::size_t i = 1; i < std::min(count, kMostWarnings); ++i)
    RAILWISE_WARN("%s: %s", kTunerSetting, file.mistakes[i].c_str());
  // NCCL keeps the last warning for ncclGetLastError.
  RAILWISE_WARN(
      "%s: %s (%zu mistake%s in all). No communicator is made: if other ranks have overrides, it hangs. "
      "Correct the file on every host, or unset %s everywhere",
      kTunerSetting, file.mistakes.front().c_str(), count, count == 1 ? "" : "s", kTunerSetting);
  return {Code::kInvalidUsage, 0};
}

Status initTuner(void** context, std::size_t ranks, std::size_t nodes, ncclDebugLogger_t logger) {
  RAILWISE_REQUIRE("tuner init", context);
  *context = nullptr;
  if (logger != nullptr) setLogger(logger);  // NCCL may have loaded this library as a tuner alone
  const OverrideFile& file = overrides();
  if (!file.mistakes.empty()) return refuseFile(file);
  *context = new Tuner(file, ranks, nodes);
  return Status::success();
}

// NCCL's table of times: a row for each algorithm, a column for each protocol.
class CostTable final : public tuner::Offers {
 public:
  CostTable(float** table, int algorithms, int protocols)
      : times_(reinterpret_cast<float*>(table)), algorithms_(algorithms), protocols_(protocols) {}

  bool has(Algorithm algorithm, Protocol protocol) const override {
    const float* const its = time(code(algorithm), code(protocol));
    return its != nullptr && *its >= 0;
  }
  // As topoGetAlgoInfo chooses: the first one of the smallest time.
  std::optional<Choice> own() const override {
    std::optional<Choice> best;
    for (int algorithm = 0; algorithm < algorithms_; ++algorithm) {
      for (int protocol = 0; protocol < protocols_; ++protocol) {
        const float its = *time(algorithm, protocol);
        if (its >= 0 && (!best || its < best->time_us))
          best = Choice{static_cast<Algorithm>(algorithm), static_cast<Protocol>(protocol), its};
      }
    }
    return best;
  }
  void prefer(Algorithm algorithm, Protocol protocol) { *time(code(algorithm), code(protocol)) = 0; }

 private:
  // Null: this release of NCCL has no such row or column.
  float* time(int algorithm, int protocol) const {
    if (algorithm >= algorithms_ || protocol >= protocols_) return nullptr;
    return times_ + std::ptrdiff_t{algorithm} * protocols_ + protocol;
  }

  float* times_;
  int algorithms_;
  int protocols_;
};

// What NCCL 2.21 can take (updateCollCostTable of later releases, topoGetAlgoInfo of 2.21.5): version 2 has
// no table, and NCCL takes whatever it is told.
class WithoutTable final : public tuner::Offers {
 public:
  WithoutTable(Collective collective, std::size_t nodes, bool collnet, bool nvls)
      : collective_(collective), nodes_(nodes), collnet_(collnet), nvls_(nvls) {}

  bool has(Algorithm algorithm, Protocol protocol) const override {
    if (!tuner::ncclHas(collective_, algorithm, protocol)) return false;
    // Whether LL128 is safe between these GPUs is not known here. Where it is not, data would be wrong.
    if (protocol == Protocol::kLl128) return false;
    switch (algorithm) {
      case Algorithm::kTree:
      case Algorithm::kRing:
        return true;
      case Algorithm::kCollNetDirect:
      case Algorithm::kCollNetChain:
        return collnet_;
      case Algorithm::kNvls:
        return nvls_ && (nodes_ == 1 || (collnet_ && collective_ == Collective::kAllReduce));
      case Algorithm::kNvlsTree:
        return nvls_ && nodes_ > 1;
      case Algorithm::kPat:
        return false;
    }
    return false;
  }
  std::optional<Choice> own() const override { return std::nullopt; }

 private:
  Collective collective_;
  std::size_t nodes_;
  bool collnet_;
  bool nvls_;
};

bool isKnown(ncclFunc_t collective) {
  return collective >= ncclFuncBroadcast && collective <= ncclFuncAllReduce;
}

// NCCL schedules NVLS over several nodes like CollNet, and uses as many channels as it is told, also those
// that the communicator does not have (2.22 to 2.30.7). So NCCL's own number stays there.
void setChannels(const Override& chosen, std::size_t nodes, int* channels) {
  const bool unchecked = chosen.algorithm == Algorithm::kNvls && nodes > 1;
  if (chosen.channels != tuner::kAny && !unchecked) *channels = chosen.channels;
}

// Errors of getCollInfo would fail the collective. Nothing to change is no error: *nChannels keeps NCCL's 0.
ncclResult_t tune(void* context, ncclFunc_t collective, std::size_t bytes, int pipe_ops,
                  std::optional<bool> registered, CostTable table, int* channels) {
  return guarded("tuner getCollInfo", [&] {
    if (context == nullptr || !isKnown(collective)) return Status::success();
    auto& its_tuner = *static_cast<Tuner*>(context);
    const Override* const chosen =
        its_tuner.choose({static_cast<Collective>(collective), bytes, pipe_ops, registered}, table);
    if (chosen == nullptr) return Status::success();
    table.prefer(chosen->algorithm, chosen->protocol);
    setChannels(*chosen, its_tuner.nodes(), channels);
    return Status::success();
  });
}

ncclResult_t tunerInit_v2(std::size_t ranks, std::size_t nodes, ncclDebugLogger_t logger, void** context) {
  return guarded("tuner init", [&] { return initTuner(context, ranks, nodes, logger); });
}

ncclResult_t tunerInit_v5(void** context, std::uint64_t, std::size_t ranks, std::size_t nodes,
                          ncclDebugLogger_t logger, ncclNvlDomainInfo_v5_t*, ncclTunerConstants_v5_t*) {
  return guarded("tuner init", [&] { return initTuner(context, ranks, nodes, logger); });
}

ncclResult_t getCollInfo_v2(void* context, ncclFunc_t collective, std::size_t bytes, int collnet, int nvls,
                            int pipe_ops, int* algorithm, int* protocol, int* channels) {
  return guarded("tuner getCollInfo", [&] {
    if (context == nullptr || !isKnown(collective)) return Status::success();
    const auto its = static_cast<Collective>(collective);
    auto& its_tuner = *static_cast<Tuner*>(context);
    const Override* const chosen = its_tuner.choose(
        {its, bytes, pipe_ops, std::nullopt}, WithoutTable(its, its_tuner.nodes(), collnet == 1, nvls == 1));
    if (chosen == nullptr) return Status::success();
    *algorithm = code(chosen->algorithm);
    *protocol = code(chosen->protocol);
    setChannels(*chosen, its_tuner.nodes(), channels);
    return Status::success();
  });
}

ncclResult_t getCollInfo_v3(void* context, ncclFunc_t collective, std::size_t bytes, int pipe_ops,
                            float** table, int algorithms, int protocols, int* channels) {
  return tune(context, collective, bytes, pipe_ops, std::nullopt, CostTable(table, algorithms, protocols),
              channels);
}

ncclResult_t getCollInfo_v4(void* context, ncclFunc_t collective, std::size_t bytes, int pipe_ops,
                            float** table, int algorithms, int protocols, int registered, int* channels) {
  return tune(context, collective, bytes, pipe_ops, registered != 0, CostTable(table, algorithms, protocols),
              channels);
}

// NCCL calls it with null after an init that failed.
ncclResult_t tunerFinalize_v2(void* context) {
  delete static_cast<Tuner*>(context);
  return ncclSuccess;
}

const ncclTuner_v2_t kTuner2 = {kTunerName, tunerInit_v2, getCollInfo_v2, tunerFinalize_v2};
const ncclTuner_v3_t kTuner3 = {kTunerName, tunerInit_v2, getCollInfo_v3, tunerFinalize_v2};
const ncclTuner_v4_t kTuner4 = {kTunerName, tunerInit_v2, getCollInfo_v4, tunerFinalize_v2};
const ncclTuner_v5_t kTuner5 = {kTunerName, tunerInit_v5, getCollInfo_v4, tunerFinalize_v2};
const ncclTuner_v6_t kTuner6 = {kTunerName, tunerInit_v5, getCollInfo_v4, tunerFinalize_v2, nullptr};

// What dlsym returns for a symbol.
template <typename Table>
void (*symbolFor(const Table& table))() {
  const char* const file = environmentVariable(kTunerSetting);
  const bool on = file != nullptr && *file != '\0';
  return on ? reinterpret_cast<void (*)()>(const_cast<Table*>(&table)) : nullptr;
}

}  // namespace
}  // namespace railwise::plugin

#define RAILWISE_TUNER(version)                                                                           \
  extern "C" {                                                                                            \
  void (*railwiseTuner##version())() {                                                                    \
    return railwise::plugin::symbolFor(railwise::plugin::kTuner##version);                                \
  }                                                                                                       \
  [[gnu::visibility("default"), gnu::ifunc("railwiseTuner" #version)]] void ncclTunerPlugin_v##version(); \
  }
RAILWISE_TUNER(2)
RAILWISE_TUNER(3)
RAILWISE_TUNER(4)
RAILWISE_TUNER(5)
RAILWISE_TUNER(6)
