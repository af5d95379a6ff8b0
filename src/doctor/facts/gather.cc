#include "doctor/facts/gather.h"

#include <fcntl.h>
#include <linux/dcbnl.h>
#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/interfaces.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text/text_layout.h"
#include "doctor/facts/rdma_ports.h"
#include "doctor/facts/system.h"
#include "verbs/library.h"
#include "verbs/port.h"

namespace railwise::doctor {
namespace {

void append(std::string& message, const void* bytes, std::size_t size) {
  message.append(static_cast<const char*>(bytes), size);
  message.append(NLMSG_ALIGN(size) - size, '\0');
}

// RTM_GETDCB with the command IEEE_GET for one interface.
std::string request(const std::string& interface) {
  dcbmsg dcb = {};
  dcb.dcb_family = AF_UNSPEC;
  dcb.cmd = DCB_CMD_IEEE_GET;
  std::string body;
  append(body, &dcb, sizeof dcb);
  rtattr name = {};
  name.rta_type = DCB_ATTR_IFNAME;
  name.rta_len = static_cast<unsigned short>(RTA_LENGTH(interface.size() + 1));
  body.append(reinterpret_cast<const char*>(&name), sizeof name);
  append(body, interface.c_str(), interface.size() + 1);
  nlmsghdr header = {};
  header.nlmsg_len = static_cast<uint32_t>(NLMSG_LENGTH(body.size()));
  header.nlmsg_type = RTM_GETDCB;
  header.nlmsg_flags = NLM_F_REQUEST;
  std::string message(reinterpret_cast<const char*>(&header), sizeof header);
  return message + body;
}

// Calls `visit` for each attribute in `bytes`.
void forAttributes(std::string_view bytes, const std::function<void(unsigned, std::string_view)>& visit) {
  while (bytes.size() >= sizeof(rtattr)) {
    rtattr attribute;
    std::memcpy(&attribute, bytes.data(), sizeof attribute);
    if (attribute.rta_len < sizeof attribute || attribute.rta_len > bytes.size()) return;
    visit(attribute.rta_type & NLA_TYPE_MASK,
          bytes.substr(sizeof attribute, attribute.rta_len - sizeof attribute));
    bytes.remove_prefix(std::min<std::size_t>(RTA_ALIGN(attribute.rta_len), bytes.size()));
  }
}

void appendPfc(std::string_view bytes, std::string& text) {
  ieee_pfc pfc = {};
  if (bytes.size() < offsetof(ieee_pfc, requests)) return;
  std::memcpy(&pfc, bytes.data(), std::min(bytes.size(), sizeof pfc));
  text += formatText("pfc 0x%02x\n", pfc.pfc_en);
}

// Where the driver maps DSCPs, it trusts them.
void appendApps(std::string_view table, std::string& text) {
  bool dscp = false;
  forAttributes(table, [&](unsigned, std::string_view bytes) {
    dcb_app app = {};
    if (bytes.size() < sizeof app) return;
    std::memcpy(&app, bytes.data(), sizeof app);
    if (app.selector != IEEE_8021QAZ_APP_SEL_DSCP) return;
    dscp = true;
    text += "dscp " + std::to_string(app.protocol) + " " + std::to_string(app.priority) + "\n";
  });
  if (dscp) text += "trust dscp\n";
}

// The link modes of `enum ethtool_link_mode_bit_indices` with the speeds of RDMA NICs: first and last bit of
// a run, Mb/s. Source: Linux 6.12, include/uapi/linux/ethtool.h.
struct Modes {
  unsigned first, last;
  int mbps;
};
constexpr Modes kModes[] = {{12, 12, 10000},  {18, 20, 10000},    {23, 26, 40000},    {27, 30, 56000},
                            {31, 33, 25000},  {34, 35, 50000},    {36, 39, 100000},   {40, 40, 50000},
                            {42, 46, 10000},  {52, 56, 50000},    {57, 61, 100000},   {62, 66, 200000},
                            {69, 73, 400000}, {75, 79, 100000},   {80, 84, 200000},   {85, 89, 400000},
                            {93, 98, 800000}, {103, 108, 200000}, {109, 114, 400000}, {115, 120, 800000}};

constexpr std::size_t kMostWords = 127;  // link_mode_masks_nwords is an s8

// The end of a child's answer.
constexpr std::string_view kWhole = "whole\n";

// A driver that has not answered within this time is broken.
constexpr std::chrono::seconds kDriverLimit{2};

// What concerns a job of NCCL's. Other variables may hold secrets and stay where they are.
bool concernsJobs(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {
      "NCCL_",     "nccl_",          "RAILWISE_", "RCCL_", "TORCH_NCCL_", "OFI_NCCL_", "OMPI_COMM_WORLD_",
      "PMIX_RANK", "UCX_NET_DEVICES"};
  // Of Slurm's hundreds only what a check reads.
  static const std::vector<std::string> kNames = wordsOf(
      "LD_LIBRARY_PATH LD_PRELOAD CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES MASTER_ADDR "
      "MASTER_PORT WORLD_SIZE RANK LOCAL_RANK LOCAL_WORLD_SIZE HOME VIRTUAL_ENV CONDA_PREFIX "
      "KUBERNETES_SERVICE_HOST SUDO_USER CUDA_HOME NVIDIA_VISIBLE_DEVICES SLURM_JOB_ID SLURM_CPUS_PER_TASK "
      "SLURM_NTASKS_PER_NODE SLURM_NNODES SLURM_NTASKS");
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  const bool misspelt =
      strncasecmp(name.data(), "RAILWISE_", std::min<std::size_t>(name.size(), 9)) == 0 && name.size() > 9;
  return misspelt || std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kPrefixes, begins);
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

constexpr const char* kFlowControlWords[] = {"pause", "discard", "drop", "storm"};

void gatherInterfaces(const System& system, const std::vector<RdmaPort>& ports, sysfs::MemoryTree& facts) {
  for (const RdmaPort& port : ports) {
    if (port.interface.empty() || port.simulated) continue;
    for (const std::string& interface : physicalInterfaces(system, port.interface))
      if (const std::string dcb = dcbText(interface); !dcb.empty()) facts.file(kDcbFolder + interface, dcb);
    if (const int mbps = fastestLinkMode(port.interface); mbps > 0)
      facts.file(kLinkModesFolder + port.interface, std::to_string(mbps) + "\n");
  }
}

// Counters of what the flow control of a port does, and of what it loses nevertheless.
bool isOfFlowControl(const std::string& name) {
  return std::ranges::any_of(kFlowControlWords,
                             [&](const char* word) { return name.find(word) != std::string::npos; });
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
    if (port.interface.empty() || port.simulated) continue;
    for (const auto& [name, value] : ethernetCounters(port.interface))
      if (isOfFlowControl(name))
        facts.file(folder + kEthernetCounters + port.interface + "/" + name, std::to_string(value) + "\n");
  }
}

}  // namespace

