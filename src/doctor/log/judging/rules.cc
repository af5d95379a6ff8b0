// The rules: (check, conditions over the evidence) -> a cause and what to type. Sources: what NCCL does at
// the line (2.13 to 2.32), and threads in which people found the cause.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include "base/text/words.h"
#include "doctor/log/judging/evidence.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

enum class Answer { kNo, kUnknown, kYes };

struct Truth {
  Answer answer = Answer::kNo;
  std::string words;  // what shows it
};

Truth yesIf(bool holds, std::string words = "") {
  return {holds ? Answer::kYes : Answer::kNo, std::move(words)};
}

bool isOneOf(const std::string& word, const char* words, char separator) {
  const std::vector<std::string> all = splitAt(words, separator);
  return std::ranges::find(all, word) != all.end();
}

// ---- conditions

Truth status(const Situation& its, const char* numbers) {
  return yesIf(isOneOf(std::to_string(completionStatus(its.line)), numbers, ','));
}

Truth statusNot(const Situation& its, const char* numbers) {
  return yesIf(status(its, numbers).answer != Answer::kYes);
}

Truth words(const Situation& its, const char* text) { return yesIf(hasWords(its.line, text)); }

// By number, or in the words of the C library.
Truth error(const Situation& its, const char* number) {
  const std::string& line = its.line;
  const auto has = [&](const std::string& text) {
    const std::size_t at = line.find(text);
    const std::size_t end = at + text.size();
    return at != line.npos && (end == line.size() || line[end] < '0' || line[end] > '9');
  };
  return yesIf(has(std::strerror(std::atoi(number))) || has(std::string("failed with ") + number) ||
               has(std::string("errno ") + number) || has(std::string("(") + number + ")"));
}

// "22,110": one of these.
Truth errorOf(const Situation& its, const char* numbers) {
  for (const std::string& number : splitAt(numbers, ',')) {
    const Truth one = error(its, number.c_str());
    if (one.answer == Answer::kYes) return one;
  }
  return yesIf(false);
}

// "NAME" or "NAME=VALUE".
Truth set(const Situation& its, const char* text) {
  const std::string name(firstWord(text, "="));
  const Fact* const fact = its.setting(name);
  if (fact == nullptr) return {};
  const std::string_view value = after(text, "=");
  return yesIf(value.empty() || lowerCase(fact->value) == lowerCase(value),
               name + "=" + fact->value + " is set");
}

bool isOnHost(const Situation& its, const Process& process) {
  return its.process == nullptr || process.host == its.process->host || process.host == its.peer_host;
}

// On the connections between this host and its peer.
Truth gpuDirect(const Situation& its, const char*) {
  uint64_t connections = 0, direct = 0;
  bool enabled = false, known = false;
  for (const Process& process : its.evidence.job().processes) {
    if (!isOnHost(its, process)) continue;
    for (const auto& [way, each] : process.connections) {
      if (!way.starts_with("NET/")) continue;
      connections += each.number;
      direct += each.gpu_direct;
    }
    for (const auto& [nic, each] : process.gpu_direct) known = true, enabled = enabled || each.enabled;
  }
  if (connections > 0) return yesIf(direct > 0, "connections over the network are marked GDRDMA");
  if (known) return yesIf(enabled, "GPU Direct RDMA is enabled for the NICs");
  return {Answer::kUnknown, ""};
}

Truth noGpuDirect(const Situation& its, const char*) {
  const Truth direct = gpuDirect(its, "");
  if (direct.answer == Answer::kUnknown) return direct;
  return yesIf(direct.answer == Answer::kNo, "no connection over the network is marked GDRDMA");
}

// The log has no lengths of prefixes: that is a guess.
Truth otherSubnets(const Situation& its, const char*) {
  const std::string local = subnetOf(its.local_gid), remote = subnetOf(its.remote_gid);
  if (local.empty() || remote.empty()) return yesIf(false);  // not known, or link-local: alike everywhere
  return yesIf(local != remote);
}

