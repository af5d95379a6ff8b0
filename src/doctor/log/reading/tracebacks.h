// Python's exceptions in a log, in which the lines of other ranks may stand between those of a traceback.
#pragma once

#include <map>
#include <set>
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
  struct Open {
    std::string prefix;  // stands before each line
    bool ends = true;    // the exception may have ended the program
  };
  std::map<int, Open> open_;  // by rank (-1: not known)
  std::set<int> ignored_;     // ranks whose next traceback Python itself ignores
};

}  // namespace railwise::doctor
