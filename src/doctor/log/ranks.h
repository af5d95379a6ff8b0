// The ranks of a job, as its logs name them: which process is which rank, which ranks there should be. Pure.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text/json.h"
#include "base/text/words.h"
#include "doctor/finding.h"
#include "doctor/log/job.h"

namespace railwise::doctor {

class Ranks {
 public:
  // `expected`: how many ranks the job has; 0: as many as the logs say.
  Ranks(const Job& job, int expected);

  int size() const { return size_; }    // 0: the logs do not say
  int world() const { return world_; }  // ranks of the largest communicator; 0: the logs do not say
  // Pairs of processes that both say they are one rank, and share no communicator, not even through others: a
  // job that only has communicators of some of its ranks counts them several times.
  std::span<const std::pair<int, int>> twice() const { return twice_; }
  // The ranks of a process, in ascending order.
  std::span<const int> of(int process) const { return ranks_[static_cast<std::size_t>(process)]; }
  // "rank 3 (node12)", "ranks 0-7 (node12)", "process 4711 (node12)"
  std::string label(int process) const;
  std::string label(const Event& event) const;
  // "rank 3 (node12)". `otherwise`: the host, where no log has the rank; "": not known.
  std::string labelOfRank(int rank, const std::string& otherwise = "") const;
  const std::set<int>& seen() const { return seen_; }
  // Is it the communicator of the whole job?
  bool isWorld(const Init& init) const { return !init.split && init.ranks == world_; }
  // The processes that have a rank or have done more than write a line; the rest are children and helpers.
  struct Member {
    int index;
    const Process& process;
  };
  const std::vector<Member>& members() const { return members_; }
  // By name, or, if that is more, as NCCL counts nodes.
  std::size_t hosts() const;

  // "NAME:LINE"
  std::string placeText(Place place) const;
  Seen seenAt(int process, const Fact& fact) const;

 private:
  const Job& job_;
  int size_ = 0;
  int world_ = 0;
  std::vector<std::vector<int>> ranks_;
  std::vector<Member> members_;
  std::set<int> seen_;
  std::map<int, int> process_of_;  // rank -> process
  std::vector<std::pair<int, int>> twice_;
};

// "0-7, 9"
std::string rangesText(const std::set<int>& numbers);
// The numbers from 0 to below `size` that are not in `numbers`. A broken log may claim any size: they are not
// counted one by one.
struct Gaps {
  std::size_t count = 0;
  std::string text;  // "2, 4-6"
};
Gaps gapsOf(const std::set<int>& numbers, int size);
// Of a list in a sentence: firstItems() tells how many more there are.
inline constexpr std::size_t kShownItems = 6;

// What was read of a job, for its report (summary.cc): the subject "16 ranks on 2 hosts, NCCL 2.29.7, network
// Railwise", what was looked at, what the logs lack.
ReportStyle logStyle(const Job& job, const Ranks& ranks);
// Writes the keys "ranks" (what each process of the job says) and "files" into the object that is open.
void writeJobJson(JsonWriter& json, const Job& job, const Ranks& ranks);

}  // namespace railwise::doctor
