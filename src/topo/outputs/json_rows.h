// The tables that pathsJson() and topologyJson() share, one JSON row for each pair. Internal to outputs/.
#pragma once

#include "base/json.h"
#include "topo/machine/machine.h"
#include "topo/paths/policy.h"

namespace railwise::topo {

// "gpu_gpu": [[from, to, type, GB/s, hops, [via...]], ...] and the six other tables.
void writePathTables(JsonWriter& json, const Paths& paths);

// "p2p": [[from, to, allowed, read, intermediate rank], ...]; with reasons, one string more.
void writeP2p(JsonWriter& json, const Paths& paths, bool with_reasons);

// "gdr": [[gpu, net, receive, send, flush, PXN rank], ...]; with reasons, also the rule and the reason of
// receive and send, and the reason of flush.
void writeGdr(JsonWriter& json, const Paths& paths, bool with_reasons);

// "domains": [{ranks, max_bw, total_bw, local_net, p2p_net}, ...].
void writeDomains(JsonWriter& json, const Machine& machine);

}  // namespace railwise::topo
