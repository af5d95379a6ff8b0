// Starting, connecting, and living in a process with others.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <thread>

#include "conform/subject.h"
#include "nccl/types.h"

namespace railwise::conform {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string complete(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  if (std::string_view(subject.api().name()).empty()) throw Broken("the table has no name");
  return subject.api().name();
}

std::string sound(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  std::set<std::pair<uint64_t, int>> seen;
  for (int i = 0; i < subject.devices(); ++i) {
    const cli::NetProperties device = subject.properties(i);
    const auto need = [&](bool held, const char* what) {
      if (!held) throw Broken("device " + std::to_string(i) + " has " + what);
    };
    need(!device.name.empty(), "no name");
    need(device.speed_mbps > 0, "no speed: NCCL's search divides by it");
    need(device.max_comms > 0, "no room for a connection (maxComms)");
    need(device.max_recvs > 0, "no receive (maxRecvs)");
    need((device.ptr_support & NCCL_PTR_HOST) != 0, "no host memory (ptrSupport)");
    need(seen.emplace(device.guid, device.port).second,
         "the guid and port of another: NCCL takes both for one port");
  }
  return std::to_string(subject.devices()) + (subject.devices() == 1 ? " device" : " devices");
}

std::string range(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  cli::NetProperties properties;
  for (const int device : {-1, subject.devices() + 100}) {
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    void* listener = nullptr;
    if (subject.api().getProperties(device, &properties) == ncclSuccess ||
        subject.api().listen(device, handle, &listener) == ncclSuccess)
      throw Broken("device " + std::to_string(device) + " is taken for one");
  }
  return "";
}

std::string severalCommunicators(const cli::PluginOptions& plugin) {
  Subject first(plugin);
  Subject second(plugin);
  Connection one(first);
  Connection other(second);
  tryOut(one);
  tryOut(other);
  one.close();
  must(first.api().finalize(), "finalize");
  tryOut(other);
  other.close();
  must(second.api().finalize(), "finalize");
  Subject third(plugin);
  Connection again(third);
  tryOut(again);
  return "";
}

// The longest of `count` calls.
Clock::duration longest(int count, const std::function<void()>& call) {
  Clock::duration most = {};
  for (int i = 0; i < count; ++i) {
    const Clock::time_point begin = Clock::now();
    call();
    most = std::max(most, Clock::now() - begin);
  }
  return most;
}

std::string returnsAtOnce(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  NetApi& api = subject.api();
  char handle[NCCL_NET_HANDLE_MAXSIZE] = {};
  void *listener = nullptr, *send = nullptr, *receive = nullptr;
  must(api.listen(0, handle, &listener), "listen");
  const auto accepting = longest(20, [&] { must(api.accept(listener, &receive), "accept"); });
  if (receive != nullptr) throw Broken("accept gives a connection that nobody has asked for");
  const auto connecting = longest(20, [&] {
    if (send == nullptr) must(api.connect(0, handle, &send), "connect");
  });
  const auto most = std::chrono::duration_cast<milliseconds>(std::max(accepting, connecting)).count();
  if (most > 2000) throw Broken("a call takes " + std::to_string(most) + " ms while the peer does nothing");
  return "";
}

std::string keepsToTheHandle(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  NetApi& api = subject.api();
  constexpr char kMark = 0x5a;
  char room[NCCL_NET_HANDLE_MAXSIZE + 64];
  std::memset(room, kMark, sizeof room);
  std::memset(room, 0, NCCL_NET_HANDLE_MAXSIZE);
  void *listener = nullptr, *send = nullptr, *receive = nullptr;
  must(api.listen(0, room, &listener), "listen");
  until("the connection", [&] {
    if (send == nullptr) must(api.connect(0, room, &send), "connect");
    if (receive == nullptr) must(api.accept(listener, &receive), "accept");
    return send != nullptr && receive != nullptr;
  });
  if (std::any_of(room + NCCL_NET_HANDLE_MAXSIZE, std::end(room), [](char c) { return c != kMark; }))
    throw Broken("listen or connect writes behind the 128 bytes of the handle");
  return "";
}

std::string interleaved(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  NetApi& api = subject.api();
  struct End {
    alignas(8) char handle[NCCL_NET_HANDLE_MAXSIZE] = {};
    void *listener = nullptr, *send = nullptr, *receive = nullptr;
  };
  std::vector<End> ends(subject.connections(24));
  for (End& end : ends) must(api.listen(0, end.handle, &end.listener), "listen");
  until("all of " + std::to_string(ends.size()) + " connections", [&] {
    bool all = true;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      End& connecting = ends[i];
      End& accepting = ends[ends.size() - 1 - i];
      if (connecting.send == nullptr) must(api.connect(0, connecting.handle, &connecting.send), "connect");
      if (accepting.receive == nullptr) must(api.accept(accepting.listener, &accepting.receive), "accept");
      all = all && connecting.send != nullptr && accepting.receive != nullptr;
    }
    return all;
  });
  return "";
}

// NCCL's service thread makes connections, its progress thread uses them; and a process may have several
// ranks, each with its context from v11 on.
std::string otherThreads(const cli::PluginOptions& plugin) {
  constexpr std::size_t kThreads = 4;
  std::vector<std::unique_ptr<Subject>> subjects;
  for (std::size_t i = 0; i < kThreads; ++i) {
    if (i == 0 || subjects[0]->api().version() >= 11) subjects.push_back(std::make_unique<Subject>(plugin));
  }
  std::vector<std::unique_ptr<Connection>> connections(kThreads);
  std::vector<std::string> problems(kThreads);
  const auto inThreads = [&](const std::function<void(std::size_t)>& work) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        try {
          work(i);
        } catch (const Broken& broken) {
          problems[i] = broken.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& problem : problems)
      if (!problem.empty()) throw Broken(problem);
  };
  inThreads(
      [&](std::size_t i) { connections[i] = std::make_unique<Connection>(*subjects[i % subjects.size()]); });
  inThreads([&](std::size_t i) {
    for (int k = 0; k < 50; ++k) tryOut(*connections[i]);
  });
  return "";
}

