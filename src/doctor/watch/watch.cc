// What one look reads of a tree, and takes looks into the state: what begins to be wrong, what lasts, what is
// over.
#include "doctor/watch/watch.h"

#include <algorithm>

#include "base/text/words.h"
#include "doctor/log/job.h"
#include "sysfs/pci_devices.h"
#include "sysfs/rdma_devices.h"

namespace railwise::doctor {
namespace {

constexpr std::string_view kClass = "/sys/class/infiniband/";

std::optional<int64_t> counterAt(const sysfs::FileTree& tree, const std::string& path) {
  const auto number = numberIn<int64_t>(sysfs::firstLine(tree, path));
  return number && *number >= 0 ? number : std::nullopt;
}

// The interface of an Ethernet port: what its GID table names first, else the only one of the function.
std::string interfaceOf(const sysfs::FileTree& tree, const std::string& port, const std::string& function) {
  std::string name = sysfs::firstLine(tree, port + "/gid_attrs/ndevs/0");
  if (!name.empty() || function.empty()) return name;
  const std::vector<std::string> names = tree.list(function + "/net");
  return names.size() == 1 ? names[0] : "";
}

void readCounters(const sysfs::FileTree& tree, const std::string& folder, const std::string& function,
                  SeenPort& port) {
  const bool ethernet = sysfs::firstLine(tree, folder + "/link_layer") == "Ethernet";
  const std::string interface = ethernet ? interfaceOf(tree, folder, function) : "";
  port.went_down = ethernet ? counterAt(tree, "/sys/class/net/" + interface + "/carrier_down_count")
                            : counterAt(tree, folder + "/counters/link_downed");
  for (const WatchRule& rule : watchRules()) {
    if (rule.kind != WatchKind::kCounter) continue;
    if (const auto value = counterAt(tree, folder + "/" + rule.source)) port.counters[rule.source] = *value;
  }
}

std::string slowLinkOf(const sysfs::FileTree& tree, const std::string& function) {
  const sysfs::PciLink now = sysfs::currentLink(tree, function);
  const sysfs::PciLink possible = sysfs::bestLinkInSlot(tree, function);
  const bool slow = now.known() && possible.known() && now.mbps() < possible.mbps();
  return slow ? now.text() + "; card and slot can " + possible.text() : "";
}

constexpr int64_t kRepeatSeconds = 3600;
constexpr int64_t kQuietSeconds = 300;
constexpr int64_t kLongestPause = 60;  // between two looks of one watch (--every)

class Judge {
 public:
  Judge(WatchState& state, const Look& look) : state_(state), look_(look) {}

  std::vector<WatchEvent> judge() {
    keepTimesInThePast();
    const bool rebooted = !state_.boot.empty() && state_.boot != look_.boot;
    if (rebooted) startAnew();
    state_.boot = look_.boot;
    state_.last_look = look_.time;
    for (WatchedPort& port : state_.ports) ++port.missed;
    for (const SeenPort& seen : look_.ports) {
      if (WatchedPort* port = watched(seen)) judgePort(*port, seen, rebooted);
    }
    for (const WatchedPort& port : state_.ports) judgePresence(port);
    std::erase_if(state_.ports, [](const WatchedPort& port) { return port.missed > 0 && !port.was_active; });
    for (const std::string& line : look_.kernel) judgeKernel(line);
    if (look_.manifest) judgeManifest(*look_.manifest);
    endWhatIsOver();
    return std::move(events_);
  }

 private:
  // A clock that was set back must neither end nor begin anything.
  void keepTimesInThePast() {
    const auto past = [&](int64_t& time) { time = std::min(time, look_.time); };
    for (WatchedPort& port : state_.ports) {
      past(port.since);
      for (int64_t& time : port.flap_times) past(time);
      for (WatchedCounter& counter : port.counters) past(counter.base_time);
    }
    for (Latch& latch : state_.latches) {
      past(latch.last);
      past(latch.reported);
    }
  }

  // The kernel's numbers begin anew with a boot.
  void startAnew() {
    for (WatchedPort& port : state_.ports) {
      port.counters.clear();
      port.went_down = -1;
      port.since = look_.time;
      port.missed = 0;
    }
    for (Latch& latch : state_.latches) latch.before_reboot = true;
  }

  // Null: the watch does not know it.
  WatchedPort* portNamed(std::string_view name) const {
    const auto at = std::ranges::find(state_.ports, name, &WatchedPort::name);
    return at == state_.ports.end() ? nullptr : &*at;
  }

