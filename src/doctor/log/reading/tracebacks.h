// Python's exceptions in a log, in which the lines of other ranks may stand between those of a traceback.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "doctor/log/reading/line.h"

namespace railwise::doctor {

class Tracebacks {
 public:
  // The last line of a traceback, "ValueError: loss is nan", without what a launcher put before it; "": the
  // line is none. Every line of another form than NCCL's must be shown, in order.
  std::string_view exceptionIn(const LogLine& line);

 private:
  std::map<int, std::string> open_;  // by rank (-1: not known): what stands before each line
};

}  // namespace railwise::doctor
