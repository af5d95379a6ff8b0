// The plugin of bad_plugin.h, in API v12 and v8.
#include "tests/spy/bad_plugin.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "nccl/net_v12.h"
#include "nccl/net_v8.h"

namespace {

using railwise::test::Orders;

Orders g_orders;
int g_context;
int g_listener;
int g_send;
int g_receive;
int g_memory;

// For commands that load the plugin in processes of theirs: what it does wrong.
bool is(std::string_view defect) {
  static const char* const chosen = std::getenv("BAD_PLUGIN");
  return chosen != nullptr && defect == chosen;
}

// "fifo": a right plugin. It has one place for requests, and its peer dies: the request that is then under
// way ends with an error in test alone.
struct Fifo {
  using Clock = std::chrono::steady_clock;
  bool taken = false;
  Clock::time_point begin = Clock::now();
  bool since(int ms) const { return Clock::now() - begin > std::chrono::milliseconds(ms); }
};
Fifo& fifo() {
  static Fifo it;
  return it;
}
ncclResult_t testFifo(int* done) {
  *done = fifo().since(200) ? 0 : 1;
  if (*done != 0) fifo().taken = false;
  return fifo().since(3000) ? ncclRemoteError : ncclSuccess;
}

// A request is an address; each has a place of its own.
char g_requests[4096];
int g_request = 0;
int g_buffers[sizeof g_requests] = {};

ncclResult_t make(void** request, int buffers) {
  if (g_orders.fail) return ncclSystemError;
  if (g_orders.leave_request) return ncclSuccess;
  if (g_orders.not_now || (is("fifo") && std::exchange(fifo().taken, true)))
    return *request = nullptr, ncclSuccess;
  const int place = ++g_request % static_cast<int>(sizeof g_requests);
  g_buffers[place] = buffers;
  *request = g_orders.last_request = g_orders.request != nullptr ? g_orders.request : &g_requests[place];
  return ncclSuccess;
}

ncclResult_t send(void** request) {
  ++g_orders.isends;
  std::this_thread::sleep_for(g_orders.isend_takes);
  while (std::atomic_ref(g_orders.isend_hangs).load()) std::this_thread::yield();
  return make(request, 1);
}

ncclResult_t devices(int* count) { return *count = is("no-device") ? 0 : 1, ncclSuccess; }

template <typename Properties>
ncclResult_t getProperties(int device, Properties* its) {
  static char names[2][5] = {"bad0", "bad1"};
  *its = {};
  its->name = names[device % 2];
  its->ptrSupport = NCCL_PTR_HOST;
  its->speed = g_orders.impossible_speed ? -1 : 100'000;
  its->port = 1;
  its->maxComms = 16;
  its->maxRecvs = 2;
  if constexpr (requires { its->vProps; }) {
    its->vProps.ndevs = 1;
    its->vProps.devs[0] = device;
    its->maxP2pBytes = its->maxCollBytes = NCCL_MAX_NET_SIZE_BYTES;
  }
  return ncclSuccess;
}

ncclResult_t test(void* request, int* done, int* sizes) {
  if (is("fifo")) return testFifo(done);
  if (g_orders.fail) return ncclRemoteError;
  if (!g_orders.leave_done) *done = g_orders.done;
  const auto place = static_cast<char*>(request) - g_requests;
  if (sizes == nullptr || g_orders.leave_size || place < 0 || place >= static_cast<long>(sizeof g_requests))
    return ncclSuccess;
  for (int i = 0; i < g_buffers[place]; ++i) sizes[i] = g_orders.size;
  return ncclSuccess;
}

ncclResult_t start() {
  while (is("hang")) std::this_thread::sleep_for(std::chrono::hours(1));
  return ncclSuccess;
}

ncclResult_t listen(void** comm) {
  if (is("exit")) std::exit(0);
  if (is("crash")) std::raise(SIGSEGV);
  return *comm = g_orders.no_listener ? nullptr : &g_listener, ncclSuccess;
}
ncclResult_t registerMemory(void** handle) { return *handle = &g_memory, ncclSuccess; }
ncclResult_t accept(void*, void** comm, ncclNetDeviceHandle_v7_t**) {
  return *comm = &g_receive, ncclSuccess;
}
ncclResult_t deregMr(void*, void*) { return ++g_orders.deregistered, ncclSuccess; }
ncclResult_t iflush(void*, int, void**, int*, void**, void** request) { return make(request, 1); }
ncclResult_t closeAny(void*) { return ncclSuccess; }
ncclResult_t irecvConsumed(void*, int, void* request) { return g_orders.consumed = request, ncclSuccess; }

template <typename Net>
void fillCommon(Net& net) {
  net.name = "Bad";
  net.devices = devices;
  net.accept = accept;
  net.deregMr = deregMr;
  net.iflush = iflush;
  net.test = test;
  net.closeSend = net.closeRecv = net.closeListen = closeAny;
  net.irecvConsumed = irecvConsumed;
}

ncclNet_v8_t makeV8() {
  ncclNet_v8_t net = {};
  fillCommon(net);
  net.init = [](ncclDebugLogger_t) { return start(); };
  net.getProperties = getProperties<ncclNetProperties_v8_t>;
  net.listen = [](int, void*, void** comm) { return listen(comm); };
  net.connect = [](int, void*, void** comm, ncclNetDeviceHandle_v8_t**) {
    return *comm = &g_send, ncclSuccess;
  };
  net.regMr = [](void*, void*, size_t, int, void** handle) { return registerMemory(handle); };
  net.isend = [](void*, void*, int, int, void*, void** request) { return send(request); };
  net.irecv = [](void*, int n, void**, int*, int*, void**, void** request) { return make(request, n); };
  return net;
}

ncclNet_v12_t makeV12() {
  ncclNet_v12_t net = {};
  fillCommon(net);
  net.init = [](void** context, uint64_t, ncclNetCommConfig_v12_t*, ncclDebugLogger_t,
                ncclProfilerCallback_t) { return *context = &g_context, start(); };
  net.getProperties = getProperties<ncclNetProperties_v12_t>;
  net.listen = [](void*, int, void*, void** comm) { return listen(comm); };
  net.connect = [](void*, int, void*, void** comm, ncclNetDeviceHandle_v12_t**) {
    return *comm = &g_send, ncclSuccess;
  };
  net.regMr = [](void*, void*, size_t, int, void** handle) { return registerMemory(handle); };
  net.isend = [](void*, void*, size_t, int, void*, void*, void** request) { return send(request); };
  net.irecv = [](void*, int n, void**, size_t*, int*, void**, void**, void** request) {
    return make(request, n);
  };
  net.finalize = [](void*) { return ncclSuccess; };
  return net;
}

}  // namespace

extern "C" {
[[gnu::visibility("default")]] Orders* badPlugin() { return &g_orders; }
[[gnu::visibility("default")]] ncclNet_v8_t ncclNetPlugin_v8 = makeV8();
[[gnu::visibility("default")]] ncclNet_v12_t ncclNetPlugin_v12 = makeV12();
[[gnu::visibility("default")]] int ncclTunerPlugin_v3 = 0;
}
