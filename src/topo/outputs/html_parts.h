// The constant parts and the data of the page. Internal to outputs/.
#pragma once

#include <string>
#include <string_view>

#include "topo/explain/explain.h"

namespace railwise::topo {

std::string_view htmlStyle();
std::string_view htmlScript();

// What the script shows on a click, as JSON that is safe inside <script>.
std::string htmlData(const Machine& machine, const MachineExplanation& all);

}  // namespace railwise::topo
