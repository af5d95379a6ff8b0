// One shape for the seven versions of NCCL's net plugin API (v6 to v12): what NCCL 2.30.7's own shims do with
// an older table, done the same way (32-bit size limits, the config in v10's connect, contexts from v11 on).
// Which thread may call what is NCCL's contract: init, devices, getProperties, finalize on the main thread;
// listen to closeListen and regMr on the service thread; isend, irecv, test on the progress thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "nccl/types.h"

namespace railwise::tools {

inline constexpr int kOldestApi = 6;
inline constexpr int kNewestApi = 12;
inline constexpr std::size_t kMaxGroup = 8;  // NCCL_NET_IB_MAX_RECVS

// ncclNetProperties of any version; what a version lacks is as NCCL's shim sets it.
struct NetProperties {
  std::string name;
  std::string pci_path;  // empty: none
  uint64_t guid = 0;
  int ptr_support = NCCL_PTR_HOST;
  int speed_mbps = 0;
  int port = 0;
  float latency_us = 0;
  int max_comms = 0;
  int max_recvs = 0;
  bool host_device = true;  // netDeviceType is HOST: no device code needed
  int rail = NCCL_NET_ID_UNDEF;
  int plane = NCCL_NET_ID_UNDEF;
};

class NetApi {
 public:
  // `table` is the ncclNetPlugin_v<version> symbol. Null and `error` set when it has no init.
  static std::unique_ptr<NetApi> create(int version, void* table, std::string* error);
  virtual ~NetApi() = default;
  NetApi(const NetApi&) = delete;
  NetApi& operator=(const NetApi&) = delete;

  int version() const { return version_; }
  virtual const char* name() const = 0;
  virtual ncclResult_t init(uint64_t comm_id, ncclDebugLogger_t logger) = 0;
  // After init, where some plugins fill their table: the first function that NCCL needs and that is missing,
  // or null.
  virtual const char* missingFunction() const { return nullptr; }
  virtual ncclResult_t devices(int* count) = 0;
  virtual ncclResult_t getProperties(int device, NetProperties* properties) = 0;
  // A device made of others. ncclInvalidUsage: before v9, which introduced it, and of plugins that have none.
  virtual ncclResult_t makeVDevice(std::span<const int> /*physical*/, int* /*device*/) {
    return ncclInvalidUsage;
  }
  virtual ncclResult_t listen(int device, void* handle, void** listen_comm) = 0;
  virtual ncclResult_t connect(int device, void* handle, void** send_comm) = 0;
  virtual ncclResult_t accept(void* listen_comm, void** recv_comm) = 0;
  virtual ncclResult_t regMr(void* comm, void* data, std::size_t bytes, int type, void** mhandle) = 0;
  virtual ncclResult_t deregMr(void* comm, void* mhandle) = 0;
  virtual ncclResult_t isend(void* comm, void* data, std::size_t bytes, int tag, void* mhandle,
                             void** request) = 0;
  // One of several buffers, which sends fill by their tags: at most kMaxGroup, and the plugin's maxRecvs.
  struct Buffer {
    void* data;
    std::size_t bytes;
    int tag;
    void* mhandle;
  };
  virtual ncclResult_t irecvGroup(void* comm, std::span<const Buffer> buffers, void** request) = 0;
  // A receive of one buffer (NCCL's n == 1).
  ncclResult_t irecv(void* comm, void* data, std::size_t bytes, int tag, void* mhandle, void** request) {
    const Buffer buffer = {data, bytes, tag, mhandle};
    return irecvGroup(comm, {&buffer, 1}, request);
  }
  virtual ncclResult_t test(void* request, int* done, int* bytes) = 0;
  virtual ncclResult_t closeSend(void* comm) = 0;
  virtual ncclResult_t closeRecv(void* comm) = 0;
  virtual ncclResult_t closeListen(void* comm) = 0;
  // Does nothing before v11, which introduced it.
  virtual ncclResult_t finalize() = 0;

 protected:
  explicit NetApi(int version) : version_(version) {}

 private:
  const int version_;
};

// "ncclRemoteError (the peer failed or left)".
std::string resultText(ncclResult_t result);

}  // namespace railwise::tools
