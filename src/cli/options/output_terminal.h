// What a command may do with its standard output: colours, and how wide its lines are.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/options/options.h"

namespace railwise::cli {

enum class ColorChoice { kAuto, kAlways, kNever };

// Adds --color auto|always|never.
void addColorOption(std::vector<Option>& table, ColorChoice& choice);

// Whether to write colours. kAuto: on a terminal, unless NO_COLOR is set (no-color.org) or TERM is "dumb".
bool outputHasColor(ColorChoice choice);

// The columns of lines: of the terminal between 40 and 100 (longer lines are hard to read), else 80.
std::size_t outputColumns();

}  // namespace railwise::cli
