// A job's life with the plugin, both ends in this process: devices, two connections, messages, flushes, the
// end. An error ends it early and in good order, as in NCCL.
#pragma once

#include <string>

namespace railwise::test {

struct Life {
  std::string failed;  // the call that answered an error; empty: none
  std::string wrong;   // what must not be, whatever failed
};

// One life from init to finalize. The software device must be chosen (useDevice).
Life live();
// The same with a group of two ranks that put, signal and read, and lose a path.
Life liveOneSided();

}  // namespace railwise::test
