#include "doctor/facts/gather.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/interfaces.h"
#include "base/log.h"
#include "base/process.h"
#include "doctor/facts/netlink.h"
#include "doctor/facts/rdma_ports.h"
#include "doctor/facts/system.h"
#include "verbs/library.h"
#include "verbs/port.h"

namespace railwise::doctor {
namespace {

// The end of a child's answer.
constexpr std::string_view kWhole = "whole\n";

// A driver that has not answered within this time is broken.
constexpr std::chrono::seconds kDriverLimit{2};

// What concerns a job of NCCL's. Other variables may hold secrets and stay where they are.
bool concernsJobs(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {
      "NCCL_",     "nccl_",  "RAILWISE_",        "RCCL_",     "TORCH_NCCL_",
      "OFI_NCCL_", "SLURM_", "OMPI_COMM_WORLD_", "PMIX_RANK", "UCX_NET_DEVICES"};
  static constexpr std::string_view kNames[] = {"LD_LIBRARY_PATH",
                                                "LD_PRELOAD",
                                                "CUDA_VISIBLE_DEVICES",
                                                "HIP_VISIBLE_DEVICES",
                                                "ROCR_VISIBLE_DEVICES",
                                                "MASTER_ADDR",
                                                "MASTER_PORT",
                                                "WORLD_SIZE",
                                                "RANK",
                                                "LOCAL_RANK",
                                                "LOCAL_WORLD_SIZE",
                                                "HOME",
                                                "VIRTUAL_ENV",
                                                "CONDA_PREFIX",
                                                "KUBERNETES_SERVICE_HOST",
                                                "SUDO_USER",
                                                "CUDA_HOME",
                                                "NVIDIA_VISIBLE_DEVICES"};
  // Of Slurm's hundreds only what a check reads.
  static constexpr std::string_view kSlurm[] = {"SLURM_JOB_ID", "SLURM_CPUS_PER_TASK",
                                                "SLURM_NTASKS_PER_NODE", "SLURM_NNODES", "SLURM_NTASKS"};
  for (const std::string_view known : kNames)
    if (name == known) return true;
  if (name.starts_with("SLURM_")) {
    for (const std::string_view known : kSlurm)
      if (name == known) return true;
    return false;
  }
  for (const std::string_view prefix : kPrefixes)
    if (name.starts_with(prefix)) return true;
  return false;
}

std::string environmentText(const char* const* environment) {
  std::string text;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos || !concernsJobs(entry.substr(0, equals))) continue;
    // A line break in a value would begin another variable.
    if (entry.find('\n') != std::string_view::npos) continue;
    text.append(entry).append("\n");
  }
  return text;
}

const char* errnoName(int error) {
  const char* name = strerrorname_np(error);
  return name == nullptr ? "unknown" : name;
}

std::string openResult(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return path + " " + errnoName(errno) + "\n";
  ::close(fd);
  return path + " ok\n";
}

std::string accessText(const sysfs::FileTree& machine) {
  std::string text;
  for (const std::string& node : machine.list("/sys/class/infiniband_verbs"))
    if (node.starts_with("uverbs")) text += openResult("/dev/infiniband/" + node);
  text += openResult("/dev/infiniband/rdma_cm");
  char from = 1;
  char to = 0;
  const iovec local = {&to, 1};
  const iovec remote = {&from, 1};
  const bool read = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
  return text + "process_vm_readv " + (read ? "ok" : errnoName(errno)) + "\n";
}

// "10.0.0.17" of "10.0.0.17:0", "fe80::1" of "[fe80::1%4]:0".
std::string hostOf(std::string address) {
  address.resize(std::min(address.rfind(':'), address.size()));
  if (!address.starts_with('[')) return address;
  return address.substr(1, address.find_first_of("%]") - 1);
}

std::string interfacesText() {
  std::string text;
  for (const Interface& interface : listInterfaces("", AF_UNSPEC))
    text += interface.name + " " + hostOf(interface.address.text()) + "\n";
  return text;
}

