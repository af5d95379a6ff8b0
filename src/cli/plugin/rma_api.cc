#include "cli/plugin/rma_api.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "nccl/rma_v13.h"
#include "nccl/rma_v15.h"
#include "nccl/rma_v16.h"

namespace railwise::cli {
namespace {

template <int kVersion, typename Table>
class RmaTable final : public RmaApi {
 public:
  explicit RmaTable(const Table& table) : RmaApi(kVersion), table_(table) {}

  const char* name() const override { return table_.name != nullptr ? table_.name : "(no name)"; }
  std::unique_ptr<RmaApi> another() const override { return std::make_unique<RmaTable>(table_); }
  ncclResult_t init(uint64_t comm_id, ncclDebugLogger_t logger) override {
    return table_.init(&plugin_, comm_id, logger);
  }
  const char* missingFunction() const override {
#define RAILWISE_NEED(function) \
  if (table_.function == nullptr) return #function;
    RAILWISE_NEED(devices)
    RAILWISE_NEED(getProperties)
    RAILWISE_NEED(listen)
    RAILWISE_NEED(connect)
    RAILWISE_NEED(createContext)
    RAILWISE_NEED(regMrSym)
    RAILWISE_NEED(deregMrSym)
    RAILWISE_NEED(destroyContext)
    RAILWISE_NEED(closeColl)
    RAILWISE_NEED(closeListen)
    RAILWISE_NEED(iput)
    RAILWISE_NEED(iputSignal)
    RAILWISE_NEED(test)
    RAILWISE_NEED(finalize)
#undef RAILWISE_NEED
    return nullptr;
  }
  ncclResult_t devices(int* count) override { return table_.devices(count); }
  bool canGet() const override { return table_.iget != nullptr; }
  ncclResult_t getProperties(int device, NetProperties* properties) override {
    ncclNetProperties_v12_t raw = {};
    const ncclResult_t result = table_.getProperties(device, &raw);
    if (result == ncclSuccess) *properties = uniformProperties(raw);
    return result;
  }
  ncclResult_t listen(int device, void* handle, void** listener) override {
    return table_.listen(plugin_, device, handle, listener);
  }
  ncclResult_t connect(std::span<void*> handles, int rank, void* listener, void** group) override {
    return table_.connect(plugin_, handles.data(), static_cast<int>(handles.size()), rank, listener, group);
  }

  ncclResult_t createContext(void* group, void** context) override {
    if constexpr (kVersion == 13) {
      ncclGinConfig_v13_t config = {.nContexts = 1, .trafficClass = NCCL_NET_ID_UNDEF};
      ncclNetDeviceHandle_v11_t* device_handle = nullptr;
      return table_.createContext(group, &config, context, &device_handle);
    } else {
      ncclRmaConfig_v14_t config = {.nContexts = 1, .trafficClass = NCCL_NET_ID_UNDEF, .rankStride = 1};
      return table_.createContext(group, &config, context);
    }
  }
  ncclResult_t regMr(void* group, void* data, std::size_t bytes, int type, uint64_t flags,
                     void** window) override {
    if constexpr (kVersion == 13) {
      void* gin_handle = nullptr;
      return table_.regMrSym(group, data, bytes, type, flags, window, &gin_handle);
    } else {
      return table_.regMrSym(group, data, bytes, type, flags, window);
    }
  }
  ncclResult_t deregMr(void* group, void* window) override { return table_.deregMrSym(group, window); }

  ncclResult_t put(void* context, const RmaPlace& from, std::size_t bytes, const RmaPlace& to, uint32_t rank,
                   void** request) override {
    if constexpr (kVersion >= 15) {
      return table_.iput(context, 0, from.offset, from.window, bytes, to.offset, to.window, rank, 0, request);
    } else {
      return table_.iput(context, 0, from.offset, from.window, bytes, to.offset, to.window, rank, request);
    }
  }
  ncclResult_t putSignal(void* context, const RmaPlace& from, std::size_t bytes, const RmaPlace& to,
                         uint32_t rank, const RmaSignal& signal, void** request) override {
    const auto call = [&](auto... last) {
      return table_.iputSignal(context, 0, from.offset, from.window, bytes, to.offset, to.window, rank,
                               signal.at.offset, signal.at.window, signal.value, NCCL_NET_SIGNAL_OP_ADD,
                               last...);
    };
    if constexpr (kVersion >= 15) return call(true, uint32_t{0}, request);
    else if constexpr (kVersion == 14) return call(true, request);
    else return call(request);
  }
  ncclResult_t get(void* context, const RmaPlace& from, std::size_t bytes, const RmaPlace& to, uint32_t rank,
                   void** request) override {
    if (!canGet()) return ncclInvalidUsage;
    if constexpr (kVersion >= 15) {
      return table_.iget(context, 0, from.offset, from.window, bytes, to.offset, to.window, rank, 0, request);
    } else {
      return table_.iget(context, 0, from.offset, from.window, bytes, to.offset, to.window, rank, request);
    }
  }
  ncclResult_t test(void* group, void* request, int* done) override {
    return table_.test(group, request, done);
  }
  ncclResult_t progress(void* context) override {
    const auto function = [&] {
      if constexpr (kVersion == 13) return table_.ginProgress;
      else return table_.rmaProgress;
    }();
    return function != nullptr ? function(context) : ncclSuccess;
  }