// One end has an IPv4 address, the other a link-local one.
Truth otherKinds(const Situation& its, const char*) {
  if (its.local_gid.empty() || its.remote_gid.empty()) return yesIf(false);
  const bool local = its.local_gid.starts_with("fe80:"), remote = its.remote_gid.starts_with("fe80:");
  return yesIf(local != remote && (local ? its.remote_gid : its.local_gid).starts_with("::ffff:"));
}

Truth sameSubnet(const Situation& its, const char*) {
  if (its.remote_gid.empty() || subnetOf(its.local_gid).empty()) return {Answer::kUnknown, ""};
  return yesIf(otherSubnets(its, "").answer == Answer::kNo, "both ends are in " + subnetOf(its.local_gid));
}

Truth layersMixed(const Situation& its, const char*) {
  return yesIf(its.evidence.nics().mixed, "a list of NICs has both IB and RoCE");
}

Truth roce(const Situation& its, const char*) {
  if (its.process == nullptr || its.process->nics.empty())
    return {its.local_gid.find("::ffff:") != std::string::npos ? Answer::kYes : Answer::kUnknown, ""};
  return yesIf(std::ranges::any_of(its.process->nics, [](const Nic& nic) { return nic.link == "RoCE"; }));
}

// Seconds from the process's last sign of progress to the event; negative: not known.
double quietSeconds(const Situation& its) {
  if (its.process == nullptr || its.event == nullptr) return -1;
  const double from = secondsOf(its.process->progress_time), to = secondsOf(its.event->time);
  return from < 0 || to < 0 ? -1 : to - from;
}
constexpr double kEarlyS = 120;

Truth early(const Situation& its, const char*) {
  const double seconds = quietSeconds(its);
  return yesIf(seconds >= 0 && seconds < kEarlyS, "it failed within two minutes of its connections");
}

Truth late(const Situation& its, const char*) {
  const double seconds = quietSeconds(its);
  return yesIf(seconds >= kEarlyS,
               "it had worked for " + std::to_string(static_cast<int>(seconds / 60)) + " min");
}

// Not known to have worked for long.
Truth notLate(const Situation& its, const char*) { return yesIf(late(its, "").answer != Answer::kYes); }

Truth olderThan(const Situation& its, const char* release) {
  const std::string version = its.named("{version}");
  const int minor = numberAfter(version, "2.");
  if (!version.starts_with("2.") || minor < 0) return {Answer::kUnknown, ""};
  return yesIf(minor < std::atoi(release), "NCCL is " + version);
}

Truth onRdma(const Situation& its, const char*) {
  return yesIf(its.process != nullptr && !its.process->network.empty() && its.process->network != "Socket",
               its.process == nullptr ? "" : "its network is " + its.process->network);
}

// A line of the process's log that explains why Socket was taken.
Truth said(const Situation& its, const char* text) {
  if (its.process == nullptr) return {};
  if (hasWords(its.process->no_rdma.value, text))
    return yesIf(true, "\"" + its.process->no_rdma.value + "\"");
  return yesIf(hasWords(its.line, text));
}

Truth badInterface(const Situation& its, const char*) {
  return yesIf(!its.bad_interface.empty(), its.bad_interface + " is an interface that only its host has");
}

Truth peerFailed(const Situation& its, const char*) {
  return yesIf(!its.peer_host.empty() && (its.process == nullptr || its.peer_host != its.process->host) &&
                   its.evidence.hasCause(its.peer_host),
               "the log of " + its.peer_host + " has an error of its own");
}

Truth rightInterface(const Situation& its, const char*) {
  return yesIf(!its.peer_host.empty() && !its.peer_interface.empty() && its.bad_interface.empty(),
               "the address is that of " + its.peer_interface + " of " + its.peer_host);
}

Truth nicsDiffer(const Situation& its, const char*) {
  const Evidence::Nics& nics = its.evidence.nics();
  return yesIf(!nics.few.empty(), nics.most + " lists " + std::to_string(nics.number_most) + ", " + nics.few +
                                      " " + std::to_string(nics.number_few));
}

