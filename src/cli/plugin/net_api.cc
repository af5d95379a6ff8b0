#include "cli/plugin/net_api.h"

#include <algorithm>
#include <array>
#include <climits>
#include <iterator>
#include <type_traits>

#include "base/text/words.h"
#include "nccl/net_versions.h"

namespace railwise::cli {
namespace {

// NCCL always passes a profiler callback. This tool profiles nothing and never passes a profiler handle.
ncclResult_t ignoreProfilerEvent(void**, int, void*, int64_t, void*) { return ncclSuccess; }

template <typename Properties>
NetProperties uniform(const Properties& from) {
  NetProperties to;
  to.name = from.name != nullptr ? from.name : "";
  to.pci_path = from.pciPath != nullptr ? from.pciPath : "";
  to.guid = from.guid;
  to.ptr_support = from.ptrSupport;
  to.speed_mbps = from.speed;
  to.port = from.port;
  to.latency_us = from.latency;
  to.max_comms = from.maxComms;
  to.max_recvs = from.maxRecvs;
  if constexpr (requires { from.netDeviceType; }) to.host_device = from.netDeviceType == NCCL_NET_DEVICE_HOST;
  if constexpr (requires { from.railId; }) {
    to.rail = from.railId;
    to.plane = from.planeId;
  }
  return to;
}

// The first function that NCCL calls and the table lacks. Null: the table lacks none.
template <typename Net>
const char* missingFunctionOf(const Net& net) {
#define RAILWISE_NEED(function) \
  if (net.function == nullptr) return #function;
  RAILWISE_NEED(devices)
  RAILWISE_NEED(getProperties)
  RAILWISE_NEED(listen)
  RAILWISE_NEED(connect)
  RAILWISE_NEED(accept)
  RAILWISE_NEED(regMr)
  RAILWISE_NEED(deregMr)
  RAILWISE_NEED(isend)
  RAILWISE_NEED(irecv)
  RAILWISE_NEED(test)
  RAILWISE_NEED(closeSend)
  RAILWISE_NEED(closeRecv)
  RAILWISE_NEED(closeListen)
#undef RAILWISE_NEED
  if constexpr (requires { net.finalize; }) {
    if (net.finalize == nullptr) return "finalize";
  }
  return nullptr;
}

template <int kVersion>
class NetTable final : public NetApi {
  using Net = typename Abi<kVersion>::Net;

 public:
  explicit NetTable(const Net& net) : NetApi(kVersion), net_(net) {}

  const char* name() const override { return net_.name != nullptr ? net_.name : "(no name)"; }

  ncclResult_t init(uint64_t comm_id, ncclDebugLogger_t logger) override {
    if constexpr (kVersion >= 11) {
      return net_.init(&context_, comm_id, &config_, logger, ignoreProfilerEvent);
    } else if constexpr (kVersion == 10) {
      return net_.init(logger, ignoreProfilerEvent);
    } else {
      return net_.init(logger);
    }
  }
  const char* missingFunction() const override { return missingFunctionOf(net_); }
  ncclResult_t devices(int* count) override { return net_.devices(count); }
  ncclResult_t getProperties(int device, NetProperties* properties) override {
    typename Abi<kVersion>::Properties raw = {};
    const ncclResult_t result = net_.getProperties(device, &raw);
    if (result == ncclSuccess) *properties = uniform(raw);
    return result;
  }

  ncclResult_t makeVDevice(std::span<const int> physical, int* device) override {
    if constexpr (requires { net_.makeVDevice; }) {
      decltype(typename Abi<kVersion>::Properties{}.vProps) parts = {};
      if (net_.makeVDevice == nullptr || physical.size() > std::size(parts.devs)) return ncclInvalidUsage;
      parts.ndevs = static_cast<int>(physical.size());
      std::copy(physical.begin(), physical.end(), parts.devs);
      return net_.makeVDevice(device, &parts);
    }
    return ncclInvalidUsage;
  }

  ncclResult_t listen(int device, void* handle, void** listen_comm) override {
    if constexpr (kVersion >= 11) {
      return net_.listen(context_, device, handle, listen_comm);
    } else {
      return net_.listen(device, handle, listen_comm);
    }
  }
  ncclResult_t connect(int device, void* handle, void** send_comm) override {
    if constexpr (kVersion == 6) {
      return net_.connect(device, handle, send_comm);
    } else {
      ncclNetDeviceHandle_v7_t* device_handle = nullptr;
      if constexpr (kVersion >= 11) {
        return net_.connect(context_, device, handle, send_comm, &device_handle);
      } else if constexpr (kVersion == 10) {
        ncclNetCommConfig_v10_t config = config_;  // NCCL's config is on its stack too: plugins must copy it
        return net_.connect(device, &config, handle, send_comm, &device_handle);
      } else {
        return net_.connect(device, handle, send_comm, &device_handle);
      }
    }
  }
  ncclResult_t accept(void* listen_comm, void** recv_comm) override {
    if constexpr (kVersion == 6) {
      return net_.accept(listen_comm, recv_comm);
    } else {
      ncclNetDeviceHandle_v7_t* device_handle = nullptr;
      return net_.accept(listen_comm, recv_comm, &device_handle);
    }
  }

