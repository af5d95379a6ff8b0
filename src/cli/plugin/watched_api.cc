#include "cli/plugin/watched_api.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#include "base/clock.h"

namespace railwise::cli {
namespace {

class WatchedApi final : public NetApi {
 public:
  explicit WatchedApi(std::unique_ptr<NetApi> api) : NetApi(api->version()), api_(std::move(api)) {}

  const char* name() const override { return api_->name(); }
  const char* missingFunction() const override { return api_->missingFunction(); }
  ncclResult_t init(uint64_t id, ncclDebugLogger_t logger) override {
    return in("init", [&] { return api_->init(id, logger); });
  }
  ncclResult_t devices(int* count) override {
    return in("devices", [&] { return api_->devices(count); });
  }
  ncclResult_t getProperties(int device, NetProperties* properties) override {
    return in("getProperties", [&] { return api_->getProperties(device, properties); });
  }
  ncclResult_t makeVDevice(std::span<const int> physical, int* device) override {
    return in("makeVDevice", [&] { return api_->makeVDevice(physical, device); });
  }
  ncclResult_t finalize() override {
    return in("finalize", [&] { return api_->finalize(); });
  }
  ncclResult_t listen(int device, void* handle, void** comm) override {
    return in("listen", [&] { return api_->listen(device, handle, comm); });
  }
  ncclResult_t connect(int device, void* handle, void** comm) override {
    return in("connect", [&] { return api_->connect(device, handle, comm); });
  }
  ncclResult_t accept(void* listener, void** comm) override {
    return in("accept", [&] { return api_->accept(listener, comm); });
  }
  ncclResult_t regMr(void* comm, void* data, std::size_t bytes, int type, void** handle) override {
    return in("regMr", [&] { return api_->regMr(comm, data, bytes, type, handle); });
  }
  ncclResult_t deregMr(void* comm, void* handle) override {
    return in("deregMr", [&] { return api_->deregMr(comm, handle); });
  }
  ncclResult_t isend(void* comm, void* data, std::size_t bytes, int tag, void* handle,
                     void** request) override {
    return in("isend", [&] { return api_->isend(comm, data, bytes, tag, handle, request); });
  }
  ncclResult_t irecvGroup(void* comm, std::span<const Buffer> buffers, void** request) override {
    return in("irecv", [&] { return api_->irecvGroup(comm, buffers, request); });
  }
  ncclResult_t test(void* request, int* done, int* sizes) override {
    return in("test", [&] { return api_->test(request, done, sizes); });
  }
  ncclResult_t closeSend(void* comm) override {
    return in("closeSend", [&] { return api_->closeSend(comm); });
  }
  ncclResult_t closeRecv(void* comm) override {
    return in("closeRecv", [&] { return api_->closeRecv(comm); });
  }
  ncclResult_t closeListen(void* comm) override {
    return in("closeListen", [&] { return api_->closeListen(comm); });
  }

 private:
  template <typename Call>
  static ncclResult_t in(const char* name, Call&& call) {
    if (g_call_now == nullptr) return call();
    g_call_now->since_ns = nowNs();
    g_call_now->name = name;
    const ncclResult_t result = call();
    g_call_now->name = nullptr;
    return result;
  }

  const std::unique_ptr<NetApi> api_;
};

}  // namespace

CallNow* sharedCall() {
  static CallNow* const page = [] {
    void* const memory =
        mmap(nullptr, sizeof(CallNow), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : new (memory) CallNow;
  }();
  return page;
}

CallNow* g_call_now = nullptr;

std::unique_ptr<NetApi> watched(std::unique_ptr<NetApi> api) {
  return std::make_unique<WatchedApi>(std::move(api));
}

}  // namespace railwise::cli
