// Which rank this process is in a job. The job was started by Railwise's own launcher, mpirun (Open MPI,
// MPICH, Intel MPI), srun or torchrun; their environment variables have the rank, the size and the address of
// rank 0. Pure, except for getppid().
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "base/outcome.h"

namespace railwise::cli {

inline constexpr int kMaxRanks = 1024;

struct RankIdentity {
  int rank = 0;
  int size = 1;
  std::string address;  // HOST:PORT of rank 0
  std::string secret;   // equal in all ranks of the job; others do not know it, as far as the starter allows
  bool anonymous = false;  // nothing that the starter has set tells this job from others
  std::string source;      // "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE", for messages
  // The next fields are set only if Railwise's launcher started this process.
  int listen_fd = -1;  // rank 0: the listening socket
  pid_t launcher = 0;
  bool software_fallback = false;  // the launcher found no RDMA device
};

using Environment = std::function<const char*(const char*)>;

// Null: no launcher started this process. An error: the variables contradict each other, or do not give the
// address of rank 0. `address` is the value of --address and may be empty.
Outcome<std::optional<RankIdentity>> rankFromEnvironment(const Environment& environment,
                                                         const std::string& address);

// The first host in a list: "node[03-07,9],other" gives "node03".
std::string firstHost(const std::string& node_list);

// The fabric of a job whose ranks mpirun, srun or torchrun started: a name that all ranks of this job
// compute, and no other job.
std::string fabricOfJob(const RankIdentity& rank);

// Variables that the launcher sets for the rank that it starts.
inline constexpr const char* kRankVariable = "RAILWISE_PERF_RANK";
inline constexpr const char* kSizeVariable = "RAILWISE_PERF_SIZE";
inline constexpr const char* kAddressVariable = "RAILWISE_PERF_ADDRESS";
inline constexpr const char* kSecretVariable = "RAILWISE_PERF_SECRET";
inline constexpr const char* kListenFdVariable = "RAILWISE_PERF_LISTEN_FD";
inline constexpr const char* kLauncherVariable = "RAILWISE_PERF_LAUNCHER";
inline constexpr const char* kFallbackVariable = "RAILWISE_PERF_SOFTWARE_FALLBACK";
// The descriptor of the memory that the launcher and its ranks share. Set only if the launcher follows the
// progress of its ranks.
inline constexpr const char* kRecordVariable = "RAILWISE_PERF_RECORD_FD";

}  // namespace railwise::cli
