// A terminal that a program draws on: the alternate screen and keys without echo. The terminal is as before
// after every end of the program but SIGKILL: return, signals, a crash; also while it is stopped (Ctrl-Z).
// One Terminal at a time, one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"

namespace railwise::cli {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
// The size of the terminal that stdout is; null where it is none.
std::optional<TerminalSize> terminalSize();
// Whether programs can draw on stdout: it is a terminal, and TERM is not "dumb".
bool canDraw();
// Whether the locale (LC_ALL, LC_CTYPE, LANG) says UTF-8.
bool localeIsUtf8();

class Terminal {
 public:
  enum class Happening {
    kNothing,  // the time is over
    kKey,
    kRedraw,  // the size has changed, or the program goes on after Ctrl-Z
    kLeave,   // the terminal or the parent process is gone
  };
  // Keys that are no character.
  static constexpr int kUp = 256, kDown = 257, kPageUp = 258, kPageDown = 259, kHome = 260, kEscape = 27;

  // Null where stdout is no terminal that can be set; errno says why.
  static std::unique_ptr<Terminal> open();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Writes a frame, in one call where the terminal takes it. False: the terminal is gone.
  bool draw(const std::string& text);
  // Waits for something until `deadline`. `key` receives the key.
  Happening wait(const Deadline& deadline, int* key);

 private:
  Terminal() = default;
  // Takes the first key of what was typed. False: nothing whole is there.
  bool takeKey(bool complete, int* key);
  void stop();

  int parent_ = 0;
  int keys_fd_ = -1;
  std::string typed_;  // not taken yet
};

}  // namespace railwise::cli
