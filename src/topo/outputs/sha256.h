// SHA-256 for the page's content security policy: only the script and style that we wrote may run. Internal
// to outputs/.
#pragma once

#include <string>
#include <string_view>

namespace railwise::topo {

// "sha256-<base64>", as a content security policy names it.
std::string cspHash(std::string_view text);

}  // namespace railwise::topo