  ncclResult_t regMr(void* comm, void* data, std::size_t bytes, int type, void** mhandle) override {
    if constexpr (kVersion < 8) {
      if (bytes > INT_MAX) return ncclInternalError;
      return net_.regMr(comm, data, static_cast<int>(bytes), type, mhandle);
    } else {
      return net_.regMr(comm, data, bytes, type, mhandle);
    }
  }
  ncclResult_t deregMr(void* comm, void* mhandle) override { return net_.deregMr(comm, mhandle); }

  ncclResult_t isend(void* comm, void* data, std::size_t bytes, int tag, void* mhandle,
                     void** request) override {
    if constexpr (kVersion >= 10) {
      return net_.isend(comm, data, bytes, tag, mhandle, nullptr, request);
    } else if constexpr (kVersion == 9) {
      return net_.isend(comm, data, bytes, tag, mhandle, request);
    } else {
      if (bytes > INT_MAX) return ncclInternalError;
      return net_.isend(comm, data, static_cast<int>(bytes), tag, mhandle, request);
    }
  }
  ncclResult_t irecvGroup(void* comm, std::span<const Buffer> buffers, void** request) override {
    using Size = std::conditional_t<(kVersion >= 9), std::size_t, int>;
    std::array<void*, kMaxGroup> data;
    std::array<Size, kMaxGroup> sizes;
    std::array<int, kMaxGroup> tags;
    std::array<void*, kMaxGroup> mhandles;
    if (buffers.size() > kMaxGroup) return ncclInvalidArgument;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (kVersion < 9 && buffers[i].bytes > INT_MAX) return ncclInternalError;
      data[i] = buffers[i].data;
      sizes[i] = static_cast<Size>(buffers[i].bytes);
      tags[i] = buffers[i].tag;
      mhandles[i] = buffers[i].mhandle;
    }
    const int count = static_cast<int>(buffers.size());
    if constexpr (kVersion >= 10) {
      return net_.irecv(comm, count, data.data(), sizes.data(), tags.data(), mhandles.data(),
                        profiler_handles_.data(), request);
    } else {
      return net_.irecv(comm, count, data.data(), sizes.data(), tags.data(), mhandles.data(), request);
    }
  }
  ncclResult_t test(void* request, int* done, int* bytes) override { return net_.test(request, done, bytes); }

  ncclResult_t closeSend(void* comm) override { return net_.closeSend(comm); }
  ncclResult_t closeRecv(void* comm) override { return net_.closeRecv(comm); }
  ncclResult_t closeListen(void* comm) override { return net_.closeListen(comm); }
  ncclResult_t finalize() override {
    if constexpr (kVersion >= 11) {
      return net_.finalize(context_);
    } else {
      return ncclSuccess;
    }
  }

 private:
  const Net& net_;
  void* context_ = nullptr;
  std::array<void*, kMaxGroup> profiler_handles_ = {};
  ncclNetCommConfig_v10_t config_ = {.trafficClass = NCCL_NET_ID_UNDEF};
};

template <int kVersion>
Outcome<std::unique_ptr<NetApi>> make(void* table) {
  const auto& net = *static_cast<const typename Abi<kVersion>::Net*>(table);
  if (net.init == nullptr) return Error{"ncclNetPlugin_v" + std::to_string(kVersion) + " has no init"};
  return std::unique_ptr<NetApi>(std::make_unique<NetTable<kVersion>>(net));
}

}  // namespace

Outcome<std::unique_ptr<NetApi>> NetApi::create(int version, void* table) {
  switch (version) {
#define RAILWISE_CASE(v) \
  case v:                \
    return make<v>(table);
    RAILWISE_NET_VERSIONS(RAILWISE_CASE)
#undef RAILWISE_CASE
    default:
      return Error{"no net plugin API v" + std::to_string(version)};
  }
}

NetProperties uniformProperties(const ncclNetProperties_v12_t& from) { return uniform(from); }

std::string resultText(ncclResult_t result) {
  static constexpr std::pair<ncclResult_t, const char*> kTexts[] = {
      {ncclSuccess, "ncclSuccess"},
      {ncclUnhandledCudaError, "ncclUnhandledCudaError (a CUDA call failed)"},
      {ncclSystemError, "ncclSystemError (a call of the operating system or of a library failed)"},
      {ncclInternalError, "ncclInternalError (a broken invariant of the plugin)"},
      {ncclInvalidArgument, "ncclInvalidArgument (a value that the plugin cannot take)"},
      {ncclInvalidUsage, "ncclInvalidUsage (a call at a wrong time, or a wrong setting)"},
      {ncclRemoteError, "ncclRemoteError (the peer failed or left, or no path to it works)"},
      {ncclInProgress, "ncclInProgress"}};
  const char* const text = nameIn(kTexts, result, nullptr);
  return text != nullptr ? text : "result " + std::to_string(static_cast<int>(result)) + " (unknown)";
}

}  // namespace railwise::cli
