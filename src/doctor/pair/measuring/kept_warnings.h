// verbs reports the reason of a failure as a warning in the log. While an object of this class lives,
// warnings are kept instead of written, so that they stand in the report. One thread; one object at a time.
#pragma once

#include <string>

#include "base/log.h"

namespace railwise::doctor::pair {

class KeptWarnings {
 public:
  KeptWarnings();
  ~KeptWarnings() { log::setSink(before_); }
  KeptWarnings(const KeptWarnings&) = delete;
  KeptWarnings& operator=(const KeptWarnings&) = delete;

  // The first warning since the last object was made, or `otherwise`.
  static std::string reasonOr(const char* otherwise);

 private:
  const log::Sink before_;
};

}  // namespace railwise::doctor::pair
