// The constant parts of the HTML page, and its data. Internal to outputs/.
#pragma once

#include <string>
#include <string_view>

#include "base/text/json.h"
#include "topo/explain/explain.h"
#include "topo/search/search.h"

namespace railwise::topo {

// The files in page/: the style of the drawing and of the page around it, and the script. The script inserts
// text from the machine only through textContent.
std::string_view htmlStyle();
std::string_view htmlScript();
// "sha256-<base64>" for the page's content security policy, which allows only this style and this script.
std::string_view htmlStyleHash();
std::string_view htmlScriptHash();

// The data that the script shows after a click, as JSON that is safe inside <script>.
std::string htmlData(const Machine& machine, const MachineExplanation& all);
// Parts of the data: "graphs", the channels that NCCL's search finds; "transports" of each pair of GPUs.
void writeChannelData(JsonWriter& json, const Machine& machine);
void writeTransportData(JsonWriter& json, const Machine& machine);

}  // namespace railwise::topo