  ncclResult_t destroyContext(void* context) override { return table_.destroyContext(context); }
  ncclResult_t closeGroup(void* group) override { return table_.closeColl(group); }
  ncclResult_t closeListen(void* listener) override { return table_.closeListen(listener); }
  ncclResult_t finalize() override { return table_.finalize(plugin_); }

 private:
  const Table& table_;
  void* plugin_ = nullptr;
};

template <int kVersion, typename Table>
Outcome<std::unique_ptr<RmaApi>> make(void* symbol) {
  const Table& table = *static_cast<const Table*>(symbol);
  if (table.init == nullptr) return Error{"its ncclRmaPlugin_v" + std::to_string(kVersion) + " has no init"};
  return std::unique_ptr<RmaApi>(std::make_unique<RmaTable<kVersion, Table>>(table));
}

}  // namespace

Outcome<std::unique_ptr<RmaApi>> RmaApi::create(int version, void* table) {
  switch (version) {
    case 13:
      return make<13, ncclRma_v13_t>(table);
    case 14:
      return make<14, ncclRma_v14_t>(table);
    case 15:
      return make<15, ncclRma_v15_t>(table);
    case 16:
      return make<16, ncclRma_v16_t>(table);
    default:
      return Error{"no RMA plugin API v" + std::to_string(version)};
  }
}

bool RmaMember::listen(int device, void* handle) {
  return check("listen", api_.listen(device, handle, &listener_));
}

bool RmaMember::join(std::span<void*> handles, int rank) {
  return check("connect", api_.connect(handles, rank, listener_, &group_)) &&
         check("closeListen", api_.closeListen(std::exchange(listener_, nullptr))) &&
         check("createContext", api_.createContext(group_, &context_));
}

void* RmaMember::add(void* data, std::size_t bytes, uint64_t flags) {
  void* window = nullptr;
  if (!check("regMrSym", api_.regMr(group_, data, bytes, NCCL_PTR_HOST, flags, &window))) return nullptr;
  windows_.push_back(window);
  return window;
}

bool RmaMember::close() {
  return check("destroyContext", api_.destroyContext(context_)) &&
         std::ranges::all_of(
             windows_, [this](void* window) { return check("deregMrSym", api_.deregMr(group_, window)); }) &&
         check("closeColl", api_.closeGroup(group_));
}

void* RmaMember::post(RmaKind kind, const RmaPlace& mine, std::size_t bytes, const RmaPlace& theirs,
                      uint32_t rank, const RmaSignal& signal) {
  void* request = nullptr;
  const char* call = "iput";
  ncclResult_t result = ncclSuccess;
  switch (kind) {
    case RmaKind::kPut:
      result = api_.put(context_, mine, bytes, theirs, rank, &request);
      break;
    case RmaKind::kPutSignal:
      call = "iputSignal";
      result = api_.putSignal(context_, mine, bytes, theirs, rank, signal, &request);
      break;
    case RmaKind::kGet:
      call = "iget";
      result = api_.get(context_, theirs, bytes, mine, rank, &request);
  }
  // For NCCL an operation without a request is an error, too.
  if (check(call, result) && request == nullptr) fail(call, ncclInternalError);
  return request;
}

bool RmaMember::test(void* request) {
  int done = 0;
  return check("test", api_.test(group_, request, &done)) && done != 0;
}

bool RmaMember::fail(const char* call, ncclResult_t result) {
  const std::lock_guard lock(failing_);
  if (failed()) return false;
  error_ = std::string(call) + " failed: " + resultText(result);
  result_ = result;
  failed_.store(true, std::memory_order_release);
  return false;
}

}  // namespace railwise::cli
