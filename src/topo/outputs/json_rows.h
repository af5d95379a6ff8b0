// The tables that pathsJson() and topologyJson() share, one JSON row for each pair. Internal to outputs/.
#pragma once

#include "base/text/json.h"
#include "topo/machine/machine.h"
#include "topo/outputs/outputs.h"
#include "topo/paths/policy.h"

namespace railwise::topo {

// Writes "gpu_gpu": [[from, to, type, GB/s, hops, [via...]], ...], and six more tables of the same form.
void writePathTables(JsonWriter& json, const Paths& paths);

// Writes "p2p": [[from, to, allowed, read, intermediate rank], ...]. `with_reasons` adds one string to each
// row.
void writeP2p(JsonWriter& json, const Paths& paths, bool with_reasons);

// Writes "gdr": [[gpu, net, receive, send, flush, PXN rank], ...]. `with_reasons` adds the rule and the
// reason of receive and of send, and the reason of flush.
void writeGdr(JsonWriter& json, const Paths& paths, bool with_reasons);

// Writes "domains": [{ranks, max_bw, total_bw, local_net, p2p_net}, ...].
void writeDomains(JsonWriter& json, const Machine& machine);

// Writes the fields of an object: "pairs" and "other_host" (rows), "classes", "nvls", "one_process" and
// "channel".
void writeTransports(JsonWriter& json, const Transports& transports, const TransportsShown& shown);

}  // namespace railwise::topo
