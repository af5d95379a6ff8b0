// Which network the job uses, and why not the one that was meant: NCCL goes on without a word.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "doctor/log/judging/judge.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

// What NCCL and RCCL look for without being asked: librccl-net.so is RCCL's up to 2.21; since 2.27 it has
// NCCL's.
constexpr std::string_view kDefaultPlugins[] = {"libnccl-net.so", "librccl-net.so"};

std::string pathFix(const Process& process, const std::string& plugin) {
  const bool railwise = plugin.find("railwise") != std::string::npos;
  const std::string path =
      "export LD_LIBRARY_PATH=/where/the/plugin/is:$LD_LIBRARY_PATH  # of every rank: mpirun -x, a "
      "container's own path";
  if (setting(process, "NCCL_NET") != nullptr) return path;
  return path + "\nexport NCCL_NET=" + (railwise ? "Railwise" : "NAME") +
         "  # a job without the plugin then fails at once";
}

bool alike(std::string_view a, std::string_view b) { return lowerCase(a) == lowerCase(b); }

bool isAsked(const PluginAttempt& attempt) {
  return std::ranges::find(kDefaultPlugins, attempt.name) == std::end(kDefaultPlugins);
}

// NCCL_NET_PLUGIN, where it names a plugin. "": nobody asked for one. 2.22 to 2.28 log it only if it is
// found.
std::string askedPlugin(const Process& process) {
  const Fact* const asked = setting(process, "NCCL_NET_PLUGIN");
  if (asked == nullptr) {
    const auto named = std::ranges::find_if(process.attempts, isAsked);
    return named == process.attempts.end() ? "" : named->name;
  }
  if (alike(asked->value, "none") || asked->value == "(empty)") return "";
  return asked->value;
}

bool isOff(const Process& process, const std::string& name) {
  const Fact* const fact = setting(process, name);
  return fact != nullptr && fact->value != "0";
}

// A finding on one process, of which it has seen a fact; its severity comes later.
struct Reason {
  std::string check, what, why, fix;
  Fact seen;

  void addTo(Findings& findings, const Ranks& ranks, int process, Severity severity) const {
    findings.add(check, severity, what, {ranks.seenAt(process, seen)}, why, fix);
  }
};

Reason loadFailure(const Process& process, const PluginAttempt& attempt) {
  return {"plugin-load",
          "the plugin " + attempt.name + " is there and cannot be loaded",
          "The dynamic linker says: " + attempt.reason + ".",
          "ldd " + attempt.name + "  # on the node that says so\n" + pathFix(process, attempt.name),
          {attempt.name + ": " + attempt.reason, attempt.place}};
}

Reason notFound(const Process& process, const std::string& asked) {
  std::vector<std::string> names;
  for (const PluginAttempt& attempt : process.attempts)
    if (isAsked(attempt) || asked.empty()) names.push_back(attempt.name);
  const Place place = process.attempts.empty() ? Place{} : process.attempts.back().place;
  const bool railwise = asked.find("railwise") != std::string::npos;
  return {"plugin-not-found",
          "the plugin " + asked + " was not found",
          "NCCL looked for " + (names.empty() ? asked : firstItems(names, kShownItems)) +
              " where the dynamic linker looks, and " +
              (process.network.empty() ? "there was none." : "went on with " + process.network + "."),
          pathFix(process, asked) + "\nls /where/the/plugin/is/libnccl-net-" +
              (railwise ? "railwise" : "NAME") + ".so  # NCCL_NET_PLUGIN=NAME, or a path",
          {names.empty() ? asked : firstItems(names, kShownItems), place}};
}

Reason wrongApi(const Process& process) {
  const Fact& seen =
      process.unsupported_plugin.value.empty() ? process.missing_symbols.back() : process.unsupported_plugin;
  return {"plugin-api", "the plugin has no table of functions that this NCCL knows",
          "It was built for another release of NCCL, or is no net plugin at all.",
          "nm -D <plugin> | grep ncclNetPlugin_v  # Railwise has v6 to v12, for NCCL 2.13 and later", seen};
}

// The plugin was loaded, and another network is used.
bool initFailed(const Process& process) {
  if (!process.failed_plugins.empty()) return true;
  if (process.plugin.value.empty()) return false;
  const Fact* const net = setting(process, "NCCL_NET");
  if (net != nullptr && !alike(net->value, process.plugin.value)) return false;
  // A network that is not NCCL's own is the plugin's, under whichever name.
  return (process.network == "IB" || process.network == "Socket") &&
         process.networks.count(process.plugin.value) == 0;
}

