// The texts that are made of the pages of all commands. Pure.
#pragma once

#include <span>
#include <string>

#include "cli/help/pages.h"

namespace railwise::cli {

// The name of the man page: "railwise-topo-show".
std::string manName(const CommandPage& command);
// A man page in roff (man(7)), for section 1.
std::string manText(std::span<const CommandPage> pages, const CommandPage& command);

std::string bashCompletion(std::span<const CommandPage> pages);
std::string zshCompletion(std::span<const CommandPage> pages);
std::string fishCompletion(std::span<const CommandPage> pages);

}  // namespace railwise::cli