// What `answer` writes in a child process, and "* 0 answer=late" behind it if that takes longer than the
// limit or ends before its time: a broken driver must not take the doctor along.
std::string answerOfChild(const std::function<std::string()>& answer) {
  ProcessPlan plan;
  plan.body = [&](std::string& text) {
    text = answer().append(kWhole);
    return 0;
  };
  std::string text;
  if (Outcome<Process> child = Process::start(plan); child.ok())
    text = child->receiveAll(Deadline::after(kDriverLimit));
  if (!text.ends_with(kWhole)) return text.substr(0, text.rfind('\n') + 1) + "* 0 answer=late\n";
  return text.substr(0, text.size() - kWhole.size());
}

int mtuBytes(ibv_mtu mtu) { return 128 << static_cast<int>(mtu); }

void logNothing(int, unsigned long, const char*, int, const char*, ...) {}

std::string verbsText(const Config& config) {
  log::setSink(&logNothing);
  if (!verbs::load(config).ok()) return {};
  std::string text;
  int count = 0;
  ibv_device** const devices = verbs::library().get_device_list(&count);
  for (int i = 0; devices != nullptr && i < count; ++i) {
    const std::string name = verbs::library().get_device_name(devices[i]);
    ibv_context* const context = verbs::library().open_device(devices[i]);
    if (context == nullptr) {
      text += name + " 0 open=" + errnoName(errno) + "\n";
      continue;
    }
    constexpr uint8_t kMostPorts = 8;
    for (uint8_t number = 1; number <= kMostPorts; ++number) {
      const Result<verbs::Port> port = verbs::queryPort(context, number);
      if (!port.ok()) break;
      text += name + " " + std::to_string(number) + " active_mtu=" + std::to_string(mtuBytes(port->mtu)) +
              " max_mtu=" + std::to_string(mtuBytes(port->max_mtu)) + "\n";
    }
    verbs::library().close_device(context);
  }
  return text;
}

void gatherInterfaces(const System& system, const std::vector<RdmaPort>& ports, sysfs::MemoryTree& facts) {
  for (const RdmaPort& port : ports) {
    if (port.interface.empty() || port.simulated) continue;
    for (const std::string& interface : physicalInterfaces(system, port.interface))
      if (const std::string dcb = dcbText(interface); !dcb.empty()) facts.file(kDcbFolder + interface, dcb);
    if (const int mbps = fastestLinkMode(port.interface); mbps > 0)
      facts.file(kLinkModesFolder + port.interface, std::to_string(mbps) + "\n");
  }
}

// All counters of a port, below `folder`.
void copyCounters(const sysfs::FileTree& machine, const std::vector<RdmaPort>& ports,
                  const std::string& folder, sysfs::MemoryTree& facts) {
  for (const RdmaPort& port : ports) {
    for (const char* kind : {"/counters", "/hw_counters"}) {
      for (const std::string& name : machine.list(port.folder + kind)) {
        const std::string path = port.folder + kind + "/" + name;
        if (const auto value = machine.read(path)) facts.file(folder + path, *value);
      }
    }
  }
}

}  // namespace

sysfs::MemoryTree gatherFacts(const sysfs::FileTree& machine, const GatherOptions& options,
                              const Config& config) {
  sysfs::MemoryTree facts("facts of this machine");
  facts.file(kEnvironmentFile, environmentText(options.environment));
  const System system(machine);
  const std::vector<RdmaPort> ports = rdmaPorts(system);
  const Clock::time_point begin = Clock::now();
  if (options.watch.count() > 0) copyCounters(machine, ports, "", facts);
  facts.file(kAccessFile, answerOfChild([&] { return accessText(machine); }));
  facts.file(kInterfacesFile, interfacesText());
  gatherInterfaces(system, ports, facts);
  if (!ports.empty()) facts.file(kVerbsFile, answerOfChild([&] { return verbsText(config); }));
  if (options.watch.count() > 0 && !ports.empty()) {
    std::this_thread::sleep_until(begin + options.watch);
    copyCounters(machine, ports, kLaterFolder, facts);
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    facts.file(kLaterFile, std::to_string(passed.count()) + "\n");
  }
  return facts;
}

}  // namespace railwise::doctor
