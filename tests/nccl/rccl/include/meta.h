// Stands in for Meta's own parts of RCCL in torchcomms (other algorithms, transports and logs), all of which
// are off: every header of theirs leads here (host/CMakeLists.txt).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nccl.h"  // RCCL's

struct ncclComm;

// ---- logs

struct CommLogData {
  std::uint64_t id = 0;
  std::uint64_t hash = 0;
  std::string description;
  int rank = 0;
  int ranks = 0;
};

struct NcclScubaEvent {
  explicit NcclScubaEvent(const CommLogData*) {}
  void lapAndRecord(const std::string&) {}
};

namespace fmt {

template <typename... Arguments>
std::string format(const char* text, const Arguments&...) {
  return text;
}

}  // namespace fmt

// ---- algorithms

namespace meta::comms {

struct NoAlgorithm {
  explicit operator bool() const { return false; }
  NoAlgorithm* operator->() { return this; }
  void allReduce() {}
};

struct AlgoFactoryDev {
  template <typename... Arguments>
  NoAlgorithm getAllReduceAlgo(Arguments...) {
    return {};
  }
};

inline int ncclToMetaComm(ncclDataType_t) { return 0; }

}  // namespace meta::comms

inline std::unique_ptr<meta::comms::AlgoFactoryDev> initAlgoFactory(ncclComm*) { return nullptr; }

struct ncclLowPrecisionBufferPool {
  bool initialized = false;
};

constexpr std::size_t LOW_PRECISION_MSG_SIZE_THRESHOLD = SIZE_MAX;
inline bool isLowPrecisionFp8E4M3AllGatherEnabled() { return false; }
inline bool isLowPrecisionFp8E4M3AllReduceEnabled() { return false; }
inline bool isLowPrecisionFp8E4M3AllToAllEnabled() { return false; }
inline bool isLowPrecisionFp8E4M3ReduceScatterEnabled() { return false; }
inline bool isAnyLowPrecisionFp8E4M3Enabled() { return false; }
inline bool isLowPrecisionInitEnabled() { return false; }

template <typename... Arguments>
ncclResult_t refuseMetaCollective(Arguments...) {
  return ncclInvalidUsage;
}
#define ncclInitLowPrecisionBufferPoolForComm refuseMetaCollective
#define ncclLowPrecisionAllGather refuseMetaCollective
#define ncclLowPrecisionAllReduce refuseMetaCollective
#define ncclLowPrecisionAllToAll refuseMetaCollective
#define ncclLowPrecisionBufferPoolDestroy refuseMetaCollective
#define ncclLowPrecisionReduceScatter refuseMetaCollective
#define ncclP2PAllGather refuseMetaCollective
#define ncclShardedRelayMultiGroupAllGatherImpl refuseMetaCollective
#define ncclShardedRelayMultiGroupAllReduceImpl refuseMetaCollective
#define ncclShardedRelayMultiGroupAllToAllImpl refuseMetaCollective
#define ncclShardedRelayMultiGroupReduceScatterImpl refuseMetaCollective

// ---- transports

struct CtranComm {
  void destroy() {}
  ncclResult_t getAsyncResult() { return ncclSuccess; }
};

constexpr bool NCCL_CTRAN_ENABLE = false;
enum class NCCL_COMM_ABORT_SCOPE { none, job, comm };
constexpr enum NCCL_COMM_ABORT_SCOPE NCCL_COMM_ABORT_SCOPE = NCCL_COMM_ABORT_SCOPE::comm;
inline bool ctranInitialized(CtranComm*) { return false; }
inline ncclResult_t ctranFinalize(CtranComm*) { return ncclSuccess; }
inline ncclResult_t initNcclCommCtran(ncclComm*) { return ncclSuccess; }
inline ncclResult_t metaCommToNccl(ncclResult_t result) { return result; }

namespace ctran::utils {

inline void setSkipDestroyCtran(bool) {}

}  // namespace ctran::utils