Truth versionsDiffer(const Situation& its, const char*) {
  const std::set<std::string>& versions = its.evidence.versions();
  return yesIf(versions.size() > 1, "the ranks run NCCL " + joined(versions, " and "));
}

Truth layersDiffer(const Situation& its, const char*) {
  const Evidence::Nics& nics = its.evidence.nics();
  return yesIf(!nics.only_ib.empty() && !nics.only_roce.empty(),
               nics.only_ib + " lists InfiniBand alone, " + nics.only_roce + " RoCE alone");
}

struct Condition {
  Truth (*test)(const Situation&, const char*) = nullptr;
  const char* argument = "";
};

using Conditions = std::array<Condition, 4>;
constexpr Conditions when(Condition one, Condition two = {}, Condition three = {}, Condition four = {}) {
  return {one, two, three, four};
}

struct Rule {
  const char* checks;  // "a|b"
  int likelihood;      // 3: if the conditions hold, it is so as a rule; 1: possible
  Conditions when;
  const char* cause;
  const char* fix;
};

constexpr char kRoutedFix[] =
    "ping -I {local_address} {remote_address}  # on {host}: does the fabric route between the two?\n"
    "give the hosts or the switches the missing route\n"
    "export NCCL_CROSS_NIC=0  # only where rails are kept apart: each NIC then talks to its own rail alone";
constexpr char kRoutedCause[] =
    "The two ends, {local_address} and {remote_address}, may be in different subnets. Then a route between "
    "them is "
    "missing (routed RoCE), or the fabric keeps its rails apart and NIC {nic} was paired with one of another "
    "rail.";
constexpr char kKindsCause[] =
    "The two ends have addresses (GIDs) of different kinds, {local_address} and {remote_address}: one is "
    "link-local, the other an IPv4 address of RoCE v2.";
constexpr char kKindsFix[] =
    "show_gids  # on both hosts: which NIC has no RoCE v2 entry with an IPv4 address?\n"
    "ip addr add <address>/<prefix> dev <interface of that NIC>\n"
    "unset NCCL_IB_GID_INDEX  # NCCL 2.21 and newer choose it";
constexpr char kOrderingCause[] =
    "Relaxed ordering of PCIe writes is forced. Where the NIC, libibverbs or a virtual machine does not keep "
    "what NCCL relies on, data and control messages overtake each other, and both ends see rubbish.";
constexpr char kOrderingFix[] =
    "unset NCCL_IB_PCI_RELAXED_ORDERING  # 2, the default, uses it only where libibverbs offers it";

