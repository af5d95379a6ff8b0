// The tables of topologyJson() and of transportsJson(), one JSON row for each pair. Internal to outputs/.
#pragma once

#include "base/text/json.h"
#include "topo/machine/machine.h"
#include "topo/outputs/outputs.h"
#include "topo/paths/policy.h"

namespace railwise::topo {

// Writes "gpu_gpu": [[from, to, type, GB/s, hops, [via...]], ...], and six more tables of the same form.
void writePathTables(JsonWriter& json, const Paths& paths);

// Writes "p2p": [[from, to, allowed, read, intermediate rank, reason], ...].
void writeP2p(JsonWriter& json, const Paths& paths);

// Writes "gdr": [[gpu, net, receive, send, flush, PXN rank, rule and reason of receive, rule and reason of
// send, reason of flush], ...].
void writeGdr(JsonWriter& json, const Paths& paths);

// Writes "domains": [{ranks, max_bw, total_bw, local_net, p2p_net}, ...].
void writeDomains(JsonWriter& json, const Machine& machine);

// Writes the fields of an object: "pairs" and "other_host" (rows), "classes", "nvls", "one_process" and
// "channel".
void writeTransports(JsonWriter& json, const Transports& transports, const TransportsShown& shown);

}  // namespace railwise::topo