sysfs::MemoryTree gatherFacts(const sysfs::FileTree& machine, const GatherOptions& options,
                              const Config& config) {
  sysfs::MemoryTree facts("facts of this machine");
  facts.file(kEnvironmentFile, environmentText(options.environment));
  const std::string software_device = verbs::softwareDeviceFile(config);
  if (!software_device.empty()) facts.file(kSoftwareDeviceFile, software_device + "\n");
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

std::string dcbText(const std::string& interface) {
  const Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  const timeval limit = {.tv_sec = 0, .tv_usec = 200000};
  if (!socket.valid() || interface.size() >= IFNAMSIZ) return {};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const std::string message = request(interface);
  if (::send(socket.get(), message.data(), message.size(), 0) != static_cast<ssize_t>(message.size()))
    return {};
  std::string answer(16384, '\0');
  const ssize_t got = ::recv(socket.get(), answer.data(), answer.size(), 0);
  constexpr std::size_t kHeaders = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(dcbmsg));
  if (got < static_cast<ssize_t>(kHeaders)) return {};
  nlmsghdr header;
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type != RTM_GETDCB) return {};  // an error: no DCB
  std::string text;
  const auto body = std::string_view(answer).substr(kHeaders, static_cast<std::size_t>(got) - kHeaders);
  forAttributes(body, [&](unsigned type, std::string_view ieee) {
    if (type != DCB_ATTR_IEEE) return;
    forAttributes(ieee, [&](unsigned inner, std::string_view bytes) {
      if (inner == DCB_ATTR_IEEE_PFC) appendPfc(bytes, text);
      if (inner == DCB_ATTR_IEEE_APP_TABLE) appendApps(bytes, text);
    });
  });
  return text;
}

