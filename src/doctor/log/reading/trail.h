// Whom the ranks blame: a rank that lost a connection names its peer, which may have lost one of its own
// before. The last one of the chain is where to look. Pure.
#pragma once

#include <map>
#include <string>

#include "doctor/log/job.h"
#include "doctor/log/ranks.h"

namespace railwise::doctor {

class Trail {
 public:
  Trail(const Job& job, const Ranks& ranks);

  // " Rank 0 (a) blames rank 2 (b), and that one rank 1 (c), whose log has no error.", or which host the
  // peer's address is. "": the line names no peer that is known.
  std::string textOf(const Event& event) const;

 private:
  int peerOf(const Event& event) const;
  std::string hostText(const Event& event) const;

  const Job& job_;
  const Ranks& ranks_;
  std::map<std::string, int> processes_;      // "host:pid"
  std::map<std::string, std::string> hosts_;  // address -> host; "": several have it
  std::map<int, int> blames_;
};

}  // namespace railwise::doctor
