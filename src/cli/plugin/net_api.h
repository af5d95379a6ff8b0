// One interface for the seven versions of NCCL's network plugin API (v6 to v12). It treats an older table as
// the shims of NCCL 2.30.7 do (32-bit size limits, the config in v10's connect, contexts from v11 on).
// Threads follow NCCL's contract: init, devices, getProperties and finalize on the main thread; listen to
// closeListen and regMr on the service thread; isend, irecv and test on the progress thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/outcome.h"
#include "nccl/net_v12.h"
#include "nccl/types.h"
#include "nccl/versions.h"

namespace railwise::cli {

inline constexpr std::size_t kMaxGroup = 8;  // NCCL_NET_IB_MAX_RECVS

// ncclNetProperties of any version. A field that a version lacks has the value that NCCL's shim sets.
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
  bool host_device = true;  // netDeviceType is HOST, so no device code is needed
  int rail = NCCL_NET_ID_UNDEF;
  int plane = NCCL_NET_ID_UNDEF;
};
// For a table that is not of the net plugin API and has its properties.
NetProperties uniformProperties(const ncclNetProperties_v12_t& from);

// What all tables have in common. init() makes the context of the other calls.
class PluginApi {
 public:
  virtual ~PluginApi() = default;
  PluginApi(const PluginApi&) = delete;
  PluginApi& operator=(const PluginApi&) = delete;

  int version() const { return version_; }
  virtual const char* name() const = 0;
  virtual ncclResult_t init(uint64_t comm_id, ncclDebugLogger_t logger) = 0;
  // The first function that NCCL needs and the table lacks, or null. Call it after init, because some plugins
  // fill their table there.
  virtual const char* missingFunction() const { return nullptr; }
  virtual ncclResult_t devices(int* count) = 0;
  virtual ncclResult_t getProperties(int device, NetProperties* properties) = 0;
  // Makes one device of several. ncclInvalidUsage: the table does not have makeVDevice, which v9 of the net
  // plugin API introduced.
  virtual ncclResult_t makeVDevice(std::span<const int> /*physical*/, int* /*device*/) {
    return ncclInvalidUsage;
  }
  // Does nothing before v11, which introduced finalize.
  virtual ncclResult_t finalize() = 0;

 protected:
  explicit PluginApi(int version) : version_(version) {}

 private:
  const int version_;
};

class NetApi : public PluginApi {
 public:
  // `table` is the symbol ncclNetPlugin_v<version>. It is an error if the table has no init.
  static Outcome<std::unique_ptr<NetApi>> create(int version, void* table);
  virtual ncclResult_t listen(int device, void* handle, void** listen_comm) = 0;
  virtual ncclResult_t connect(int device, void* handle, void** send_comm) = 0;
  virtual ncclResult_t accept(void* listen_comm, void** recv_comm) = 0;
  virtual ncclResult_t regMr(void* comm, void* data, std::size_t bytes, int type, void** mhandle) = 0;
  virtual ncclResult_t deregMr(void* comm, void* mhandle) = 0;
  virtual ncclResult_t isend(void* comm, void* data, std::size_t bytes, int tag, void* mhandle,
                             void** request) = 0;
  // One of several buffers of a receive, which sends fill by their tags. A receive has at most kMaxGroup
  // buffers, and at most the plugin's maxRecvs.
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

 protected:
  explicit NetApi(int version) : PluginApi(version) {}
};

// For example "ncclRemoteError (the peer failed or left, or no path to it works)".
std::string resultText(ncclResult_t result);

}  // namespace railwise::cli
