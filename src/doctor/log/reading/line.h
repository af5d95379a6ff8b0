// One line of a log, taken apart: what a launcher, a container runtime or a terminal put before NCCL's own
// words, who wrote it, and the words. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace railwise::doctor {

enum class LineKind { kInfo, kWarn, kOther };  // kOther: not NCCL's form, e.g. PyTorch's

struct LogLine {
  LineKind kind = LineKind::kOther;
  std::string_view host;    // "" in a line of another form
  std::string_view pid;     // digits
  int device = -1;          // the CUDA device in brackets
  std::string_view source;  // "transport/net.cc:304", of a warning
  std::string_view text;    // NCCL's words, or the whole line
  int rank = -1;     // as the launcher's prefix says ("[1,3]<stdout>:", "3: ", "[rank3]:"); -1: nothing
  std::string time;  // "11-24 12:00:01.250": month, day, time as far as written; "": none
};

// Removes terminal colours, carriage returns and the JSON of a container runtime's log. The answer is valid
// until the next call with the same buffer.
std::string_view plainText(std::string_view line, std::string& buffer);

// A line has several records where two processes wrote at once and one lost its newline.
std::vector<LogLine> parseLine(std::string_view plain);

// Seconds of "11-24 12:00:01.25"; without a day, of the day. Negative: no time.
double secondsOf(const std::string& time);
// Nothing: one of the two is no time, or only one has a day.
std::optional<double> secondsBetween(const std::string& from, const std::string& to);

// What follows `key` in `text`; null data: `key` is not there.
std::string_view after(std::string_view text, std::string_view key);
// The first word of a text: up to a blank, or up to one of `ends`.
std::string_view firstWord(std::string_view text, std::string_view ends = " \t");
// The words between spaces and tabs, in the text itself.
std::vector<std::string_view> wordsIn(std::string_view text);
// The number that follows `key`, in decimal; -1: none, or beyond 2^31.
int numberAfter(std::string_view text, std::string_view key);
// The number at the start; -1: none.
int leadingNumber(std::string_view text);

}  // namespace railwise::doctor