constexpr Rule kRules[] = {
    {"completion-error|mismatched-collective|message-truncated", 3,
     when({set, "NCCL_IB_PCI_RELAXED_ORDERING=1"}, {statusNot, "12"}), kOrderingCause, kOrderingFix},
    {"memory-registration|verbs-call", 1, when({set, "NCCL_IB_PCI_RELAXED_ORDERING=1"}), kOrderingCause,
     kOrderingFix},
    {"completion-error", 3, when({status, "4,10"}, {gpuDirect}),
     "A NIC may not reach GPU memory over PCIe: ACS on a PCIe bridge, or an IOMMU that translates, sends the "
     "request up to the CPU, which refuses it.",
     "sudo lspci -vvv | grep ACSCtl  # on {host} and {peer}: ReqRedir+ or CmpltRedir+ means that ACS is on\n"
     "switch ACS off in the BIOS, or by setpci on each PCIe bridge; IOMMU off, or iommu=pt\n"
     "export NCCL_NET_GDR_LEVEL=LOC  # proof: without GPUDirect the job runs, slowly"},
    {"completion-error", 2, when({status, "4"}, {noGpuDirect}),
     "The memory that the NIC was given is not registered, or was freed while in use.",
     "export NCCL_NET_PLUGIN=none  # once: does NCCL's own network fail too?\n"
     "report it to the program's authors: a buffer was freed or registered anew while in use"},
    {"completion-error", 3, when({status, "12"}, {otherKinds}), kKindsCause, kKindsFix},
    {"completion-error", 2, when({status, "12"}, {otherSubnets}, {notLate}), kRoutedCause, kRoutedFix},
    {"completion-error", 3, when({status, "12"}, {set, "NCCL_IB_GID_INDEX"}, {sameSubnet}, {notLate}),
     "A fixed index of addresses is set; on one of the hosts this index may be another kind of address.",
     "unset NCCL_IB_GID_INDEX  # NCCL 2.21 and newer choose it\nshow_gids  # on {host} and {peer}"},
    {"completion-error", 2, when({status, "12"}, {early}, {roce}),
     "The packets never arrived: the kind of address (GID), VLAN, MTU, PFC class or a firewall between the "
     "two hosts.",
     "show_gids  # on {host} and {peer}: the same kind of address\nib_write_bw -d {nic} -R {peer}"},
    {"completion-error", 3, when({status, "12"}, {late}),
     "The connection had worked: a link, a cable, a switch or the peer went away.",
     "dmesg -T | grep -E 'mlx5|AER'  # on {peer} and {host}, at that time\nibstat {nic}"},

    {"queue-pair", 3, when({otherKinds}), kKindsCause, kKindsFix},
    {"queue-pair", 2, when({errorOf, "101,110,113"}, {otherSubnets}), kRoutedCause, kRoutedFix},
    {"queue-pair", 3, when({layersMixed}),
     "InfiniBand and RoCE NICs stand in one list, and NCCL pairs the NICs of two hosts by their place in it: "
     "IB then meets RoCE.",
     "export NCCL_IB_HCA={nics_of_most}  # on all ranks: NICs of one kind"},
    {"queue-pair", 3, when({set, "NCCL_IB_GID_INDEX"}, {errorOf, "19,22,101,110"}),
     "A fixed index of addresses is set, and it does not fit on one of the ends.",
     "unset NCCL_IB_GID_INDEX  # NCCL 2.21 and newer choose it\nshow_gids  # on {host} and {peer}"},
    {"queue-pair", 3, when({error, "19"}),
     "The NIC's network interface belongs to another network namespace: the container was given the NIC "
     "without its interface, or the interface of another NIC.",
     "cat /sys/class/infiniband/*/ports/1/gid_attrs/ndevs/*  # in the container: NICs with an interface "
     "here\n"
     "export NCCL_IB_HCA=<these NICs>\ndocker run --network host ..."},
    {"queue-pair", 2, when({error, "22"}, {roce}, {olderThan, "21"}),
     "NCCL before 2.21 takes the first address of the port, which routers do not carry.",
     "show_gids  # on {host}: the index of the RoCE v2 entry with the IPv4 address\n"
     "export NCCL_IB_GID_INDEX=<this index>"},
    {"gid-type", 3, when({olderThan, "26"}),
     "In a pod with macvlan or SR-IOV the first entries of a RoCE port's address table belong to other "
     "network namespaces, and NCCL 2.21 to 2.25 stops when it reads their type.",
     "use NCCL 2.26 or newer, which skips such entries (here: {version}); Railwise skips them too\n"
     "export NCCL_IB_GID_INDEX=<an index that show_gids lists in this pod>"},

    {"ranks-mismatch|message-truncated|mismatched-collective|connection-stranger", 3, when({versionsDiffer}),
     "The ranks run different NCCL versions, which misread each other's messages.",
     "install one NCCL on all nodes: python -c 'import torch; print(torch.cuda.nccl.version())'"},
    {"differ-nics|queue-pair", 3, when({layersDiffer}), "InfiniBand and RoCE cannot talk to each other.",
     "ibstat | grep -E \"CA '|Link layer\"  # on both hosts\n"
     "export NCCL_IB_HCA=<NICs of one kind>  # on all ranks, if both hosts have them\n"
     "mlxconfig -d {PCI_address} set LINK_TYPE_P1=1  # if the cable is InfiniBand's; 2: Ethernet; then a "
     "reset"},

    {"socket-interface", 3, when({set, "NCCL_SOCKET_IFNAME"}),
     "NCCL_SOCKET_IFNAME={ifname} names no interface of {host}; other hosts may have it under this name.",
     "export NCCL_SOCKET_IFNAME={ifname},<the name on {host}>  # ip -br address; names are prefixes, one "
     "list for all hosts\n"
     "or per host: NCCL_SOCKET_IFNAME=... in /etc/nccl.conf\n"
     "unset NCCL_SOCKET_IFNAME  # NCCL then chooses"},
    {"connection-refused", 3, when({badInterface}),
     "NCCL has taken {bad_interface} into its list, and the data go over a wire that the other hosts are not "
     "on (veth, docker, link-local).",
     "export NCCL_SOCKET_IFNAME={interface}  # on all ranks: an interface by which all hosts reach each "
     "other\n"
     "export NCCL_SOCKET_IFNAME=^lo,docker,veth,br-,cali,flannel,usb  # or: all but these"},
    {"connection-refused", 3, when({peerFailed}), "The peer failed first: {peer} has the reason.",
     "look at the log of {peer}"},
    {"connection-refused", 3, when({rightInterface}),
     "The interface is the right one, and {peer} does not answer there: its process has ended, or a firewall "
     "between the hosts drops what is not its own.",
     "look at the log of {peer}, and at the host: does its process run?\n"
     "sudo iptables -S; sudo nft list ruleset  # on {peer}: NCCL uses any port above 1023 between its hosts"},
    {"shared-memory", 3, when({words, "shm|hared memory"}, {error, "2"}),
     "The segment of the other rank does not exist here: the two ranks are in containers that do not share "
     "/dev/shm, or the other rank was started anew.",
     "docker run --ipc=host ...  # for both ranks, or one pod with all ranks of the host\n"
     "export NCCL_HOSTID=<another value in each container>  # they then use the network"},
    {"shared-memory", 3, when({words, "shm|hared memory"}, {error, "13"}),
     "A segment of another user, or a /dev/shm without the right to write.",
     "ls -ld /dev/shm; ls -l /dev/shm/nccl-*"},
    {"mixed-nics", 3, when({nicsDiffer}),
     "Of {many} NICs {host_few} offers {few}: {missing} is missing there.",
     "ibstat; railwise devices  # on {host_few}: why is {missing} not there?\n"
     "export NCCL_IB_HCA={nics_common}  # or: on all ranks, the NICs that all hosts have\n"
     "leave NCCL_IGNORE_NET_MISMATCH=0: with 1, NCCL's default, connections over {missing} wait for ever"},
    {"differ-nics|watchdog", 3, when({set, "NCCL_IGNORE_NET_MISMATCH=1"}, {nicsDiffer}),
     "The check of NIC counts is off: connections over {missing}, which {host_few} lacks, wait for ever.",
     "export NCCL_IGNORE_NET_MISMATCH=0  # 1 is the default: an error in place of a hang\n"
     "export NCCL_IB_HCA={nics_common}  # on all ranks: the NICs that all hosts have\n"
     "ibstat; railwise devices  # on {host_few}"},
    {"watchdog", 2, when({set, "NCCL_IB_TIMEOUT=0"}),
     "NCCL_IB_TIMEOUT=0 lets a NIC wait without end: a peer that is gone is never reported.",
     "export NCCL_IB_TIMEOUT=20"},
    {"device-closed", 3, when({onRdma}),
     "{nic} is there and may not be opened: another container has it, or it is a virtual function that was "
     "given away. NCCL goes on with the other NICs ({nics_used}).",
     "export NCCL_IB_HCA={nics_used}  # leaves it out, and the warning too"},

    {"socket-network", 3, when({set, "NCCL_NET=Socket"}), "NCCL_NET=Socket asks for it.", "unset NCCL_NET"},
    {"socket-network", 3, when({said, "OFI"}),
     "The plugin aws-ofi-nccl found no provider for RDMA (efa) and gave up, so NCCL took Socket. That NCCL's "
     "own IB network finds no device is normal there.",
     "fi_info -p efa; ls /dev/infiniband  # on the host, then in the container\n"
     "lsmod | grep efa  # EFA's driver; give the container the devices: --device=/dev/infiniband\n"
     "the EFA interfaces' security group must allow all traffic to itself"},
    {"socket-network", 3, when({said, "open device|ibv_open_device"}),
     "{nic} is there and could not be opened, so NCCL found no device: as a rule a container without "
     "/dev/infiniband, or too little memory that may be locked.",
     "docker run --device=/dev/infiniband --ulimit memlock=-1 ...  # Kubernetes: the RDMA device plugin\n"
     "ls -l /dev/infiniband; ulimit -l  # in the container\n"
     "apt install ibverbs-providers  # RHEL: dnf install libibverbs rdma-core"},
    {"socket-network", 3, when({said, "ibverbs"}),
     "The library libibverbs.so.1 cannot be loaded, as a rule since the image lacks it, so NCCL found no "
     "RDMA device.",
     "apt install libibverbs1 ibverbs-providers  # in the image; RHEL: dnf install libibverbs rdma-core\n"
     "docker run --device=/dev/infiniband ...  # after that"},
};