Reason initReason(const Process& process) {
  const bool said = !process.failed_plugins.empty();
  const Fact& plugin = said ? process.failed_plugins.front() : process.plugin;
  const auto instead = process.networks.find(process.network);
  const Fact seen = said ? Fact{"Failed to initialize NET plugin " + plugin.value, plugin.place}
                         : Fact{"Using network " + process.network,
                                instead == process.networks.end() ? plugin.place : instead->second};
  return {"plugin-init", "the plugin " + plugin.value + " was loaded, and could not start",
          "Its own warnings above say why: as a rule it found no NIC that it may use.",
          "look at the lines of NET/" + plugin.value + "; railwise devices", seen};
}

// Why no plugin serves the process, if one was asked for or found.
std::optional<Reason> pluginProblem(const Process& process) {
  if (initFailed(process)) return initReason(process);
  if (!process.plugin.value.empty()) return std::nullopt;
  const auto broken = std::ranges::find_if(
      process.attempts, [](const PluginAttempt& attempt) { return !attempt.reason.empty(); });
  if (broken != process.attempts.end()) return loadFailure(process, *broken);
  if (!process.missing_symbols.empty() || !process.unsupported_plugin.value.empty()) return wrongApi(process);
  const std::string asked = askedPlugin(process);
  return asked.empty() || process.attempts.empty() ? std::nullopt : std::optional(notFound(process, asked));
}

// Socket, and it may be meant so.
Reason socketReason(const Evidence& evidence, int index, const std::optional<Reason>& plugin) {
  const Process& process = evidence.job().processes[static_cast<std::size_t>(index)];
  const auto line = process.networks.find("Socket");
  Reason reason = {"socket-network",
                   "the network is Socket, not RDMA",
                   "",
                   "",
                   {"Using network Socket", line == process.networks.end() ? Place{} : line->second}};
  const Situation situation(evidence, index, nullptr);
  if (plugin && !ruleHolds(situation, reason.check)) {
    reason.why = plugin->what + ", and NCCL's own IB network " +
                 (isOff(process, "NCCL_IB_DISABLE") ? "is turned off by NCCL_IB_DISABLE."
                  : process.no_rdma.value.empty()   ? "did not start."
                                                    : "found no device.");
    reason.why[0] = static_cast<char>(std::toupper(reason.why[0]));
    reason.fix = plugin->fix;
  } else if (isOff(process, "NCCL_IB_DISABLE")) {
    reason.why = "NCCL_IB_DISABLE=1 turns RDMA off.";
    reason.fix = "unset NCCL_IB_DISABLE";
  } else if (const Fact* const hca = setting(process, "NCCL_IB_HCA");
             hca != nullptr && !process.no_rdma.value.empty()) {
    reason.why = "NCCL found no RDMA device with NCCL_IB_HCA=" + hca->value + ", which may choose none: \"" +
                 process.no_rdma.value + "\".";
    reason.fix =
        "ibv_devices  # has it a name that NCCL_IB_HCA=" + hca->value +
        " chooses?\nunset NCCL_IB_HCA\nls /dev/infiniband  # in the container: --device=/dev/infiniband";
  } else if (!process.no_rdma.value.empty()) {
    reason.why = "NCCL found no RDMA device: \"" + process.no_rdma.value + "\".";
    reason.fix = "ibv_devices; ls /sys/class/infiniband  # in the container: --device=/dev/infiniband";
  } else {
    reason.why = "The logs do not say why.";
    reason.fix = "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV";
  }
  const Advice advice = adviceOf(situation, reason.check, {reason.why, reason.fix});
  reason.why = advice.why + " Socket copies through the kernel: on fast NICs most of the speed is lost.";
  reason.fix = advice.fix;
  return reason;
}

// The lines that explain the network, each as seen by its process.
void addExplaining(const Evidence& evidence, const Ranks& ranks, int process, std::vector<Seen>& seen) {
  for (const Event* const event : evidence.networkEvents(process)) {
    seen.push_back(ranks.seenAt(process, event->line));
    for (const Fact& also : event->also) seen.push_back(ranks.seenAt(process, also));
  }
}

bool isDeviceClosed(const Evidence& evidence, int process) {
  const std::vector<const Event*>& events = evidence.networkEvents(process);
  return std::ranges::any_of(events, [](const Event* event) { return event->check != "plugin-warning"; });
}

