// What was read of a job: the head of the report, its table, and the ranks as JSON. Pure.
#pragma once

#include "base/text/json.h"
#include "doctor/finding.h"
#include "doctor/log/job.h"
#include "doctor/log/ranks.h"

namespace railwise::doctor {

// Subject "16 ranks on 2 hosts, NCCL 2.29.7, network Railwise", what was looked at, what the logs lack.
ReportStyle logStyle(const Job& job, const Ranks& ranks);

// Writes the keys "ranks" (what each process of the job says) and "files" into the object that is open.
void writeJobJson(JsonWriter& json, const Job& job, const Ranks& ranks);

}  // namespace railwise::doctor
