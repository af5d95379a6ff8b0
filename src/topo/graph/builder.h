// Builds the Graph from the XML as NCCL's ncclTopoGetSystemFromXml does. Nodes and links are made in NCCL's
// order, because their order decides between equal choices later.
#pragma once

#include "base/outcome.h"
#include "topo/document/xml.h"
#include "topo/graph/graph.h"
#include "topo/settings.h"

namespace railwise::topo {

// An error names the file, the line, the attribute or device, and what to do. NCCL's init would fail with the
// same document.
Outcome<Graph> buildGraph(const XmlDocument& document, const Settings& settings);

}  // namespace railwise::topo
