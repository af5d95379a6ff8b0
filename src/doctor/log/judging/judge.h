// What is wrong with a job, by what its logs say. Pure; each part looks at one thing. All checks are headings
// of docs/doctor-log.md.
#pragma once

#include "doctor/finding.h"
#include "doctor/log/job.h"
#include "doctor/log/ranks.h"

namespace railwise::doctor {

// All of it.
Findings judgeJob(const Job& job, const Ranks& ranks);

// The event that came first, as far as the logs tell; index into Job::events, -1: there is no error.
int firstError(const Job& job);

void judgeErrors(const Job& job, const Ranks& ranks, Findings& findings);
void judgeNetwork(const Job& job, const Ranks& ranks, Findings& findings);
void judgeGpuDirect(const Job& job, const Ranks& ranks, Findings& findings);
void judgeMissing(const Job& job, const Ranks& ranks, Findings& findings);
void judgeDifferences(const Job& job, const Ranks& ranks, Findings& findings);
void judgeReading(const Job& job, const Ranks& ranks, Findings& findings);

// May GPU memory go straight through the NICs of the network in use? {enabled, all} of its NICs.
struct GpuDirectCount {
  std::size_t enabled = 0;
  std::size_t all = 0;
};
GpuDirectCount gpuDirectCount(const Process& process);
bool usesRdma(const Process& process);

}  // namespace railwise::doctor
