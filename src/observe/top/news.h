// The news of a model, for its headline. Pure, any thread.
#pragma once

#include <string>
#include <vector>

#include "observe/top/model.h"

namespace railwise::observe::top {

// What is wrong, the worst first, from everything else in the model. One good sentence where all is well.
std::vector<News> newsOf(const Model& model, const std::string& folder);

}  // namespace railwise::observe::top
