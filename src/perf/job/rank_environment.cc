#include "perf/job/rank_environment.h"

#include <unistd.h>

#include <climits>
#include <initializer_list>

#include "cli/options/message.h"
#include "cli/options/options.h"

namespace railwise::cli {
namespace {

constexpr int kFirstPort = 15'000;  // below Linux's ephemeral ports (32768)
constexpr unsigned kPorts = 17'000;

std::string get(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value != nullptr ? value : "";
}

std::string firstOf(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (auto value = get(environment, name); !value.empty()) return value;
  }
  return {};
}

struct Starter {
  const char* rank;
  const char* size;
  const char* local_size;  // the variable with the number of ranks on this host; null: this starter has none
  const char* sign = nullptr;  // another variable that the starter sets; null: none is needed
};
constexpr Starter kStarters[] = {
    {kRankVariable, kSizeVariable, nullptr},
    // Before the others: srun or mpirun may have started torchrun, whose processes inherit its rank. A pod's
    // environment may have RANK, but not LOCAL_RANK.
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr},
    {"SLURM_PROCID", "SLURM_NTASKS", nullptr},
};

const Starter* findStarter(const Environment& environment) {
  const auto isSet = [&](const char* name) { return name == nullptr || environment(name) != nullptr; };
  for (const Starter& starter : kStarters)
    if (isSet(starter.rank) && isSet(starter.size) && isSet(starter.sign)) return &starter;
  return nullptr;
}

// A text that only the ranks of this job have in common. The first two variables are secrets: the user's own,
// and a random number that Open MPI gives to all ranks. The others are numbers that other users may know.
std::string jobName(const Environment& environment, bool all_local) {
  std::string name = get(environment, kSecretVariable) + "/" +
                     get(environment, "OMPI_MCA_orte_precondition_transports") + "/";
  for (const char* variable : {"SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
                               "PMI_JOBID", "TORCHELASTIC_RUN_ID", "MASTER_PORT"}) {
    name += get(environment, variable) + "/";
  }
  // No variable identifies the job. If all ranks are on one host, they share their parent process (mpirun, or
  // its daemon).
  if (all_local && name.find_first_not_of('/') == std::string::npos) name += std::to_string(getppid());
  return name;
}

bool allLocal(const Environment& environment, const Starter& starter, int size) {
  if (size == 1) return true;
  if (starter.local_size != nullptr && get(environment, starter.local_size) == std::to_string(size))
    return true;
  const std::string nodes =
      firstOf(environment, {"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
  return nodes == "1";
}

std::string hostOfRankZero(const Environment& environment) {
  if (auto master = get(environment, "MASTER_ADDR"); !master.empty()) return master;
  const std::string nodes =
      firstOf(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (!nodes.empty()) return firstHost(nodes);
  return get(environment, "SLURM_LAUNCH_NODE_IPADDR");
}

std::string portOf(const Environment& environment, const std::string& job) {
  std::string master_port = get(environment, "MASTER_PORT");
  // torchrun's own store listens on MASTER_PORT. In this case, and if there is no MASTER_PORT, the port is
  // derived from the job's name.
  const bool taken = environment("TORCHELASTIC_RUN_ID") != nullptr;
  if (!master_port.empty() && !taken) return master_port;
  return std::to_string(kFirstPort + static_cast<int>(stableHash(job) % kPorts));
}

void addLauncherDetails(const Environment& environment, RankIdentity& identity) {
  identity.address = get(environment, kAddressVariable);
  identity.secret = get(environment, kSecretVariable);
  identity.source = "railwise perf --ranks";
  identity.listen_fd = parseInt(get(environment, kListenFdVariable), 0, INT_MAX).value_or(-1);
  identity.launcher = parseInt(get(environment, kLauncherVariable), 1, INT_MAX).value_or(0);
  identity.software_fallback = get(environment, kFallbackVariable) == "1";
}

// Reads rank and size from the starter's variables.
Outcome<RankIdentity> readNumbers(const Environment& environment, const Starter& starter) {
  const std::string size_text = get(environment, starter.size);
  const std::string rank_text = get(environment, starter.rank);
  const auto size = parseInt(size_text, 1, kMaxRanks);
  if (!size)
    return Error{std::string(starter.size) + "=" + size_text + " is not a number of ranks from 1 to " +
                 std::to_string(kMaxRanks)};
  const auto rank = parseInt(rank_text, 0, *size - 1);
  if (!rank)
    return Error{std::string(starter.rank) + "=" + rank_text + " is not a rank from 0 to " +
                 std::to_string(*size - 1) + " (" + starter.size + "=" + size_text + ")"};
  RankIdentity identity;
  identity.rank = *rank;
  identity.size = *size;
  identity.source = std::string(starter.rank) + " and " + starter.size;
  return identity;
}

}  // namespace

std::string firstHost(const std::string& node_list) {
  const auto end = node_list.find_first_of(",[");
  std::string host = node_list.substr(0, end);
  if (end == std::string::npos || node_list[end] == ',') return host;
  const auto number_end = node_list.find_first_of(",-]", end + 1);
  if (number_end == std::string::npos) return host;
  host += node_list.substr(end + 1, number_end - end - 1);
  const auto close = node_list.find(']', number_end);
  if (close == std::string::npos) return host;
  const auto suffix_end = node_list.find(',', close);
  return host +
         node_list.substr(close + 1, suffix_end == std::string::npos ? suffix_end : suffix_end - close - 1);
}

Outcome<std::optional<RankIdentity>> rankFromEnvironment(const Environment& environment,
                                                         const std::string& address) {
  const Starter* starter = findStarter(environment);
  if (starter == nullptr) return std::optional<RankIdentity>();
  auto numbers = readNumbers(environment, *starter);
  if (!numbers.ok()) return numbers.failure();
  RankIdentity& identity = *numbers;
  if (starter == &kStarters[0]) {
    addLauncherDetails(environment, identity);
    return std::optional(identity);
  }
  const bool all_local = allLocal(environment, *starter, identity.size);
  const std::string job = jobName(environment, all_local);
  identity.secret = job;
  identity.anonymous = job.find_first_not_of('/') == std::string::npos;
  identity.address = address;
  if (!address.empty()) return std::optional(identity);
  const std::string master = get(environment, "MASTER_ADDR");
  const std::string host = all_local && master.empty() ? "127.0.0.1" : hostOfRankZero(environment);
  if (host.empty())
    return Error{textOf("started as rank %d of %d (", identity.rank, identity.size) + identity.source +
                 "), but nothing says where rank 0 is: give --address HOST:PORT, or --ranks N to start the "
                 "ranks here"};
  identity.address =
      (host.find(':') != std::string::npos ? "[" + host + "]" : host) + ":" + portOf(environment, job);
  return std::optional(identity);
}

// The name is derived from what the ranks have in common: the rendezvous address, and the secret, which
// differs between jobs.
std::string fabricOfJob(const RankIdentity& rank) {
  return "job" + std::to_string(stableHash(rank.address + "/" + rank.secret));
}

}  // namespace railwise::cli