  WatchedPort* watched(const SeenPort& seen) {
    WatchedPort* at = portNamed(seen.name);
    if (at == nullptr) {
      if (state_.ports.size() == WatchState::kMostPorts) return nullptr;
      at = &state_.ports.emplace_back(
          WatchedPort{.name = seen.name, .active = seen.active, .since = look_.time});
    }
    at->missed = 0;
    at->bdf = seen.bdf;
    at->state = seen.state;
    at->was_active = at->was_active || seen.active;
    return at;
  }

  void judgePort(WatchedPort& port, const SeenPort& seen, bool rebooted) {
    const bool fell = port.active && !seen.active && !rebooted;
    if (port.active != seen.active) port.since = look_.time;
    port.active = seen.active;
    int64_t falls = fell && port.went_down < 0 ? 1 : 0;
    if (seen.went_down) {
      // Counting begins with the first number that the kernel gives. A smaller one: the driver was loaded
      // again.
      falls = port.went_down < 0 ? 0 : std::max<int64_t>(*seen.went_down - port.went_down, 0);
      port.went_down = *seen.went_down;
    }
    countFlaps(port, falls);
    for (const WatchRule& rule : watchRules()) {
      if (rule.kind == WatchKind::kPortDown && !port.active && port.was_active &&
          look_.time - port.since >= static_cast<int64_t>(rule.limit))
        raise(rule, port.name, "state " + port.state);
      if (rule.kind == WatchKind::kFlaps && falls > 0) judgeFlaps(rule, port);
      if (rule.kind == WatchKind::kCounter && seen.counters.contains(rule.source))
        judgeCounter(rule, port, seen.counters.at(rule.source));
      if (rule.kind == WatchKind::kPciLink && !seen.slow_link.empty()) raise(rule, port.name, seen.slow_link);
    }
  }

  void countFlaps(WatchedPort& port, int64_t falls) {
    port.flaps += falls;
    const auto kept = std::min<int64_t>(falls, WatchState::kMostFlaps);
    port.flap_times.insert(port.flap_times.end(), static_cast<std::size_t>(kept), look_.time);
    if (port.flap_times.size() > WatchState::kMostFlaps)
      port.flap_times.erase(port.flap_times.begin(), port.flap_times.end() - WatchState::kMostFlaps);
  }

  void judgeFlaps(const WatchRule& rule, const WatchedPort& port) {
    const auto lately =
        std::ranges::count_if(port.flap_times, [&](int64_t time) { return look_.time - time < rule.window; });
    if (static_cast<double>(lately) > rule.limit)
      raise(rule, port.name,
            counted(static_cast<uint64_t>(port.flaps), "time") + " since the watch knows the port");
  }

  void judgeCounter(const WatchRule& rule, WatchedPort& port, int64_t value) {
    auto at = std::ranges::find(port.counters, rule.check, &WatchedCounter::check);
    if (at == port.counters.end()) {
      port.counters.push_back({rule.check, value, look_.time});
      return;
    }
    const int64_t grown = value - at->base, seconds = look_.time - at->base_time;
    // What grew while nobody looked grew at a rate that nobody knows.
    const bool looked = seconds <= rule.window + kLongestPause;
    const double windows = std::max(1.0, static_cast<double>(seconds) / rule.window);
    const bool over = looked && static_cast<double>(grown) > rule.limit * windows;
    if (over)
      raise(rule, port.name,
            std::string(rule.source) + " " + std::to_string(at->base) + " -> " + std::to_string(value) +
                " in " + std::to_string(seconds) + " s");
    // A counter that became smaller was reset.
    if (over || grown < 0 || seconds >= rule.window) *at = {rule.check, value, look_.time};
  }

  void judgePresence(const WatchedPort& port) {
    for (const WatchRule& rule : watchRules()) {
      if (rule.kind == WatchKind::kDeviceGone && port.was_active &&
          port.missed >= static_cast<int>(rule.limit))
        raise(rule, port.name,
              "not in /sys/class/infiniband for " + counted(static_cast<uint64_t>(port.missed), "look"));
    }
  }

  void judgeKernel(const std::string& line) {
    for (const WatchRule& rule : watchRules()) {
      if (rule.kind != WatchKind::kKernel || !hasWords(line, rule.source)) continue;
      const auto at = std::ranges::find_if(state_.ports, [&](const WatchedPort& port) {
        return !port.bdf.empty() && line.find(port.bdf) != std::string::npos;
      });
      return raise(rule, at == state_.ports.end() ? "" : at->name, line);
    }
  }

