#include "conform/trial.h"

#include <unistd.h>

#include <cstdlib>

#include "base/process.h"
#include "cli/options/message.h"

namespace railwise::conform {
namespace {

constexpr int kStatusOf[] = {0, 10, 11};  // of a Verdict::Kind
constexpr const char* kDevice = "RAILWISE_DEVICE";

Verdict run(const Check& check, const cli::PluginOptions& plugin) {
  try {
    return {Verdict::kHeld, check.run(plugin)};
  } catch (const DoesNotApply& why) {
    return {Verdict::kDoesNotApply, why.what()};
  } catch (const std::exception& what) {
    return {Verdict::kBroken, what.what()};
  }
}

// The variables of one trial. RoCE's and InfiniBand's time of repeating: 2 s instead of NCCL's 30 s, so that
// faults end in time.
void prepare(const Check& check, int number) {
  const std::string fabric = "conform" + std::to_string(getppid()) + "." + std::to_string(number);
  setenv("RAILWISE_FABRIC", fabric.c_str(), 1);
  setenv("NCCL_IB_TIMEOUT", "16", 0);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  setenv("RAILWISE_FUSE_PLACELESS", "1", 0);  // the devices are in no PCI tree
  if (*check.fault == '\0') return;
  const char* const device = std::getenv(kDevice);
  const std::string with = std::string(device != nullptr ? device : "") + ",fault=" + check.fault;
  setenv(kDevice, with.c_str(), 1);
}

}  // namespace

Verdict tryCheck(const Check& check, const cli::PluginOptions& plugin, int number) {
  ProcessPlan plan;
  plan.body = [&](std::string& answer) {
    prepare(check, number);
    if (!plugin.verbose) cli::setPluginLog(cli::PluginLog::kNone);
    Verdict verdict = run(check, plugin);
    answer = std::move(verdict.text);
    return kStatusOf[verdict.kind];
  };
  plan.own_group = true;
  if (!plugin.verbose) plan.error = kStreamNothing;
  auto child = Process::start(plan);
  if (!child.ok()) return {Verdict::kBroken, child.error()};
  const auto ended = child->wait(Deadline::after(std::chrono::seconds(check.limit_s)));
  if (!ended) {
    (void)child->end();
    return {Verdict::kBroken, "hangs (" + std::to_string(check.limit_s) + " s)"};
  }
  if (ended->signalled) return {Verdict::kBroken, "crashes (signal " + std::to_string(ended->code) + ")"};
  for (const auto kind : {Verdict::kHeld, Verdict::kBroken, Verdict::kDoesNotApply})
    if (kStatusOf[kind] == ended->code)
      return {kind, child->receiveAll(Deadline::after(std::chrono::seconds(1)))};
  return {Verdict::kBroken, "ends the process with status " + std::to_string(ended->code)};
}

Outcome<Exports> exportsOf(const cli::PluginOptions& plugin) {
  Exports exports;
  std::string problem;
  const auto look = [&](int oldest, int newest, std::vector<int>& found, const auto& load) {
    for (int version = newest; version >= oldest; --version) {
      cli::PluginOptions one = plugin;
      one.api = version;
      const auto loaded = load(one);
      if (loaded.ok()) found.push_back(version);
      else problem = loaded.error();
    }
  };
  look(cli::kOldestApi, cli::kNewestApi, exports.net, cli::loadPlugin);
  look(cli::kOldestRmaApi, cli::kNewestRmaApi, exports.rma, cli::loadRma);
  if (exports.net.empty() && exports.rma.empty()) return Error{problem};
  return exports;
}

}  // namespace railwise::conform
