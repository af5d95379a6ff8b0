#include "conform/trial.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "base/process.h"
#include "base/text/words.h"
#include "cli/options/message.h"
#include "cli/plugin/watched_api.h"
#include "conform/subject.h"
#include "softdev/engine/attachment.h"
#include "softdev/faults/faults.h"

namespace railwise::conform {
namespace {

// A report's first letter: a Verdict::Kind. A process that the plugin ends in the middle of a check has
// reported nothing, whatever its status.
constexpr std::string_view kLetters = "hb-";
constexpr char kNotStarted = 's';
constexpr auto kReading = std::chrono::seconds(1);
// A call that stands still so long when the trial's time is over is where it hangs.
constexpr uint64_t kStandsStillNs = 3'000'000'000;
// When two trials have hung in a call, a further one is given only so long in it.
constexpr int kHangsToLearn = 2;
constexpr uint64_t kKnownHangNs = 5'000'000'000;
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
  } catch (const NotStarted& what) {
    return {Verdict::kBroken, what.what(), false};
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

// The call that has not returned for `least_ns`; "": none.
std::string standsIn(uint64_t least_ns) {
  const cli::CallNow* const now = cli::sharedCall();
  const char* const name = now != nullptr ? now->name.load() : nullptr;
  return name != nullptr && nowNs() - now->since_ns >= least_ns ? name : "";
}

bool starts(const std::string& call) { return call == "init" || call == "devices"; }

// How the child has ended. Nothing: it hangs.
std::optional<ProcessEnd> waitFor(Process& child, int limit_s, const std::map<std::string, int>& hangs) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(limit_s));
  while (child.running() && !deadline.passed()) {
    const auto known = hangs.find(standsIn(kKnownHangNs));
    if (known != hangs.end() && known->second >= kHangsToLearn) break;
    (void)child.wait(Deadline::after(std::chrono::milliseconds(100)));
  }
  return child.ended();
}

}  // namespace

Verdict tryCheck(const Check& check, const cli::PluginOptions& plugin, int number, int limit_s) {
  if (*check.fault != '\0' && !plugin.device.starts_with("software"))
    return {Verdict::kDoesNotApply, "faults are for software devices"};
  const std::string fabric = "conform" + std::to_string(getpid()) + "." + std::to_string(number);
  ProcessPlan plan;
  plan.body = [&](std::string& answer) {
    cli::g_call_now = cli::sharedCall();
    prepare(check, fabric);
    if (!plugin.verbose) cli::setPluginLog(cli::PluginLog::kNone);
    Verdict verdict = run(check, plugin, fabric);
    answer = (verdict.started ? kLetters[verdict.kind] : kNotStarted) + verdict.text;
    return 0;
  };
  plan.own_group = true;
  if (!plugin.verbose) plan.error = kStreamNothing;
  if (cli::CallNow* const now = cli::sharedCall()) now->name = nullptr;
  static std::map<std::string, int> hangs;
  auto child = Process::start(plan);
  if (!child.ok()) return {Verdict::kBroken, child.error()};
  const auto ended = waitFor(*child, limit_s, hangs);
  if (!ended) {
    const std::string call = standsIn(kStandsStillNs);
    (void)child->end();
    if (call.empty()) return {Verdict::kBroken, "has no end in " + std::to_string(limit_s) + " s"};
    ++hangs[call];
    return {Verdict::kBroken, call + " does not return", !starts(call), call};
  }
  const std::string report = child->receiveAll(Deadline::after(kReading));
  if (ended->good() && report.starts_with(kNotStarted)) return {Verdict::kBroken, report.substr(1), false};
  const auto kind = report.empty() ? std::string::npos : kLetters.find(report.front());
  if (ended->good() && kind != std::string::npos) return {static_cast<Verdict::Kind>(kind), report.substr(1)};
  const std::string call = standsIn(0);
  const std::string where = call.empty() ? "" : " in " + call;
  return {Verdict::kBroken,
          ended->signalled ? "crashes" + where + " (" + strsignal(ended->code) + ")"
                           : "ends the process" + where + " with status " + std::to_string(ended->code),
          !starts(call)};
}

// In a process of its own: what a library does when it is loaded is its own.
Outcome<Exports> exportsOf(const cli::PluginOptions& plugin) {
  ProcessPlan plan;
  plan.body = [&](std::string& answer) {
    const auto look = [&](int oldest, int newest, const auto& load) {
      for (int version = newest; version >= oldest; --version) {
        cli::PluginOptions one = plugin;
        one.api = version;
        if (load(one).ok()) answer += std::to_string(version) + " ";
      }
    };
    look(kOldestApi, kNewestApi, cli::loadPlugin);
    look(kOldestRmaApi, kNewestRmaApi, cli::loadRma);
    if (!answer.empty()) return 0;
    answer = cli::loadPlugin(plugin).error();
    return 1;
  };
  auto child = Process::start(plan);
  if (!child.ok()) return Error{child.error()};
  const auto ended = child->wait(Deadline::after(kLoading));
  if (!ended || ended->signalled)
    return Error{"plugin " + plugin.plugin + (ended ? " crashes" : " hangs") + " when it is loaded"};
  const std::string answer = child->receiveAll(Deadline::after(kReading));
  if (answer.empty())
    return Error{cli::textOf("plugin %s ends the process with status %d when it is loaded",
                             plugin.plugin.c_str(), ended->code)};
  if (!ended->good()) return Error{answer};
  Exports exports;
  for (const std::string& word : wordsOf(answer)) {
    const int version = std::stoi(word);
    (version <= kNewestApi ? exports.net : exports.rma).push_back(version);
  }
  return exports;
}

}  // namespace railwise::conform
