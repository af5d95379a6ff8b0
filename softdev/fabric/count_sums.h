// Adds the counters of the shared segment to plain sums.
#pragma once

#include "softdev/fabric/segment.h"
#include "softdev/softdev.h"

namespace railwise::softdev {

void addTo(Counters& sum, const WorkCounters& counters);
void addTo(Counters& sum, const PollCounters& counters);
void addTo(Counters& sum, const SrqRecord& srq);

}  // namespace railwise::softdev
