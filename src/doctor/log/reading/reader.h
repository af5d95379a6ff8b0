// Reads the lines of logs, in any order of the ranks, and collects what they say of the job. One thread at a
// time.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "doctor/log/job.h"
#include "doctor/log/reading/line.h"
#include "doctor/log/reading/tracebacks.h"

namespace railwise::doctor {

class JobReader {
 public:
  // Lines that follow are those of this file.
  void beginFile(std::string name);
  void line(std::string_view text);
  // The file ends here, before its end, for this reason.
  void fileProblem(std::string problem);

  // Ends the reading.
  Job take();

 private:
  void record(const LogLine& line);
  void information(int index, const LogLine& line, Place place);
  void shiftLevels(int index, const LogLine& line);
  int writerOf(int rank) const;
  bool runsOn(int process, std::string_view host) const;
  void otherRecord(const LogLine& line);
  int processOf(const LogLine& line);
  void addEvent(Event event);
  void noteLinkUp(const Event& event);
  void nameProcesses();
  std::string_view withoutRepetition(std::string_view plain);
  Place here() const;

  Job job_;
  std::map<std::string, int, std::less<>> known_;  // "host:pid" -> index into Job::processes
  std::map<int, int> by_hint_;                     // rank of the launcher's prefix -> process
  std::map<std::string, std::size_t> event_of_;    // alike events of a process -> index into Job::events
  Tracebacks tracebacks_;
  int reported_rank_ = -1;                         // of torchrun's report, the last
  std::map<std::string, std::size_t> links_down_;  // of the kernel's logs: index into Job::events
  std::set<int> last_errors_;                      // ranks (-1: not known) whose line is "Last error:"
  std::size_t emptied_ = 0;                        // of Job::events, by shiftLevels()
  std::string buffer_;
};

// What an INFO line of NCCL says; in parts by subject. True: the line was one of theirs.
bool readOneSidedLine(Process& process, std::string_view text, Place place);
bool readPluginLine(Process& process, std::string_view text, Place place);
bool readNicLine(Process& process, std::string_view text, Place place);
bool readCommunicatorLine(Process& process, const LogLine& line, Place place);

// Sets a fact that is not set yet.
void setFact(Fact& fact, std::string_view value, Place place);

// A text file line by line, plain or gzip, or standard input; of any size.

// Calls `take` with every line, without its end. A line that is longer than 64 KiB is cut, its rest is left
// out. "-" is standard input. Answers "", or why the file could not be read to its end.
std::string readLines(const std::string& path, const std::function<void(std::string_view)>& take);

}  // namespace railwise::doctor
