// A net plugin for the tests of the tools: moves data over TCP on 127.0.0.1, exports every API version, and
// checks that its caller keeps NCCL's contract (threads, the handle buffer, closing order, what may be
// outstanding). Environment variables make it misbehave:
//   LOOPBACK_NEEDS_SOFTWARE=1   init fails unless RAILWISE_DEVICE is "software"
//   LOOPBACK_NEEDS_SYS=1        init fails unless /sys shows soft0
//   LOOPBACK_HANGS=1            init does not return
//   LOOPBACK_CORRUPT=N          flips a byte of every message from the N-th received one on
//   LOOPBACK_STALL=N            from the N-th call on, test never says done
//   LOOPBACK_FAIL=CALL:N        the N-th call of CALL (isend, irecv, test, connect, regMr) fails
//   LOOPBACK_RANK=R             only in the process whose RAILWISE_PERF_RANK is R
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <thread>

#include "nccl/net_v10.h"
#include "nccl/net_v11.h"
#include "nccl/net_v12.h"
#include "nccl/net_v6.h"
#include "nccl/net_v7.h"
#include "nccl/net_v8.h"
#include "nccl/net_v9.h"

namespace {

constexpr int kDevices = 2;
constexpr std::size_t kMaxRequests = NCCL_NET_MAX_REQUESTS;
constexpr uint64_t kMagic = 0x6c6f6f706261636b;

ncclDebugLogger_t g_logger = nullptr;
std::atomic<int> g_comms{0};
std::atomic<int> g_regions{0};
std::atomic<std::thread::id> g_service_thread;
std::atomic<std::thread::id> g_progress_thread;

ncclResult_t broken(const char* rule) {
  if (g_logger != nullptr) g_logger(NCCL_LOG_WARN, ~0UL, __FILE__, __LINE__, "contract: %s", rule);
  return ncclInvalidUsage;
}

// ---- faults ----

bool thisRank() {
  const char* wanted = std::getenv("LOOPBACK_RANK");
  const char* rank = std::getenv("RAILWISE_PERF_RANK");
  return wanted == nullptr || (rank != nullptr && std::strcmp(wanted, rank) == 0);
}

long faultAt(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && thisRank() ? std::atol(text) : -1;
}

// Counts the calls of `call`; true for the one that LOOPBACK_FAIL names.
bool fails(const char* call, std::atomic<long>& count) {
  static const std::string fault = [] {
    const char* text = std::getenv("LOOPBACK_FAIL");
    return std::string(text != nullptr && thisRank() ? text : "");
  }();
  const auto colon = fault.find(':');
  if (colon == std::string::npos || fault.compare(0, colon, call) != 0) return false;
  return ++count == std::atol(fault.c_str() + colon + 1);
}

// ---- the contract's threads ----

bool onOneThread(std::atomic<std::thread::id>& known, const std::atomic<std::thread::id>& other) {
  const auto me = std::this_thread::get_id();
  auto nobody = std::thread::id();
  known.compare_exchange_strong(nobody, me);
  return known.load() == me && other.load() != me;
}
bool onService() { return onOneThread(g_service_thread, g_progress_thread); }
bool onProgress() { return onOneThread(g_progress_thread, g_service_thread); }

// ---- connections ----

struct Handle {
  uint64_t magic;
  uint16_t port;
  struct Connecting* state;  // the connecting side's, kept in the caller's buffer
};
static_assert(sizeof(Handle) <= NCCL_NET_HANDLE_MAXSIZE);

struct Connecting {
  int fd;
  const void* buffer;
};

struct Listen {
  int fd;
  int polls = 0;
};

struct Comm;
struct Request {
  Comm* comm;
  std::byte* data;
  uint64_t bytes;
  uint64_t tag;
  uint64_t wire[2] = {bytes, tag};  // the header; a receive gets the sender's
  std::size_t moved = 0;
  bool done = false;
};

struct Comm {
  int fd;
  bool sends;
  int regions = 0;
  unsigned calls = 0;
  std::deque<Request*> queue;
};

int loopbackSocket() { return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

sockaddr_in loopbackAddress(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

ncclResult_t doListen(int device, void* handle, void** comm) {
  if (!onService()) return broken("listen on the service thread");
  if (device < 0 || device >= kDevices) return broken("listen on a device that exists");
  auto address = loopbackAddress(0);
  socklen_t size = sizeof address;
  const int fd = loopbackSocket();
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, 8) != 0)
    return ncclSystemError;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  const Handle written = {kMagic, ntohs(address.sin_port), nullptr};
  std::memcpy(handle, &written, sizeof written);
  *comm = new Listen{fd};
  ++g_comms;
  return ncclSuccess;
}

ncclResult_t doConnect(int device, void* buffer, void** comm) {
  static std::atomic<long> calls;
  if (!onService()) return broken("connect on the service thread");
  if (device < 0 || device >= kDevices) return broken("connect on a device that exists");
  if (fails("connect", calls)) return ncclSystemError;
  Handle handle;
  std::memcpy(&handle, buffer, sizeof handle);
  if (handle.magic != kMagic) return broken("connect with a handle of listen");
  *comm = nullptr;
  if (handle.state == nullptr) {
    const auto address = loopbackAddress(handle.port);
    handle.state = new Connecting{loopbackSocket(), buffer};
    std::memcpy(buffer, &handle, sizeof handle);
    const int failed = connect(handle.state->fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    return failed == 0 || errno == EINPROGRESS ? ncclSuccess : ncclSystemError;
  }
  if (handle.state->buffer != buffer) return broken("connect again with the same handle buffer");
  pollfd writable = {.fd = handle.state->fd, .events = POLLOUT, .revents = 0};
  if (poll(&writable, 1, 0) <= 0) return ncclSuccess;
  if ((writable.revents & (POLLERR | POLLHUP)) != 0) return ncclRemoteError;
  const int on = 1;
  setsockopt(handle.state->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  *comm = new Comm{handle.state->fd, true};
  ++g_comms;
  delete handle.state;
  return ncclSuccess;
}

ncclResult_t doAccept(void* listen_comm, void** comm) {
  if (!onService()) return broken("accept on the service thread");
  auto* listener = static_cast<Listen*>(listen_comm);
  *comm = nullptr;
  if (listener->polls++ == 0) return ncclSuccess;  // "not yet" happens to everybody
  const int fd = accept4(listener->fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return errno == EAGAIN ? ncclSuccess : ncclSystemError;
  *comm = new Comm{fd, false};
  ++g_comms;
  return ncclSuccess;
}

ncclResult_t doRegMr(void* comm, void* data, std::size_t size, int type, void** mhandle) {
  static std::atomic<long> calls;
  if (!onService()) return broken("regMr on the service thread");
  if (data == nullptr || size == 0 || type != NCCL_PTR_HOST) return broken("regMr of host memory");
  if (fails("regMr", calls)) return ncclSystemError;
  ++static_cast<Comm*>(comm)->regions;
  ++g_regions;
  *mhandle = comm;
  return ncclSuccess;
}

ncclResult_t doDeregMr(void* comm, void* mhandle) {
  if (!onService() || mhandle != comm) return broken("deregMr on the service thread with the comm of regMr");
  --static_cast<Comm*>(comm)->regions;
  --g_regions;
  return ncclSuccess;
}

ncclResult_t doCloseListen(void* comm) {
  if (!onService()) return broken("closeListen on the service thread");
  auto* listener = static_cast<Listen*>(comm);
  close(listener->fd);
  delete listener;
  --g_comms;
  return ncclSuccess;
}

ncclResult_t doClose(void* pointer, bool sends) {
  auto* comm = static_cast<Comm*>(pointer);
  if (!onService() || comm->sends != sends) return broken("closeSend and closeRecv on the service thread");
  if (comm->regions != 0) return broken("deregMr before closing");
  if (!comm->queue.empty()) return broken("no request outstanding when closing in order");
  close(comm->fd);
  delete comm;
  --g_comms;
  return ncclSuccess;
}
ncclResult_t doCloseSend(void* comm) { return doClose(comm, true); }
ncclResult_t doCloseRecv(void* comm) { return doClose(comm, false); }

// ---- data ----

// Moves `size` bytes at `data`; `moved` counts over header and data, which begins at `base`.
ncclResult_t transfer(Comm& comm, std::byte* data, std::size_t base, std::size_t size, std::size_t& moved,
                      bool& all) {
  while (moved < base + size) {
    std::byte* const at = data + (moved - base);
    const std::size_t rest = base + size - moved;
    const ssize_t count = comm.sends ? send(comm.fd, at, rest, MSG_NOSIGNAL) : recv(comm.fd, at, rest, 0);
    if (count < 0 && errno == EAGAIN) return all = false, ncclSuccess;
    if (count <= 0) return ncclRemoteError;
    moved += static_cast<std::size_t>(count);
  }
  all = true;
  return ncclSuccess;
}

void corrupt(Request& request) {
  static const long first = faultAt("LOOPBACK_CORRUPT");
  static std::atomic<long> count;
  if (first >= 0 && request.wire[0] > 0 && count++ >= first) *request.data ^= std::byte{0x10};
}

ncclResult_t progress(Comm& comm) {
  while (!comm.queue.empty()) {
    Request& request = *comm.queue.front();
    bool all = false;
    if (request.moved < sizeof request.wire) {
      auto* header = reinterpret_cast<std::byte*>(request.wire);
      const ncclResult_t result = transfer(comm, header, 0, sizeof request.wire, request.moved, all);
      if (result != ncclSuccess || !all) return result;
      if (request.wire[1] != request.tag) return broken("a send and its receive have the same tag");
      if (request.wire[0] > request.bytes) return broken("a receive is at least as large as its send");
    }
    const ncclResult_t result =
        transfer(comm, request.data, sizeof request.wire, request.wire[0], request.moved, all);
    if (result != ncclSuccess || !all) return result;
    if (!comm.sends) corrupt(request);
    request.done = true;
    comm.queue.pop_front();
  }
  return ncclSuccess;
}

ncclResult_t post(Comm& comm, bool sends, void* data, std::size_t size, int tag, void* mhandle,
                  void** request) {
  *request = nullptr;
  if (!onProgress()) return broken("isend and irecv on the progress thread");
  if (comm.sends != sends || mhandle != &comm) return broken("isend and irecv with the comm's own memory");
  if (++comm.calls % 5 == 0 || comm.queue.size() >= kMaxRequests) return ncclSuccess;  // try again later
  auto* made = new Request{&comm, static_cast<std::byte*>(data), size, static_cast<uint64_t>(tag)};
  comm.queue.push_back(made);
  *request = made;
  return progress(comm);
}

ncclResult_t doIsend(void* comm, void* data, std::size_t size, int tag, void* mhandle, void** request) {
  static std::atomic<long> calls;
  if (fails("isend", calls)) return ncclInternalError;
  return post(*static_cast<Comm*>(comm), true, data, size, tag, mhandle, request);
}

ncclResult_t doIrecv(void* comm, int n, void** data, std::size_t size, int* tags, void** mhandles,
                     void** request) {
  static std::atomic<long> calls;
  if (n != 1) return broken("irecv of one buffer (maxRecvs is 1)");
  if (fails("irecv", calls)) return ncclSystemError;
  return post(*static_cast<Comm*>(comm), false, data[0], size, tags[0], mhandles[0], request);
}

ncclResult_t doTest(void* pointer, int* done, int* sizes) {
  static std::atomic<long> calls;
  static std::atomic<long> count;
  static const long stall = faultAt("LOOPBACK_STALL");
  *done = 0;
  if (!onProgress()) return broken("test on the progress thread");
  if (fails("test", calls)) return ncclRemoteError;
  if (stall >= 0 && count++ >= stall) return ncclSuccess;
  auto* request = static_cast<Request*>(pointer);
  if (!request->done) {
    const ncclResult_t result = progress(*request->comm);
    if (result != ncclSuccess || !request->done) return result;
  }
  *done = 1;
  if (sizes != nullptr) *sizes = static_cast<int>(request->wire[0]);
  delete request;
  return ncclSuccess;
}

// ---- the tables ----

ncclResult_t begin(ncclDebugLogger_t logger) {
  while (std::getenv("LOOPBACK_HANGS") != nullptr) pause();
  g_logger = logger;
  const char* device = std::getenv("RAILWISE_DEVICE");
  const bool software = device != nullptr && std::strcmp(device, "software") == 0;
  if (std::getenv("LOOPBACK_NEEDS_SOFTWARE") != nullptr && !software) {
    logger(NCCL_LOG_WARN, ~0UL, __FILE__, __LINE__, "loopback: no device");
    return ncclSystemError;
  }
  if (std::getenv("LOOPBACK_NEEDS_SYS") != nullptr) {
    char path[PATH_MAX];
    if (realpath("/sys/class/infiniband/soft0/device", path) == nullptr) {
      logger(NCCL_LOG_WARN, ~0UL, __FILE__, __LINE__, "loopback: no soft0 in /sys");
      return ncclSystemError;
    }
  }
  logger(NCCL_LOG_INFO, ~0UL, __func__, __LINE__, "loopback: started");
  return ncclSuccess;
}
ncclResult_t initV6(ncclDebugLogger_t logger) { return begin(logger); }
ncclResult_t initV10(ncclDebugLogger_t logger, ncclProfilerCallback_t callback) {
  return callback != nullptr ? begin(logger) : broken("a profiler callback in init");
}
int g_context;
ncclResult_t initV11(void** context, uint64_t comm_id, ncclNetCommConfig_v11_t* config,
                     ncclDebugLogger_t logger, ncclProfilerCallback_t callback) {
  *context = &g_context;
  if (comm_id == 0 || config == nullptr) return broken("a communicator id and a config in init");
  return initV10(logger, callback);
}
ncclResult_t finalize(void* context) {
  if (context != &g_context) return broken("finalize with init's context");
  if (g_comms != 0 || g_regions != 0) return broken("everything closed before finalize");
  return ncclSuccess;
}
ncclResult_t devices(int* count) { return *count = kDevices, ncclSuccess; }

template <int kVersion, typename Properties>
ncclResult_t getProperties(int device, Properties* properties) {
  static const std::string names[kDevices] = {"loop0v" + std::to_string(kVersion),
                                              "loop1v" + std::to_string(kVersion)};
  *properties = {};
  properties->name = const_cast<char*>(names[device].c_str());
  properties->guid = static_cast<uint64_t>(device) + 1;
  properties->ptrSupport = NCCL_PTR_HOST;
  properties->speed = 10'000;
  properties->port = 1;
  properties->maxComms = 1024;
  properties->maxRecvs = 1;
  if constexpr (requires { properties->vProps; }) {
    properties->vProps.ndevs = 1;
    properties->vProps.devs[0] = device;
    properties->maxP2pBytes = NCCL_MAX_NET_SIZE_BYTES;
  }
  if constexpr (requires { properties->railId; }) {
    properties->railId = static_cast<int16_t>(device);
    properties->planeId = NCCL_NET_ID_UNDEF;
  }
  return ncclSuccess;
}

ncclResult_t connectV6(int device, void* handle, void** comm) { return doConnect(device, handle, comm); }
ncclResult_t connectV7(int device, void* handle, void** comm, ncclNetDeviceHandle_v7_t** device_handle) {
  return device_handle != nullptr ? doConnect(device, handle, comm) : broken("a device handle in connect");
}
ncclResult_t connectV10(int device, ncclNetCommConfig_v10_t* config, void* handle, void** comm,
                        ncclNetDeviceHandle_v7_t** device_handle) {
  if (config == nullptr || config->trafficClass != NCCL_NET_ID_UNDEF) return broken("a config in connect");
  return connectV7(device, handle, comm, device_handle);
}
ncclResult_t listenV11(void* context, int device, void* handle, void** comm) {
  return context == &g_context ? doListen(device, handle, comm) : broken("listen with init's context");
}
ncclResult_t connectV11(void* context, int device, void* handle, void** comm,
                        ncclNetDeviceHandle_v7_t** device_handle) {
  if (context != &g_context) return broken("connect with init's context");
  return connectV7(device, handle, comm, device_handle);
}
ncclResult_t acceptV7(void* listen_comm, void** comm, ncclNetDeviceHandle_v7_t** device_handle) {
  return device_handle != nullptr ? doAccept(listen_comm, comm) : broken("a device handle in accept");
}
ncclResult_t regMrV6(void* comm, void* data, int size, int type, void** mhandle) {
  return doRegMr(comm, data, static_cast<std::size_t>(size), type, mhandle);
}
ncclResult_t isendV6(void* comm, void* data, int size, int tag, void* mhandle, void** request) {
  return doIsend(comm, data, static_cast<std::size_t>(size), tag, mhandle, request);
}
ncclResult_t isendV10(void* comm, void* data, size_t size, int tag, void* mhandle, void*, void** request) {
  return doIsend(comm, data, size, tag, mhandle, request);
}
ncclResult_t irecvV6(void* comm, int n, void** data, int* sizes, int* tags, void** mhandles, void** request) {
  return doIrecv(comm, n, data, static_cast<std::size_t>(sizes[0]), tags, mhandles, request);
}
ncclResult_t irecvV9(void* comm, int n, void** data, size_t* sizes, int* tags, void** mhandles,
                     void** request) {
  return doIrecv(comm, n, data, sizes[0], tags, mhandles, request);
}
ncclResult_t irecvV10(void* comm, int n, void** data, size_t* sizes, int* tags, void** mhandles, void**,
                      void** request) {
  return doIrecv(comm, n, data, sizes[0], tags, mhandles, request);
}

template <int kVersion, typename Net>
constexpr void fillCommon(Net& net) {
  net.name = "Loopback";
  net.devices = devices;
  net.deregMr = doDeregMr;
  net.test = doTest;
  net.closeSend = doCloseSend;
  net.closeRecv = doCloseRecv;
  net.closeListen = doCloseListen;
  if constexpr (kVersion >= 11) {
    net.init = initV11;
    net.listen = listenV11;
    net.connect = connectV11;
    net.finalize = finalize;
  } else if constexpr (kVersion == 10) {
    net.init = initV10;
    net.listen = doListen;
    net.connect = connectV10;
  } else {
    net.init = initV6;
    net.listen = doListen;
  }
  if constexpr (kVersion >= 8) {
    net.regMr = doRegMr;
  } else {
    net.regMr = regMrV6;
  }
}

template <int kVersion, typename Net, typename Properties>
constexpr Net makeTable() {
  Net net = {};
  fillCommon<kVersion>(net);
  net.getProperties = getProperties<kVersion, Properties>;
  if constexpr (kVersion == 6) {
    net.connect = connectV6;
    net.accept = doAccept;
  } else {
    if constexpr (kVersion < 10) net.connect = connectV7;
    net.accept = acceptV7;
  }
  if constexpr (kVersion >= 10) {
    net.isend = isendV10;
    net.irecv = irecvV10;
  } else if constexpr (kVersion == 9) {
    net.isend = doIsend;
    net.irecv = irecvV9;
  } else {
    net.isend = isendV6;
    net.irecv = irecvV6;
  }
  return net;
}

}  // namespace

#ifdef LOOPBACK_ONLY_OLD  // a plugin for NCCL up to 2.23
#define LOOPBACK_SINCE_V9 "hidden"
#else
#define LOOPBACK_SINCE_V9 "default"
#endif

extern "C" {
#define LOOPBACK_TABLE(version, visible)                                         \
  [[gnu::visibility(visible)]] ncclNet_v##version##_t ncclNetPlugin_v##version = \
      makeTable<version, ncclNet_v##version##_t, ncclNetProperties_v##version##_t>();
LOOPBACK_TABLE(12, LOOPBACK_SINCE_V9)
LOOPBACK_TABLE(11, LOOPBACK_SINCE_V9)
LOOPBACK_TABLE(10, LOOPBACK_SINCE_V9)
LOOPBACK_TABLE(9, LOOPBACK_SINCE_V9)
LOOPBACK_TABLE(8, "default")
LOOPBACK_TABLE(7, "default")
LOOPBACK_TABLE(6, "default")
}
