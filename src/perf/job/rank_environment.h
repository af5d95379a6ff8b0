// Who this process is in a job that someone started: railwise's own launcher, mpirun (Open MPI, MPICH, Intel
// MPI), srun or torchrun; rank, size and where rank 0 is, from their environment variables. Pure, but for
// getppid().
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

namespace railwise::tools {

inline constexpr int kMaxRanks = 1024;

struct RankIdentity {
  int rank = 0;
  int size = 1;
  std::string address;  // HOST:PORT of rank 0
  std::string secret;   // the same in all ranks of the job; strangers do not know it
  std::string source;   // "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE", for messages
  // Only when railwise's launcher started this process:
  int listen_fd = -1;  // rank 0: the listening socket
  pid_t launcher = 0;
  bool software_fallback = false;  // the launcher found no RDMA device
};

using Environment = std::function<const char*(const char*)>;

// Nothing, and `error` empty: nobody started this process. Nothing, and `error` set: the variables contradict
// themselves or do not say where rank 0 is. `address` (may be empty) is --address.
std::optional<RankIdentity> rankFromEnvironment(const Environment& environment, const std::string& address,
                                                std::string* error);

// "node[03-07,9],other" -> "node03".
std::string firstHost(const std::string& node_list);

// The launcher's side: the variables for the rank that it starts, as NAME=value.
inline constexpr const char* kRankVariable = "RAILWISE_PERF_RANK";
inline constexpr const char* kSizeVariable = "RAILWISE_PERF_SIZE";
inline constexpr const char* kAddressVariable = "RAILWISE_PERF_ADDRESS";
inline constexpr const char* kSecretVariable = "RAILWISE_PERF_SECRET";
inline constexpr const char* kListenFdVariable = "RAILWISE_PERF_LISTEN_FD";
inline constexpr const char* kLauncherVariable = "RAILWISE_PERF_LAUNCHER";
inline constexpr const char* kFallbackVariable = "RAILWISE_PERF_SOFTWARE_FALLBACK";
// Only for a rank whose launcher wants to know how far it is: the descriptor of the memory that they share.
inline constexpr const char* kRecordVariable = "RAILWISE_PERF_RECORD_FD";

}  // namespace railwise::tools
