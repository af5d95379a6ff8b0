// What is wrong with a job, by what its logs say. Pure; each part looks at one thing. All checks are headings
// of docs/doctor-log.md.
#pragma once

#include "doctor/finding.h"
#include "doctor/log/job.h"
#include "doctor/log/judging/evidence.h"
#include "doctor/log/ranks.h"

namespace railwise::doctor {

// All of it.
Findings judgeJob(const Job& job, const Ranks& ranks);

// The event that came first, as far as the logs tell; index into Job::events, -1: there is no error.
int firstError(const Job& job);

// Is the first error a cause that ranks which are missing do not explain? Ranks whose communicator was never
// completed then need no other reason.
bool explainsWaiting(const Job& job, const Ranks& ranks);

void judgeErrors(const Evidence& evidence, const Ranks& ranks, Findings& findings);
void judgeNetwork(const Evidence& evidence, const Ranks& ranks, Findings& findings);
void judgeGpuDirect(const Job& job, const Ranks& ranks, Findings& findings);
void judgeMissing(const Job& job, const Ranks& ranks, Findings& findings);
void judgeDifferences(const Evidence& evidence, const Ranks& ranks, Findings& findings);
void judgeOneSided(const Job& job, const Ranks& ranks, Findings& findings);
void judgeReading(const Job& job, const Ranks& ranks, Findings& findings);

// What nccl-tests measured beside the logs.
struct Measured {
  double gb_per_s = 0;  // the best of the bus; 0: nothing
  std::string where;    // FILE:LINE
  bool below_model = false;
};
// What the logs say of a low result: a bond that carries one port's rate, ECE.
void judgeRate(const Ranks& ranks, const Measured& measured, Findings& findings);

// May GPU memory go straight through the NICs of the network in use? {enabled, all} of its NICs.
struct GpuDirectCount {
  std::size_t enabled = 0;
  std::size_t all = 0;
};
GpuDirectCount gpuDirectCount(const Process& process);
bool usesRdma(const Process& process);
// As the process's environment has set it; null: the log does not say.
const Fact* setting(const Process& process, const std::string& name);

// "GIN and RMA: NCCL's own IB network over 8 NICs (mlx5_0, ...), not Railwise, ..."; "": the log does not
// say.
std::string oneSidedText(const Process& process);
// "GIN_IB_PROXY", "none" or "unnamed", with the line that says so. An empty value: the log does not say.
Fact ginTables(const Process& process);
Fact rmaTables(const Process& process);
// "GIN_IB_PROXY for GIN, none for RMA"; "": the log does not say.
std::string oneSidedTables(const Process& process);
// Why a call of one-sided communication fails, as far as the logs of all ranks tell, and what to type.
struct OneSidedReason {
  std::string why, fix;
};
OneSidedReason whyNotOneSided(const Job& job, const Ranks& ranks, int process);

}  // namespace railwise::doctor