std::string garbage(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  for (const int byte : {0, 0xff}) {
    alignas(8) char handle[NCCL_NET_HANDLE_MAXSIZE];
    std::memset(handle, byte, sizeof handle);
    void* send = nullptr;
    bool refused = false;
    const Deadline deadline = Deadline::after(seconds(10));
    while (!refused && send == nullptr && !deadline.passed())
      refused = subject.api().connect(0, handle, &send) != ncclSuccess;
    if (!refused) throw Broken("a handle of one byte 128 times is not refused in 10 s");
  }
  return "";
}

// The TCP ports at which this process listens.
std::vector<uint16_t> listeningPorts() {
  constexpr std::string_view kSocket = "socket:[";
  std::set<std::string> own;  // inodes
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    if (target.starts_with(kSocket))
      own.insert(target.substr(kSocket.size(), target.size() - kSocket.size() - 1));
  }
  std::vector<uint16_t> ports;
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, skipped, inode;
      words >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> skipped;
      words >> inode;
      if (state == "0A" && own.contains(inode))
        ports.push_back(static_cast<uint16_t>(std::stoul(local.substr(local.rfind(':') + 1), nullptr, 16)));
    }
  }
  return ports;
}

std::string stranger(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  NetApi& api = subject.api();
  const std::vector<uint16_t> before = listeningPorts();
  alignas(8) char handle[NCCL_NET_HANDLE_MAXSIZE] = {};
  void *listener = nullptr, *send = nullptr, *receive = nullptr;
  must(api.listen(0, handle, &listener), "listen");
  int called = 0;
  std::vector<Descriptor> strangers;
  for (const uint16_t port : listeningPorts()) {
    if (std::find(before.begin(), before.end(), port) != before.end()) continue;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (const char* const words : {"", "GET / HTTP/1.0\r\n\r\n"}) {  // a port scan, a monitor
      Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) continue;
      (void)::send(socket.get(), words, std::strlen(words), MSG_NOSIGNAL);
      ++called;
      strangers.push_back(std::move(socket));
    }
  }
  if (called == 0) throw DoesNotApply("it listens at no TCP port of 127.0.0.1");
  until("the connection, after two strangers have called,", [&] {
    if (send == nullptr) must(api.connect(0, handle, &send), "connect");
    if (receive == nullptr) must(api.accept(listener, &receive), "accept, after a stranger has called,");
    return send != nullptr && receive != nullptr;
  });
  return "";
}

std::string forks(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  Connection connection(subject);
  tryOut(connection);
  Process child = forked([](std::string&) -> int { exit(0); });  // with all that the libraries do at exit
  const Deadline deadline = Deadline::after(seconds(10));
  while (child.running()) {
    tryOut(connection);
    if (deadline.passed()) throw Broken("a child of fork() hangs in exit()");
  }
  if (!child.ended()->good()) throw Broken("a child of fork() crashes in exit()");
  tryOut(connection);
  connection.close();
  return "";
}

std::size_t entries(const char* folder) {
  using Folder = std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(Folder(folder), Folder()));
}

std::string leavesNothing(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  const auto openAndClose = [&] {
    Connection connection(subject);
    tryOut(connection);
    connection.close();
  };
  for (int i = 0; i < 5; ++i) openAndClose();
  usleep(300'000);
  const std::size_t files = entries("/proc/self/fd"), threads = entries("/proc/self/task");
  constexpr int kTimes = 30;
  for (int i = 0; i < kTimes; ++i) openAndClose();
  usleep(300'000);
  const auto grown = [](const char* what, std::size_t was, std::size_t is) {
    if (is > was + kTimes / 3)
      throw Broken(std::to_string(kTimes) + " connections leave " + std::to_string(is - was) + " " + what);
  };
  grown("descriptors", files, entries("/proc/self/fd"));
  grown("threads", threads, entries("/proc/self/task"));
  return "";
}

constexpr Check kChecks[] = {
    {"life.table", Kind::kContract, "the table has a name and every function that NCCL calls; it starts",
     complete},
    {"life.properties", Kind::kContract,
     "each device has a name, speed, limits, and a guid and port of its own", sound},
    {"life.device-range", Kind::kCare, "a device that does not exist is refused", range},
    {"life.communicators", Kind::kContract,
     "several communicators: each has its connections, whichever ends first; after the last one begins anew",
     severalCommunicators, "", 60, 11},
    {"life.at-once", Kind::kContract, "connect and accept return at once while the peer does nothing",
     returnsAtOnce, "", 90},
    {"life.handle", Kind::kContract, "a handle needs no more than its 128 bytes", keepsToTheHandle},
    {"life.interleaved", Kind::kContract, "up to 24 connections come up whose calls take turns", interleaved,
     "", 60},
    {"life.threads", Kind::kContract,
     "a connection that one thread has made is used by another; four ranks side by side", otherThreads, "",
     60},
    {"life.leaks", Kind::kContract, "a closed connection leaves no descriptor and no thread", leavesNothing,
     "", 60},
    {"life.fork", Kind::kContract, "a child of fork() ends, and the connections of its parent go on", forks},
    {"life.garbage", Kind::kCare, "a handle of another plugin is refused in 10 s", garbage, "", 40},
    {"life.stranger", Kind::kCare,
     "a port scan and a monitor at the listener's port do not keep the peer away", stranger},
};

}  // namespace

std::span<const Check> lifeChecks() { return kChecks; }

}  // namespace railwise::conform