  // During a flap of a port one comparison finds it down.
  void judgeManifest(const ManifestDifferences& found) {
    for (const WatchRule& rule : watchRules()) {
      if (rule.kind != WatchKind::kManifest || !found.contains(rule.source)) continue;
      std::vector<std::string> lasting = found.at(rule.source);
      const std::vector<std::string>& before = state_.manifest[rule.source];
      if (rule.limit > 0)
        std::erase_if(lasting, [&](const std::string& each) {
          return std::ranges::find(before, each) == before.end();
        });
      if (!lasting.empty()) raise(rule, "", joined(lasting, "; "));
    }
    state_.manifest = found;
  }

  void raise(const WatchRule& rule, const std::string& port, const std::string& seen) {
    auto at = std::ranges::find_if(
        state_.latches, [&](const Latch& latch) { return latch.check == rule.check && latch.port == port; });
    const bool begins = at == state_.latches.end();
    if (begins) {
      if (state_.latches.size() == WatchState::kMostLatches) state_.latches.erase(state_.latches.begin());
      state_.latches.push_back({.check = rule.check, .port = port, .since = look_.time});
      at = state_.latches.end() - 1;
    }
    at->seen = seen;
    at->last = look_.time;
    at->before_reboot = false;
    ++at->count;
    if (begins || look_.time - at->reported >= kRepeatSeconds) {
      at->reported = look_.time;
      note(begins ? EventPhase::kBegin : EventPhase::kRepeat, rule, *at);
    }
  }

  // After a reboot one look is enough that reads counters and finds the port active.
  bool isOver(const WatchRule& rule, const Latch& latch) const {
    if (latch.before_reboot) {
      const WatchedPort* const port = portNamed(latch.port);
      return look_.counters && (latch.port.empty() || (port != nullptr && port->active && port->missed == 0));
    }
    return look_.time - latch.last >= std::max<int64_t>(kQuietSeconds, rule.window);
  }

  void endWhatIsOver() {
    std::erase_if(state_.latches, [&](const Latch& latch) {
      const WatchRule* rule = ruleOf(latch.check);
      if (rule == nullptr) return true;  // of another version of Railwise
      if (latch.last == look_.time || !isOver(*rule, latch)) return false;
      note(EventPhase::kEnd, *rule, latch);
      return true;
    });
  }

  void note(EventPhase phase, const WatchRule& rule, const Latch& latch) {
    const WatchedPort* const port = portNamed(latch.port);
    events_.push_back(
        {state_.next_event++, look_.time, phase, &rule, latch, port == nullptr ? "" : port->bdf});
  }

  WatchState& state_;
  const Look& look_;
  std::vector<WatchEvent> events_;
};

}  // namespace

Look lookAt(const sysfs::FileTree& tree, int64_t time, bool counters) {
  Look look{
      .time = time, .boot = sysfs::firstLine(tree, "/proc/sys/kernel/random/boot_id"), .counters = counters};
  for (const std::string& device : tree.list(kClass)) {
    const std::string function = sysfs::rdmaPlace(tree, device).path;
    if (!function.empty() && tree.exists(function + "/physfn"))
      continue;  // a virtual function, given away and taken back
    for (const int number : sysfs::rdmaPorts(tree, device)) {
      const std::string folder = std::string(kClass) + device + "/ports/" + std::to_string(number);
      SeenPort port{.name = device + "/" + std::to_string(number),
                    .bdf = std::string(sysfs::baseName(function))};
      port.state = sysfs::firstLine(tree, folder + "/state");
      if (port.state.empty()) continue;  // the device is about to go, or to come
      port.active = port.state.starts_with("4");
      if (counters) {
        readCounters(tree, folder, function, port);
        port.slow_link = slowLinkOf(tree, function);
      }
      look.ports.push_back(std::move(port));
    }
  }
  return look;
}

const WatchRule* ruleOf(std::string_view check) {
  const auto rules = watchRules();
  const auto at = std::ranges::find(rules, check, &WatchRule::check);
  return at == rules.end() ? nullptr : &*at;
}

std::vector<WatchEvent> takeLook(WatchState& state, const Look& look) { return Judge(state, look).judge(); }

}  // namespace railwise::doctor
