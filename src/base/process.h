// Child processes. Starts a program, or a function of this program, in a child process, takes in what the
// child writes, and ends it in time. Each Process belongs to one thread at a time. The kernel ends the child
// when the thread that started it ends: a program by SIGTERM, a function by SIGKILL.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/outcome.h"

namespace railwise {

// A standard stream of a child is a descriptor of this process, or one of these.
inline constexpr int kStreamInherited = -1;
inline constexpr int kStreamNothing = -2;  // /dev/null
inline constexpr int kStreamPipe = -3;     // a pipe to this process

struct ProcessPlan {
  // The program, found as a shell finds it, and its arguments. A program that cannot be started gives the
  // status kNoProgram.
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> variables;  // added to the program's environment
  // Without `words`: runs in the child, which ends with the result as its status. What the function leaves in
  // `answer` becomes output() of the Process. If other threads run, it may call only what they cannot have
  // locked.
  std::function<int(std::string& answer)> body;
  int input = kStreamInherited;
  std::string input_text;         // for kStreamPipe: the first bytes of the input, no more than a pipe holds
  int output = kStreamInherited;  // kStreamPipe: only of a program
  int error = kStreamInherited;   // kStreamPipe: only of a program
  std::size_t most_output = 64u << 20;  // bytes of output() that are kept. More are read, and dropped
  bool own_group = false;               // kill() and end() also reach what the program has started
};

struct ProcessEnd {
  bool signalled = false;
  int code = 0;  // the exit status, or the number of the signal that ended the child; -1: unknown
  bool good() const { return !signalled && code == 0; }
  // As a shell gives it: 128 and more for a signal.
  int shellStatus() const { return signalled ? 128 + code : code; }
};

class Process {
 public:
  static constexpr int kNoProgram = 127;
  static constexpr int kBodyFailed = 3;  // the function threw an exception

  // An error: there are no pipes or no processes left.
  static Outcome<Process> start(const ProcessPlan& plan);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();  // kills the child

  pid_t pid() const { return pid_; }
  // How the child has ended. Nothing: it runs.
  const std::optional<ProcessEnd>& ended();
  bool running() { return !ended(); }
  ProcessEnd wait();
  // Nothing: the child still runs at the deadline.
  const std::optional<ProcessEnd>& wait(const Deadline& deadline);
  // Sends a signal to a child that runs.
  void kill(int signal);
  // Asks the child to end by SIGTERM, and kills it after `patience`. Nothing: it hangs in the kernel and
  // cannot be killed. It is left behind.
  const std::optional<ProcessEnd>& end(Clock::duration patience = {});

  void closeInput() { input_.close(); }
  // What the child has written to its output and error pipes, as far as it has been received.
  const std::string& output() const { return output_.text; }
  const std::string& complaint() const { return error_.text; }
  // The end of the output has not been received.
  bool outputOpen() const { return output_.fd.valid(); }
  // Receives what has been written. Never blocks.
  void receive();
  // Receives until the end of the output, or until the deadline.
  const std::string& receiveAll(const Deadline& deadline);
  // Waits until a process has written, or closed a pipe, or until the deadline. Receives from all of them.
  static void receiveAny(std::span<Process* const> processes, const Deadline& deadline);

 private:
  struct Stream {
    Descriptor fd;
    std::string text;
    std::size_t most = 0;
    void receive();
  };

  explicit Process(const ProcessPlan& plan);

  pid_t pid_ = -1;
  bool own_group_ = false;
  Descriptor input_;
  Stream output_;
  Stream error_;
  bool killed_ = false;
  std::optional<ProcessEnd> ended_;
};

// Pointers to the words, and a null pointer, as exec() takes them. Valid as long as `words` is unchanged.
std::vector<char*> argvOf(std::vector<std::string>& words);

// The number of this process, without a system call: what an inherited object compares its owner with, many
// times for each connection. Also what the kernel says of a process. Thread-safe.

// On a page that the kernel fills with zeros in a forked child. Null: there is no such page yet, or the
// kernel has none.
inline std::atomic<std::atomic<pid_t>*> g_process_id_page = nullptr;

// Makes the page if there is none, and writes the number to it.
[[gnu::cold]] pid_t askProcessId();

// As getpid(), also in a forked child. A child of vfork() gets its parent's number: both have one memory.
inline pid_t processId() {
  if (const std::atomic<pid_t>* page = g_process_id_page.load(std::memory_order_acquire)) [[likely]] {
    if (const pid_t known = page->load(std::memory_order_relaxed)) [[likely]]
      return known;
  }
  return askProcessId();
}

// Of a stat file below /proc. The start is in clock ticks after boot, and tells a process from an earlier one
// with its number.
struct ProcessStat {
  char state = 0;      // R, S, D, T, Z ...
  pid_t parent = 0;    // 0: none in this PID namespace
  uint64_t start = 0;  // 0: there is no such process
};
inline constexpr const char* kThisProcess = "self";
ProcessStat processStat(const std::string& pid);
// The first bytes of a file of the kernel; "" without one.
std::string beginningOf(const std::string& path);
// The boot of this machine.
std::string bootId();
// The name of this machine; "" if the kernel does not give one.
std::string hostName();

}  // namespace railwise
