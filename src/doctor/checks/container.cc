// Limits of this process, and what a container keeps from it.
#include <array>
#include <cstdlib>

#include "doctor/checks/check.h"

namespace railwise::doctor {
namespace {

constexpr char kLimits[] = "/proc/self/limits";
constexpr unsigned long long kUnlimited = ~0ULL;

// Soft and hard limit of a line of /proc/self/limits. Null: there is none.
struct Limit {
  unsigned long long soft, hard;
};
std::optional<Limit> limitOf(const System& system, const std::string& name) {
  const auto value = [](const std::string& word) {
    return word == "unlimited" ? kUnlimited : std::strtoull(word.c_str(), nullptr, 10);
  };
  for (const std::string& line : linesOf(system.text(kLimits))) {
    if (!line.starts_with(name)) continue;
    const std::vector<std::string> words = wordsOf(std::string_view(line).substr(name.size()));
    if (words.size() >= 2) return Limit{value(words[0]), value(words[1])};
  }
  return {};
}

std::string limitText(unsigned long long bytes) {
  return bytes == kUnlimited ? "unlimited" : std::to_string(bytes >> 10) + " KiB";
}

std::string memlockFix(const System& system) {
  const std::string container = system.container();
  if (container == "kubernetes")
    return "add the capability IPC_LOCK to the pod (securityContext.capabilities.add), or raise LimitMEMLOCK "
           "of containerd";
  if (!container.empty()) return "start the container with --ulimit memlock=-1 (docker, podman)";
  const bool slurm = system.variable("SLURM_JOB_ID") != nullptr;
  return std::string(
             "printf '* soft memlock unlimited\\n* hard memlock unlimited\\n' | sudo tee "
             "/etc/security/limits.d/90-rdma.conf    (then log in again)") +
         (slurm ? "\nSlurm: LimitMEMLOCK=infinity in slurmd.service, and "
                  "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf"
                : "\nA service of systemd: LimitMEMLOCK=infinity");
}

void checkMemlock(Examination& exam) {
  constexpr int kIpcLock = 14;                          // CAP_IPC_LOCK: no limit
  constexpr unsigned long long kEnough = 1ULL << 30;    // NCCL's buffers of one rank on eight NICs
  constexpr unsigned long long kNothing = 64ULL << 20;  // not even a few connections
  const auto limit = limitOf(exam.system, "Max locked memory");
  if (!limit || exam.ports.empty() || exam.skipSimulated() || exam.system.hasCapability(kIpcLock)) return;
  if (limit->soft >= kEnough) return;
  exam.add(limit->soft < kNothing ? Severity::kError : Severity::kWarning,
           "the limit for locked memory is too low for RDMA",
           {{"", kLimits, "Max locked memory " + limitText(limit->soft)}},
           "Registration of buffers and the making of queue pairs fail with \"Cannot allocate memory\".",
           memlockFix(exam.system));
}

void checkOpenFiles(Examination& exam) {
  constexpr unsigned long long kEnough = 4096;  // NCCL raises the soft limit to the hard one
  const auto limit = limitOf(exam.system, "Max open files");
  if (!limit || limit->hard >= kEnough) return;
  exam.add(Severity::kWarning, "a process may open few files",
           {{"", kLimits, "Max open files " + std::to_string(limit->hard)}},
           "A rank of a large job has a socket for each peer: bootstrap fails with \"Too many open files\".",
           exam.system.container().empty() ? "printf '* hard nofile 1048576\\n' | sudo tee "
                                             "/etc/security/limits.d/91-nofile.conf    (then log in again)"
                                           : "start the container with --ulimit nofile=1048576");
}

// The bytes of a tmpfs: "size=65536k" in the options of its mount. 0: not known or not limited.
unsigned long long mountBytes(const std::string& options) {
  const auto at = options.find("size=");
  if (at == std::string::npos) return 0;
  char* end = nullptr;
  const unsigned long long size = std::strtoull(options.c_str() + at + 5, &end, 10);
  return *end == 'k' ? size << 10 : *end == 'm' ? size << 20 : *end == 'g' ? size << 30 : size;
}

void checkSharedMemory(Examination& exam) {
  constexpr unsigned long long kEnough = 1ULL << 30;
  for (const std::string& line : linesOf(exam.system.text("/proc/self/mountinfo"))) {
    const std::vector<std::string> words = wordsOf(line);
    if (words.size() < 5 || words[4] != "/dev/shm") continue;
    const unsigned long long bytes = mountBytes(words.back());
    if (bytes == 0 || bytes >= kEnough) continue;
    exam.add(Severity::kWarning, "/dev/shm is small",
             {{"", "/proc/self/mountinfo", "/dev/shm " + limitText(bytes)}},
             "NCCL's buffers between ranks of one machine lie there (some 10 MiB for each pair): init fails "
             "with \"No space left on device\".",
             exam.system.container() == "kubernetes"
                 ? "mount an emptyDir with medium: Memory at /dev/shm in the pod"
                 : "start the container with --ipc=host, or --shm-size=16g");
  }
}

void checkMaskedSys(Examination& exam) {
  const std::string container = exam.system.container();
  if (container.empty() || !exam.system.exists("/sys/class")) return;
  std::vector<Seen> seen;
  for (const char* path : {"/sys/bus/pci/devices", "/sys/devices/system/node"})
    if (exam.system.tree().list(path).empty()) seen.push_back({"", path, "empty or missing"});
  exam.add(Severity::kWarning, "the container hides parts of /sys", std::move(seen),
           "NCCL and Railwise cannot see the PCIe tree: every NIC is equally far, and GPUDirect RDMA is off.",
           "start the container with -v /sys:/sys:ro, or give NCCL a topology file made on the host:\n"
           "railwise topo show -f xml > topo.xml; export NCCL_TOPO_FILE=topo.xml");
}

void checkNetworkNamespace(Examination& exam) {
  // The GID table names interfaces of the host; in another network namespace they are not there.
  for (const RdmaPort& port : exam.ports) {
    if (!port.roce() || port.simulated || port.not_given || port.interface.empty()) continue;
    if (exam.system.container().empty()) continue;
    if (exam.system.exists("/sys/class/net/" + port.interface)) continue;
    exam.add(Severity::kError, "its interface is not in this container's network namespace",
             {{port.label(), "/sys/class/net/" + port.interface, "missing"}},
             "Connections over the port fail: the kernel gives its GIDs to processes of the other namespace "
             "alone.",
             "start the container with --network host (Kubernetes: hostNetwork: true, or an SR-IOV network "
             "for each NIC)");
  }
}

void checkSeccomp(Examination& exam) {
  const std::string result = exam.system.access("process_vm_readv");
  if (result.empty() || result == "ok") return;
  exam.add(
      Severity::kAdvice, "processes may not read each other's memory", {{"", "process_vm_readv", result}},
      "Railwise's software device copies through shared memory then, which is slower. NICs do not need it.",
      "start the container with --cap-add=SYS_PTRACE (docker, podman)");
}

constexpr std::array<Check, 6> kContainerChecks = {
    {{"memlock", "container", "the limit for locked memory", checkMemlock, Needs::kPort},
     {"open-files", "container", "the limit for open files", checkOpenFiles},
     {"shm-size", "container", "the size of /dev/shm", checkSharedMemory},
     {"sys-masked", "container", "parts of /sys that a container hides", checkMaskedSys},
     {"host-network", "container", "RoCE interfaces in another network namespace", checkNetworkNamespace},
     {"seccomp", "container", "filters of system calls", checkSeccomp}}};

}  // namespace

std::span<const Check> containerChecks() { return kContainerChecks; }

}  // namespace railwise::doctor