// One call of ethtool. False: the driver does not answer.
static bool askEthtool(const std::string& interface, void* data) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || interface.size() >= IFNAMSIZ) return false;
  ifreq asked = {};
  std::memcpy(asked.ifr_name, interface.c_str(), interface.size() + 1);
  asked.ifr_data = static_cast<char*>(data);
  return ::ioctl(socket.get(), SIOCETHTOOL, &asked) == 0;
}

std::vector<std::pair<std::string, uint64_t>> ethernetCounters(const std::string& interface) {
  // Words, aligned for what ethtool writes behind its headers: here one number.
  std::vector<uint64_t> words(sizeof(ethtool_sset_info) / sizeof(uint64_t) + 1);
  auto* const sets = reinterpret_cast<ethtool_sset_info*>(words.data());
  *sets = {};
  sets->cmd = ETHTOOL_GSSET_INFO;
  sets->sset_mask = uint64_t{1} << ETH_SS_STATS;
  if (!askEthtool(interface, sets) || sets->sset_mask == 0) return {};
  uint32_t count = 0;
  std::memcpy(&count, sets + 1, sizeof count);
  constexpr uint32_t kMost = 1 << 14;
  if (count == 0 || count > kMost) return {};

  std::vector<uint64_t> names(2 + count * ETH_GSTRING_LEN / sizeof(uint64_t));
  auto* const strings = reinterpret_cast<ethtool_gstrings*>(names.data());
  *strings = {};
  strings->cmd = ETHTOOL_GSTRINGS;
  strings->string_set = ETH_SS_STATS;
  strings->len = count;
  std::vector<uint64_t> values(1 + count);
  auto* const stats = reinterpret_cast<ethtool_stats*>(values.data());
  *stats = {};
  stats->cmd = ETHTOOL_GSTATS;
  stats->n_stats = count;
  if (!askEthtool(interface, strings) || !askEthtool(interface, stats)) return {};
  std::vector<std::pair<std::string, uint64_t>> counters;
  const char* const name = reinterpret_cast<const char*>(names.data()) + sizeof(ethtool_gstrings);
  for (uint32_t i = 0; i < std::min({count, strings->len, stats->n_stats}); ++i)
    counters.emplace_back(
        std::string(name + i * ETH_GSTRING_LEN, strnlen(name + i * ETH_GSTRING_LEN, ETH_GSTRING_LEN)),
        values[1 + i]);
  return counters;
}

int fastestLinkMode(const std::string& interface) {
  std::vector<uint32_t> words(sizeof(ethtool_link_settings) / sizeof(uint32_t) + 3 * kMostWords);
  const auto ask = [&](int8_t count) {
    ethtool_link_settings settings = {};
    settings.cmd = ETHTOOL_GLINKSETTINGS;
    settings.link_mode_masks_nwords = count;
    std::memcpy(words.data(), &settings, sizeof settings);
    if (!askEthtool(interface, words.data())) return int8_t{0};
    std::memcpy(&settings, words.data(), sizeof settings);
    return settings.link_mode_masks_nwords;
  };
  const int8_t count = ask(0);  // the kernel answers with the negative number of words
  if (count >= 0 || ask(static_cast<int8_t>(-count)) != -count) return 0;
  const uint32_t* const supported = words.data() + sizeof(ethtool_link_settings) / sizeof(uint32_t);
  const auto has = [&](unsigned bit) {
    return bit / 32 < static_cast<unsigned>(-count) && (supported[bit / 32] >> bit % 32 & 1) != 0;
  };
  int fastest = 0;
  for (const Modes& modes : kModes)
    for (unsigned bit = modes.first; bit <= modes.last; ++bit)
      if (has(bit)) fastest = std::max(fastest, modes.mbps);
  return fastest;
}

}  // namespace railwise::doctor