struct Found {
  int score = 0;
  bool certain = true;
  const Rule* rule = nullptr;
  std::vector<std::string> shown;
};

// The rules that the evidence does not exclude, the likeliest first.
std::vector<Found> fittingRules(const Situation& situation, const std::string& check) {
  std::vector<Found> fitting;
  for (const Rule& rule : kRules) {
    if (!isOneOf(check, rule.checks, '|')) continue;
    Found found = {rule.likelihood * 10, true, &rule, {}};
    bool excluded = false;
    for (const Condition& condition : rule.when) {
      if (condition.test == nullptr) continue;
      const Truth truth = condition.test(situation, condition.argument);
      excluded = excluded || truth.answer == Answer::kNo;
      found.certain = found.certain && truth.answer == Answer::kYes;
      if (truth.answer == Answer::kYes) ++found.score;
      if (!truth.words.empty()) found.shown.push_back(truth.words);
    }
    if (excluded) continue;
    if (!found.certain) found.score = 10;
    fitting.push_back(std::move(found));
  }
  std::ranges::stable_sort(fitting, std::greater<>(), &Found::score);
  return fitting;
}

constexpr int kCertain = 30;
constexpr std::size_t kMostCauses = 3;

}  // namespace

bool ruleHolds(const Situation& situation, const std::string& check) {
  const std::vector<Found> fitting = fittingRules(situation, check);
  return !fitting.empty() && fitting.front().score >= kCertain;
}

Advice adviceOf(const Situation& situation, const std::string& check, const Advice& general) {
  const std::vector<Found> fitting = fittingRules(situation, check);
  const bool certain = !fitting.empty() && fitting.front().score >= kCertain;
  const bool likely = !fitting.empty() && fitting.front().certain;
  Advice advice;
  const auto add = [&](const std::string& why, const std::string& fix) {
    advice.why += (advice.why.empty() ? "" : " Or: ") + why;
    advice.fix += (advice.fix.empty() || fix.empty() ? "" : "\n") + fix;
  };
  if (!likely) add(general.why, general.fix);
  for (std::size_t i = 0; i < std::min(fitting.size(), kMostCauses); ++i) {
    const auto& [score, sure, rule, shown] = fitting[i];
    if (certain && !sure) continue;
    add(rule->cause + (shown.empty() ? std::string() : " (" + firstItems(shown, 4) + ".)"), rule->fix);
  }
  if (likely && !certain) add(general.why, general.fix);
  return {situation.named(advice.why), situation.named(advice.fix)};
}

}  // namespace railwise::doctor
