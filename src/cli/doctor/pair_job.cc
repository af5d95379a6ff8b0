#include "cli/doctor/pair_job.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/interfaces.h"
#include "base/secrets.h"
#include "base/settings/config.h"
#include "base/text/words.h"
#include "cli/device/machine.h"
#include "cli/device/tree.h"
#include "cli/hosts/run_on_hosts.h"
#include "cli/options/message.h"
#include "cli/options/options.h"
#include "cli/topo/machine_options.h"
#include "doctor/pair/summary.h"
#include "sysfs/tar_archive.h"
#include "topo/sources/sysfs.h"
#include "verbs/library.h"

namespace railwise::cli {
namespace {

namespace pair = doctor::pair;

// The /sys of the software machine that this process is on. Under `railwise device run` the live /sys may be
// that of another host of the machine.
std::unique_ptr<sysfs::FileTree> treeOf(const Config& config) {
  if (config.device.starts_with("software:")) {
    const auto machine = openDeviceMachine("doctor", {});
    if (machine) return std::make_unique<sysfs::MemoryTree>(deviceTree(machine->config.host()));
  }
  if (config.device.starts_with("software")) return std::make_unique<sysfs::MemoryTree>();
  auto opened = sysfs::openTree(config.sysfs_root);
  return opened.ok() ? std::move(*opened) : sysfs::makeLiveTree();
}

Outcome<topo::Machine> machineOf(const sysfs::FileTree& tree, const Config& config,
                                 topo::NcclVersion release) {
  topo::Settings settings = topo::settingsFromEnvironment(std::getenv, release);
  settings.ib_hca = config.ib_hca;  // --nic comes before NCCL_IB_HCA
  topo::SysfsOptions options;
  auto answers = topo::askForGpus(tree, tree.live(), config);
  if (answers.ok()) options.gpu_answers = std::move(*answers);
  options.file_cpus_get_masks = tree.live();
  return topo::loadMachine({.tree = &tree, .settings = settings, .options = std::move(options)});
}

constexpr auto kWatchPeriod = std::chrono::milliseconds(20);
// When one end fails early, others often fail for the same reason: all of them are named.
constexpr auto kForTheOthers = std::chrono::milliseconds(500);
constexpr auto kEndLimit = std::chrono::seconds(5);

// ssh to many hosts takes some seconds; a host behind a firewall never answers.
constexpr auto kJoinLimit = std::chrono::seconds(60);
constexpr auto kConnectLimit = std::chrono::seconds(20);
constexpr int kConnectPollMs = 1'500;
constexpr std::size_t kMostAddresses = 16;
constexpr std::size_t kMostLine = 4096;

bool linkLocal(const SocketAddress& address) {
  const auto bytes = address.bytes();
  return bytes.size() == 16 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string withPort(const SocketAddress& address, uint16_t port) {
  return SocketAddress(address.family(), address.bytes(), port, address.scopeId()).text();
}

bool answers(const SocketAddress& address) {
  auto socket = Socket::connect(address);
  if (!socket.ok()) return false;
  pollfd writable = {.fd = socket->fd(), .events = POLLOUT, .revents = 0};
  poll(&writable, 1, kConnectPollMs);
  const auto io = socket->connected();
  return io.ok() && *io == Io::kDone;
}

// The address from which ssh came is one that this host reaches, whatever else its networks are.
std::vector<std::string> withAddressOfSsh(std::vector<std::string> addresses) {
  const char* const connection = std::getenv("SSH_CONNECTION");
  if (connection == nullptr || addresses.empty()) return addresses;
  const std::string client = std::string(connection).substr(0, std::strcspn(connection, " "));
  const std::string port = addresses[0].substr(addresses[0].rfind(':') + 1);
  const bool ipv6 = client.find(':') != std::string::npos;
  addresses.insert(addresses.begin(), (ipv6 ? "[" + client + "]" : client) + ":" + port);
  return addresses;
}

Outcome<SocketAddress> firstThatAnswers(const std::vector<std::string>& addresses) {
  const Deadline deadline = Deadline::after(kConnectLimit);
  do {
    for (const std::string& text : withAddressOfSsh(addresses)) {
      const auto address = resolveAddress(text);
      if (address.ok() && answers(*address)) return *address;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (!deadline.passed());
  return Error{"this host reaches none of the addresses " + joined(addresses) +
               " of the one that asked: is there a firewall? --address HOST:PORT gives another"};
}

Result<Socket> listenHere(bool only_here, uint16_t port) {
  const uint8_t loopback[] = {127, 0, 0, 1};
  constexpr int kBacklog = 512;
  if (only_here) return Socket::listen(SocketAddress(AF_INET, loopback, port, 0), kBacklog);
  return Socket::listenEverywhere(port, kBacklog);
}

}  // namespace

std::string contactLine(const PairSeat& seat) {
  std::string line = seat.secret;
  for (const std::string& address : seat.addresses) line += " " + address;
  return line + "\n";
}

Outcome<void> readContactLine(const std::string& line, PairSeat& seat) {
  std::istringstream words(line.size() <= kMostLine ? line : std::string());
  words >> seat.secret;
  for (std::string address; words >> address && seat.addresses.size() < kMostAddresses;)
    seat.addresses.push_back(address);
  if (seat.secret.size() < 32 || seat.addresses.empty())
    return Error{
        "--pair-end is for `railwise doctor --pair HOST`, which starts it and says by standard input "
        "where it listens"};
  return {};
}

Outcome<void> openSeat(PairSeat& seat, bool only_here, const std::string& address) {
  uint16_t port = 0;
  if (!address.empty()) {
    const auto resolved = resolveAddress(address);
    if (!resolved.ok()) return Error{"--address: " + resolved.error()};
    port = resolved->port();
  }
  auto listener = listenHere(only_here, port);
  if (!listener.ok()) return Error{textOf("cannot listen: %s", std::strerror(listener.status().sys_errno))};
  seat.listener = std::move(*listener);
  seat.secret = randomHex();
  if (!address.empty()) seat.addresses = {address};
  if (only_here) seat.addresses = {seat.listener.localAddress().text()};
  if (!seat.addresses.empty()) return {};
  const uint16_t listening = seat.listener.localAddress().port();
  const Config config = Config::load();
  for (const Interface& each : listInterfaces(config.socket_ifname, AF_UNSPEC)) {
    if (!linkLocal(each.address) && seat.addresses.size() < kMostAddresses)
      seat.addresses.push_back(withPort(each.address, listening));
  }
  if (seat.addresses.empty()) return Error{"this host has no network interface that is up"};
  return {};
}

Outcome<std::unique_ptr<PairExchange>> PairExchange::join(PairSeat seat) {
  auto exchange = std::make_unique<PairExchange>();
  BootstrapOptions options;
  options.rank = seat.rank;
  options.size = seat.size;
  options.secret = seat.secret;
  options.agreement = seat.agreement;
  options.timeout = kJoinLimit + seat.step_limit;
  options.listener = std::move(seat.listener);
  options.progress = [steps = &exchange->steps_] { return steps->load(); };
  options.doing = [] { return std::string("measuring"); };
  // The secret of ranks is derived from what they have in common, which another job may have, too.
  options.on_refused = [](const std::string& why) { say("doctor: refused, still waiting: %s", why.c_str()); };
  if (!seat.waits_for.empty())
    options.on_waiting = [waits_for = seat.waits_for](int missing) {
      say("doctor: waiting for %d more rank%s (%s)", missing, missing == 1 ? "" : "s", waits_for.c_str());
    };
  options.on_failure = [](const std::string& text) {
    clearProgress();
    say("doctor: %s: the test cannot go on", text.c_str());
    _exit(kExitUsage);  // 2: an error; other threads may wait for the end that has gone
  };
  if (seat.rank != 0 || !options.listener.valid()) {
    auto address = seat.rank == 0 ? resolveAddress(seat.addresses.at(0)) : firstThatAnswers(seat.addresses);
    if (!address.ok()) return address.failure();
    options.address = *address;
  }
  auto joined = Bootstrap::join(std::move(options));
  if (!joined.ok()) return joined.failure();
  exchange->bootstrap_ = std::move(*joined);
  return exchange;
}

Outcome<std::vector<doctor::pair::Bytes>> PairExchange::allGather(const doctor::pair::Bytes& mine) {
  ++steps_;
  auto gathered = bootstrap_->allGather(mine);
  ++steps_;
  if (gathered.ok()) return std::move(*gathered);
  // The monitor's thread says what has happened and ends the process.
  std::this_thread::sleep_for(std::chrono::seconds(10));
  return Error{"an end has gone"};
}

void PairExchange::fail(const std::string& text) {
  bootstrap_->fail(text);
  std::this_thread::sleep_for(std::chrono::seconds(10));  // the monitor's thread ends the process
  _exit(kExitUsage);
}

PairLaunch::~PairLaunch() {
  joined_ = true;
  if (watcher_.joinable()) watcher_.join();
  const Deadline deadline = Deadline::after(kEndLimit);
  for (Child& child : children_) child.process.closeInput();
  for (Child& child : children_) child.process.wait(deadline);
}

Outcome<void> PairLaunch::start(const std::vector<PairCommand>& commands, const std::string& contact) {
  for (const PairCommand& command : commands) {
    ProcessPlan plan;
    plan.words = command.words;
    plan.variables = command.environment;
    plan.input = kStreamPipe;
    plan.input_text = contact;
    plan.output = STDERR_FILENO;  // greetings of a shell are no part of the report
    auto process = Process::start(plan);
    if (!process.ok()) return Error{"the end of " + command.host + " cannot be started: " + process.error()};
    children_.push_back({std::move(*process), command.host, command.words[0]});
  }
  return {};
}

bool PairLaunch::anyEnded() {
  return std::ranges::any_of(children_, [](Child& child) { return !child.process.running(); });
}

void PairLaunch::watch() {
  watcher_ = std::thread([this] {
    while (!joined_) {
      if (anyEnded()) reportAndLeave();
      std::this_thread::sleep_for(kWatchPeriod);
    }
  });
}

void PairLaunch::reportAndLeave() {
  std::this_thread::sleep_for(kForTheOthers);
  if (joined_) return;
  clearProgress();
  for (Child& child : children_) {
    if (child.process.running()) {
      child.process.kill(SIGTERM);
      continue;
    }
    const int status = child.process.wait().shellStatus();
    const char* const hint = status == Process::kNoProgram ? kNoProgramText
                             : status == 255 ? " (255: ssh itself failed, and its reason stands above)"
                                             : "";
    say("doctor: %s: '%s' ended with status %d before the end was there%s", child.host.c_str(),
        child.program.c_str(), status, hint);
  }
  _exit(kExitUsage);  // 2: an error; the main thread waits for the ends that do not come
}

PairEnd openPairEnd(const PairEndOptions& options) {
  Config config = Config::load();
  if (!options.nics.empty()) config.ib_hca = options.nics;
  PairEnd opened;
  pair::EndFacts& facts = opened.end.facts;
  if (!options.takes_part) {
    facts.host = nameOfThisHost();
    facts.takes_part = false;
    return opened;
  }
  const auto tree = treeOf(config);
  if (!verbs::load(config).ok()) {
    facts.host = nameOfThisHost();
    facts.failure = config.device.starts_with("software")
                        ? "the software device (RAILWISE_DEVICE) cannot be used: see the warning on this "
                          "host; is the package railwise-device installed?"
                        : "libibverbs.so.1 cannot be loaded: install libibverbs1 and ibverbs-providers "
                          "(Debian, Ubuntu) or rdma-core, or set RAILWISE_DEVICE";
    return opened;
  }
  opened.end = pair::openEnd(config, *tree, nameOfThisHost(), options.gpu);
  auto machine = machineOf(*tree, config, options.rules);
  facts.all_reduce = machine.ok() ? pair::allReduceModel(*machine) : pair::AllReduceModel{0, machine.error()};
  // NCCL's model is of the graphs that NCCL takes.
  if (machine.ok() && takeGraphFile("doctor", "", true, *machine)) opened.machine = std::move(*machine);
  return opened;
}

}  // namespace railwise::cli
