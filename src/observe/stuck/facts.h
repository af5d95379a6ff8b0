// What `railwise stuck` knows of processes: two reads of each record, some seconds apart, in short. Ages are
// milliseconds before the second read, because the clocks of hosts differ. Plain values, any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
#include "base/text/words.h"
#include "record/snapshot.h"

namespace railwise::observe {

// An age that is not known.
inline constexpr uint64_t kNever = UINT64_MAX;

// A connection that waits looks about every 20 ms, as long as NCCL calls. A busy machine may take longer.
inline constexpr uint64_t kCallsWithinMs = 1000;

struct RailFacts {
  std::string device;
  int port = 0;
  record::RailState state = record::RailState::kUnknown;
  uint64_t state_ms = kNever;
  uint64_t errors = 0;
  std::string error;  // the most frequent kind of error; "" without errors
  uint64_t failovers = 0;
};

// A connection as it was at the second read. Its times of the record are replaced by ages.
struct ConnectionFacts : record::Connection {
  uint64_t oldest_ms = kNever;
  uint64_t waits_ms = kNever;
  uint64_t looked_ms = kNever;
  uint64_t state_ms = kNever;
  uint64_t last_signal_ms = kNever;
  uint64_t moved = 0;       // messages completed between the two reads
  uint64_t new_epochs = 0;  // how often it got new queue pairs between the two reads
  bool still = false;       // it waits, and nothing has completed between the two reads
};

// `host` is without the process number.
struct ProcessFacts : record::Process {
  bool ended = false;         // in order
  char kernel_state = 0;      // of /proc/PID/stat: R, S, D, T, Z ...; 0: not known
  uint64_t gone_ms = kNever;  // dead: age of its end, or of the last sign of life
  uint64_t between_ms = 0;    // between the two reads; 0: read once
  uint64_t unrecorded = 0;
  std::string command;     // its command line; of a process that is gone its program
  uint32_t parent = 0;     // who has started it; 0: not known
  std::string trouble;     // dead: what went wrong before, in its record; "" where that shows no failure
  std::string slow_setup;  // for whom its connections that come up slowly wait; "" if none does
  std::vector<RailFacts> rails;
  std::vector<ConnectionFacts> connections;
};

// What a host has answered.
struct HostFacts {
  std::string asked;  // as the person wrote it: "root@gpu7"; "" for the host of the command
  std::string name;   // as it calls itself; "" if it has not answered
  std::string error;  // why it has not answered
  std::vector<std::string> notes;
  std::vector<ProcessFacts> processes;
};

// Does a connection wait for something at the time of its read?
bool waitsNow(const record::Connection& connection, uint64_t now_ns);

// Makes the facts of two reads of one process. `first` null: the process was read once, and only ages show
// what stands still.
ProcessFacts factsOf(const record::Snapshot* first, const record::Snapshot& second);

// Makes the facts of all processes of a host. Snapshots of `first` that have no second one are left out.
std::vector<ProcessFacts> factsOfAll(const std::vector<record::Snapshot>& first,
                                     const std::vector<record::Snapshot>& second);

// What went wrong first and did not end, and when; "": the record shows no failure. In postmortem.cc.
std::string firstTrouble(const record::Snapshot& snapshot);

// HostFacts as lines of JSON, which travel from host to host: first a line of the host, then a line for each
// process. What is read comes from other hosts and is checked: everything that is accepted can be used. Pure;
// thread-safe.

std::string jsonLines(const HostFacts& host);

// The answers in `text`, of one host or of several one after the other. Lines that do not begin with '{' are
// left out: a shell may have greeted. The error names `source`, the line and what is wrong there.
Outcome<std::vector<HostFacts>> parseJsonLines(std::string_view text, const std::string& source);

// Words that stuck and postmortem share: names, ages, sizes, and lines of 80 columns. Pure; thread-safe.

// A text from outside for a terminal: what is not printable ASCII becomes '?', and a long text is cut.
std::string plainText(std::string_view text);

// "rank 3 (gpu2:4411)", or "gpu2:4411" where the rank is not known.
std::string processName(const record::Process& process);
// "gpu2:4411", as a peer names the process.
std::string processKey(const record::Process& process);
// What went wrong before a process died, as far as its record tells.
std::string troubleText(const ProcessFacts& process);
// "gpu2" of "gpu2:4411".
std::string hostOfPeer(std::string_view peer);
// "0, 1, 2, 3, 4, 5, 6, 7 and 3 more"
std::string someOf(const std::vector<int>& numbers);
// "1.0 MiB", "40 bytes"
std::string bytesText(uint64_t bytes);
// "receive 5127 (1.0 MiB)": the oldest message that a connection has open.
std::string oldestText(const record::Connection& connection);
// "3.2 s"; "an unknown time" for kNever.
std::string ageText(uint64_t ms);

// `text`, broken between words so that no line is wider than 80 columns. `first` stands before the first line
// and `indent` blanks before the others. Ends with a line feed.
std::string wrapped(std::string_view text, std::string_view first = "", std::size_t indent = 0);

// Appends what print() makes of the first `most` elements, and says how many more there are.
template <typename Element, typename Print>
void appendSome(std::string& text, const std::vector<Element>& elements, std::size_t most, Print print) {
  for (std::size_t i = 0; i < std::min(elements.size(), most); ++i) text += print(elements[i]);
  if (elements.size() > most)
    text += "  and " + std::to_string(elements.size() - most) + " more; --json has all\n";
}

}  // namespace railwise::observe
