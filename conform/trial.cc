#include "conform/trial.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/process.h"
#include "base/text/words.h"
#include "cli/options/message.h"
#include "softdev/engine/attachment.h"
#include "softdev/faults/faults.h"

namespace railwise::conform {
namespace {

constexpr int kStatusOf[] = {0, 10, 11};  // of a Verdict::Kind
constexpr const char* kDevice = "RAILWISE_DEVICE";
constexpr auto kLoading = std::chrono::seconds(20);

// Has a rule of the fault injector struck?
bool faultCame(const std::string& fabric) {
  const auto joined = softdev::joinFabric(fabric);
  return joined.ok() && !softdev::readFaultLog(**joined).empty();
}

Verdict run(const Check& check, const cli::PluginOptions& plugin, const std::string& fabric) {
  try {
    std::string how = check.run(plugin);
    if (*check.fault != '\0' && !faultCame(fabric)) throw DoesNotApply("the fault never came");
    return {Verdict::kHeld, std::move(how)};
  } catch (const DoesNotApply& why) {
    return {Verdict::kDoesNotApply, why.what()};
  } catch (const std::exception& what) {
    return {Verdict::kBroken, what.what()};
  }
}

// The variables of one trial. RoCE's and InfiniBand's time of repeating: 2 s instead of NCCL's 30 s, so that
// faults end in time.
void prepare(const Check& check, const std::string& fabric) {
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
  if (*check.fault != '\0' && !plugin.device.starts_with("software"))
    return {Verdict::kDoesNotApply, "faults are for software devices"};
  const std::string fabric = "conform" + std::to_string(getpid()) + "." + std::to_string(number);
  ProcessPlan plan;
  plan.body = [&](std::string& answer) {
    prepare(check, fabric);
    if (!plugin.verbose) cli::setPluginLog(cli::PluginLog::kNone);
    Verdict verdict = run(check, plugin, fabric);
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
  if (ended->signalled) return {Verdict::kBroken, std::string("crashes (") + strsignal(ended->code) + ")"};
  for (const auto kind : {Verdict::kHeld, Verdict::kBroken, Verdict::kDoesNotApply})
    if (kStatusOf[kind] == ended->code)
      return {kind, child->receiveAll(Deadline::after(std::chrono::seconds(1)))};
  return {Verdict::kBroken, "ends the process with status " + std::to_string(ended->code)};
}

// In a process of its own: what a library does when it is loaded is its own.
Outcome<Exports> exportsOf(const cli::PluginOptions& plugin) {
  ProcessPlan plan;
  plan.body = [&](std::string& answer) {
    std::string problem;
    const auto look = [&](int oldest, int newest, const auto& load) {
      for (int version = newest; version >= oldest; --version) {
        cli::PluginOptions one = plugin;
        one.api = version;
        const auto loaded = load(one);
        if (loaded.ok()) answer += std::to_string(version) + " ";
        else problem = loaded.error();
      }
    };
    look(kOldestApi, kNewestApi, cli::loadPlugin);
    look(kOldestRmaApi, kNewestRmaApi, cli::loadRma);
    if (!answer.empty()) return 0;
    answer = problem;
    return 1;
  };
  auto child = Process::start(plan);
  if (!child.ok()) return Error{child.error()};
  const auto ended = child->wait(Deadline::after(kLoading));
  if (!ended || ended->signalled)
    return Error{"plugin " + plugin.plugin + (ended ? " crashes" : " hangs") + " when it is loaded"};
  const std::string answer = child->receiveAll(Deadline::after(std::chrono::seconds(1)));
  if (!ended->good()) return Error{answer};
  Exports exports;
  for (const std::string& word : wordsOf(answer)) {
    const int version = std::stoi(word);
    (version <= kNewestApi ? exports.net : exports.rma).push_back(version);
  }
  return exports;
}

}  // namespace railwise::conform
