// Joins the lines that tell of one event.
#pragma once

#include "doctor/log/job.h"

namespace railwise::doctor {

// Joins events of the job and sets what became of each one's process; the weight of an event changes with it.
void joinChains(Job& job);

}  // namespace railwise::doctor
