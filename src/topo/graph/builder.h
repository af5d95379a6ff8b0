// XML -> Graph, as NCCL's ncclTopoGetSystemFromXml does it, in the same order (order decides ties later).
#pragma once

#include "topo/document/xml.h"
#include "topo/graph/graph.h"
#include "topo/outcome.h"
#include "topo/settings.h"

namespace railwise::topo {

// An error names the file, the line and the attribute or device, and what to do. NCCL would fail its init
// with the same document.
Outcome<Graph> buildGraph(const XmlDocument& document, const Settings& settings);

}  // namespace railwise::topo