// Another plugin than the one that was asked for, or one that nobody asked for.
void judgePlugin(const Ranks& ranks, int index, const Process& process, Findings& findings) {
  if (process.plugin.value.empty()) return;
  const std::string asked = askedPlugin(process);
  Fact seen = process.plugin;
  if (!process.plugin_path.value.empty()) seen.value += ", " + process.plugin_path.value;
  const bool railwise = asked.find("railwise") != std::string::npos;
  if (railwise && !alike(process.plugin.value, "Railwise")) {
    const Reason wrong = {
        "wrong-plugin", "Railwise was asked for, and another plugin was loaded",
        "An other libnccl-net.so comes first in the path.",
        "export NCCL_NET_PLUGIN=/where/the/plugin/is/libnccl-net-railwise.so NCCL_NET=Railwise", seen};
    wrong.addTo(findings, ranks, index, Severity::kError);
  } else if (asked.empty() && !initFailed(process)) {
    std::string why =
        "libnccl-net.so lies in the dynamic linker's path: HPC-X, a cloud's image and others put it there.";
    if (process.settings.empty())
      why += " Or a setting names it: the log has no settings (NCCL_DEBUG_SUBSYS=INIT,ENV,NET).";
    const Reason unasked = {
        "unasked-plugin", "a plugin was loaded that no setting names", why,
        "export NCCL_NET_PLUGIN=none  # to do without it\nexport NCCL_NET_PLUGIN=railwise  # to use Railwise",
        seen};
    unasked.addTo(findings, ranks, index, Severity::kAdvice);
  }
}

// libfabric without RDMA.
bool isTcp(const Process& process) {
  return process.provider.value.starts_with("tcp") || process.provider.value.starts_with("sockets");
}

void judgeProvider(const Ranks& ranks, int index, const Process& process, Findings& findings) {
  if (!isTcp(process)) return;
  const Reason tcp = {"socket-network",
                      "the plugin runs libfabric over TCP, not RDMA",
                      "libfabric found no provider for RDMA: the EFA driver or device is missing.",
                      "fi_info -p efa; ls /dev/infiniband  # in the container",
                      {"libfabric's provider is " + process.provider.value, process.provider.place}};
  tcp.addTo(findings, ranks, index, Severity::kError);
}

bool onSeveralHosts(const Job& job) {
  std::set<std::string> hosts;
  for (const Process& process : job.processes)
    if (!process.host.empty()) hosts.insert(process.host);
  return hosts.size() > 1;
}

// Communicators with processes on several hosts, for releases that do not count nodes.
std::set<std::string> acrossHosts(const Job& job) {
  std::map<std::string, std::string> host_of;
  std::set<std::string> across;
  for (const Process& process : job.processes)
    for (const Init& init : process.inits)
      if (host_of.emplace(init.communicator, process.host).first->second != process.host)
        across.insert(init.communicator);
  return across;
}

// Does the process leave its node? Only there a network costs something.
bool usesNetwork(const Process& process, const std::set<std::string>& across) {
  if (process.nodes > 1) return true;
  if (process.nodes == 0 && std::ranges::any_of(process.inits, [&](const Init& init) {
        return across.count(init.communicator) > 0;
      }))
    return true;
  return std::ranges::any_of(process.connections,
                             [](const auto& kind) { return kind.first.starts_with("NET/Socket"); });
}

}  // namespace

const Fact* setting(const Process& process, const std::string& name) {
  const auto found = process.settings.find(name);
  return found == process.settings.end() ? nullptr : &found->second;
}

bool usesRdma(const Process& process) {
  return !process.network.empty() && process.network != "Socket" && !isTcp(process);
}

void judgeNetwork(const Evidence& evidence, const Ranks& ranks, Findings& findings) {
  const Job& job = evidence.job();
  const std::set<std::string> across = acrossHosts(job);
  std::vector<Ranks::Member> members(ranks.members());
  // A few lines alone do not say which processes are ranks.
  for (int i = 0; ranks.members().empty() && i < static_cast<int>(job.processes.size()); ++i)
    members.push_back({i, job.processes[static_cast<std::size_t>(i)]});
  for (const auto& [index, process] : members) {
    const std::optional<Reason> plugin = pluginProblem(process);
    const bool asked = !askedPlugin(process).empty() || !process.failed_plugins.empty();
    const bool socket = process.network == "Socket";
    // Without a line that counts ranks or nodes: the logs are of several hosts.
    const bool costs =
        usesNetwork(process, across) || (process.nodes == 0 && process.inits.empty() && onSeveralHosts(job));
    const bool lost = asked || (socket && costs);
    if (plugin) plugin->addTo(findings, ranks, index, lost ? Severity::kError : Severity::kAdvice);
    if (socket) {
      const Reason reason = socketReason(evidence, index, plugin);
      const bool error = costs || isDeviceClosed(evidence, index);
      Finding finding = {reason.check, error ? Severity::kError : Severity::kAdvice,
                         reason.what,  {ranks.seenAt(index, reason.seen)},
                         reason.why,   reason.fix};
      addExplaining(evidence, ranks, index, finding.seen);
      findings.add(std::move(finding));
    }
    judgePlugin(ranks, index, process, findings);
    judgeProvider(ranks, index, process, findings);
  }
}

}  // namespace railwise::doctor
