// The devices that the tests of the drop-in run on.
#pragma once

#include <string>

namespace railwise::drop_in::test {

// Configuration after "software:": soft0 is InfiniBand, soft1 RoCE of 100 Gb/s, on a fabric of this process.
std::string devicesText();

}  // namespace railwise::drop_in::test
