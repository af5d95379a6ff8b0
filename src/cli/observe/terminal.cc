#include "cli/observe/terminal.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace railwise::cli {
namespace {

constexpr int kScreen = STDOUT_FILENO;
// The alternate screen, no cursor, no wrap at the last column. A terminal without an alternate screen (linux)
// is cleared instead.
constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J";
constexpr char kLeave[] = "\x1b[0m\x1b[?7h\x1b[H\x1b[2J\x1b[?25h\x1b[?1049l";
// The bytes of one key arrive together, also over a slow line within this time. Escape alone is a key, too.
constexpr std::chrono::milliseconds kKeyTime(100);
// How often a wait looks whether the parent process still lives.
constexpr std::chrono::seconds kParentTime(1);

constexpr int kLeaving[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kNoted[] = {SIGTSTP, SIGCONT, SIGWINCH};

// What signal handlers use.
termios settings_before;
volatile sig_atomic_t drawn_on = 0;  // the terminal must be restored
volatile sig_atomic_t stop_asked = 0;
volatile sig_atomic_t redraw_asked = 0;

bool hasRoom(int timeout_ms) {
  pollfd out = {.fd = kScreen, .events = POLLOUT, .revents = 0};
  return poll(&out, 1, timeout_ms) == 1 && (out.revents & POLLOUT) != 0;
}

// Async-signal-safe. A terminal that takes no more output (a line that hangs) does not hold it up.
void restoreTerminal() {
  if (drawn_on == 0) return;
  drawn_on = 0;
  // A shell may have taken the terminal from this process, which would be stopped.
  struct sigaction ignore = {}, old = {};
  ignore.sa_handler = SIG_IGN;
  (void)sigaction(SIGTTOU, &ignore, &old);
  if (!hasRoom(200)) (void)tcflush(kScreen, TCOFLUSH);
  if (hasRoom(0)) {
    const ssize_t written = write(kScreen, kLeave, sizeof kLeave - 1);
    (void)written;
  }
  (void)tcsetattr(kScreen, TCSANOW, &settings_before);
  (void)sigaction(SIGTTOU, &old, nullptr);
}

void setHandler(int signal_number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  (void)sigaction(signal_number, &action, nullptr);
}

template <std::size_t kSize>
sigset_t setOf(const int (&signals)[kSize]) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal_number : signals) sigaddset(&set, signal_number);
  return set;
}

// Ends as the signal would have ended the program, so that a shell sees it.
void leaveBySignal(int signal_number) {
  const int saved = errno;
  restoreTerminal();
  setHandler(signal_number, SIG_DFL);
  const int one[] = {signal_number};
  const sigset_t set = setOf(one);
  (void)pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  (void)raise(signal_number);
  errno = saved;
}

void noteSignal(int signal_number) { (signal_number == SIGTSTP ? stop_asked : redraw_asked) = 1; }

bool enterTerminal() {
  termios raw = settings_before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON);  // Ctrl-S would stop the screen without a word
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  // In this order: a program in the background is stopped here, before it draws.
  const sigset_t leaving = setOf(kLeaving);
  (void)pthread_sigmask(SIG_BLOCK, &leaving, nullptr);
  if (tcsetattr(kScreen, TCSADRAIN, &raw) == 0) drawn_on = 1;
  (void)pthread_sigmask(SIG_UNBLOCK, &leaving, nullptr);
  return drawn_on == 1;
}

struct Sequence {
  std::string_view bytes;
  int key;
};
constexpr Sequence kSequences[] = {
    {"\x1b[A", Terminal::kUp},   {"\x1bOA", Terminal::kUp},      {"\x1b[B", Terminal::kDown},
    {"\x1bOB", Terminal::kDown}, {"\x1b[5~", Terminal::kPageUp}, {"\x1b[6~", Terminal::kPageDown},
    {"\x1b[H", Terminal::kHome}, {"\x1bOH", Terminal::kHome},    {"\x1b[1~", Terminal::kHome},
};

// The length of the escape sequence that `typed` begins with; 0: not all of it is there.
std::size_t sequenceLength(std::string_view typed) {
  if (typed.size() < 2) return 0;
  if (typed[1] == 'O') return typed.size() < 3 ? 0 : 3;
  if (typed[1] != '[') return 1;  // Escape, then another key
  for (std::size_t i = 2; i < typed.size(); ++i)
    if (typed[i] >= 0x40 && typed[i] <= 0x7e) return i + 1;
  return typed.size() > 32 ? typed.size() : 0;
}

}  // namespace

std::optional<TerminalSize> terminalSize() {
  winsize size = {};
  if (ioctl(kScreen, TIOCGWINSZ, &size) != 0) return std::nullopt;
  TerminalSize result;  // a serial line does not know its size
  if (size.ws_col > 0) result.columns = size.ws_col;
  if (size.ws_row > 0) result.rows = size.ws_row;
  return result;
}

bool canDraw() {
  const char* const term = std::getenv("TERM");
  return isatty(kScreen) == 1 && term != nullptr && *term != '\0' && std::strcmp(term, "dumb") != 0;
}

bool localeIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    return strcasestr(value, "UTF-8") != nullptr || strcasestr(value, "utf8") != nullptr;
  }
  return false;
}

std::unique_ptr<Terminal> Terminal::open() {
  if (tcgetattr(kScreen, &settings_before) != 0) return nullptr;
  std::unique_ptr<Terminal> terminal(new Terminal);
  terminal->parent_ = getppid();
  terminal->keys_fd_ = isatty(STDIN_FILENO) == 1 ? STDIN_FILENO : kScreen;
  const sigset_t noted = setOf(kNoted);
  (void)pthread_sigmask(SIG_BLOCK, &noted, nullptr);
  for (const int signal_number : kNoted) setHandler(signal_number, noteSignal);
  for (const int signal_number : kCrashes) setHandler(signal_number, leaveBySignal);
  for (const int signal_number : kLeaving) {
    struct sigaction now = {};
    // nohup: who ignores a signal goes on ignoring it.
    if (sigaction(signal_number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
      setHandler(signal_number, leaveBySignal);
  }
  setHandler(SIGPIPE, SIG_IGN);
  if (!enterTerminal() || !terminal->draw(kEnter)) return nullptr;
  return terminal;
}

Terminal::~Terminal() {
  restoreTerminal();
  for (const int signal_number : kNoted) setHandler(signal_number, SIG_DFL);
  for (const int signal_number : kCrashes) setHandler(signal_number, SIG_DFL);
  const sigset_t noted = setOf(kNoted);
  (void)pthread_sigmask(SIG_UNBLOCK, &noted, nullptr);
}

bool Terminal::draw(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(kScreen, text.data() + done, text.size() - done);
    if (written >= 0) done += static_cast<std::size_t>(written);
    else if (errno == EAGAIN) (void)hasRoom(1000);
    else if (errno != EINTR) return false;
  }
  return true;
}

// Stops as Ctrl-Z would have stopped the program; goes on when the shell wants it.
void Terminal::stop() {
  restoreTerminal();
  setHandler(SIGTSTP, SIG_DFL);
  constexpr int kStop[] = {SIGTSTP};
  const sigset_t set = setOf(kStop);
  (void)raise(SIGTSTP);
  (void)pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // it stops here
  (void)pthread_sigmask(SIG_BLOCK, &set, nullptr);
  setHandler(SIGTSTP, noteSignal);
}

bool Terminal::takeKey(bool complete, int* key) {
  while (!typed_.empty()) {
    if (typed_[0] != '\x1b') {
      *key = static_cast<unsigned char>(typed_[0]);
      typed_.erase(0, 1);
      return true;
    }
    std::size_t length = sequenceLength(typed_);
    if (length == 0 && !complete) return false;
    if (length == 0) length = typed_.size();
    const std::string sequence = typed_.substr(0, length);
    typed_.erase(0, length);
    *key = length == 1 ? kEscape : 0;
    for (const Sequence& known : kSequences)
      if (known.bytes == sequence) *key = known.key;
    if (*key != 0) return true;  // else: a key that means nothing here
  }
  return false;
}

Terminal::Happening Terminal::wait(const Deadline& deadline, int* key) {
  sigset_t unblocked;
  (void)pthread_sigmask(SIG_BLOCK, nullptr, &unblocked);
  for (const int signal_number : kNoted) sigdelset(&unblocked, signal_number);
  for (;;) {
    if (stop_asked != 0) {
      stop_asked = 0;
      stop();
      redraw_asked = 1;
    }
    if (redraw_asked != 0) {
      redraw_asked = 0;
      // A shell in between has set the terminal as it likes it.
      return enterTerminal() && draw(kEnter) ? Happening::kRedraw : Happening::kLeave;
    }
    if (takeKey(false, key)) return Happening::kKey;
    if (getppid() != parent_) return Happening::kLeave;
    auto left = std::min<Clock::duration>(deadline.at() - Clock::now(), kParentTime);
    if (left <= Clock::duration::zero()) return Happening::kNothing;
    if (!typed_.empty()) left = std::min<Clock::duration>(left, kKeyTime);
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec timeout = {.tv_sec = static_cast<time_t>(ns / 1000000000),
                              .tv_nsec = static_cast<long>(ns % 1000000000)};
    pollfd in = {.fd = keys_fd_, .events = POLLIN, .revents = 0};
    const int ready = ppoll(&in, 1, &timeout, &unblocked);
    if (ready == 0 && takeKey(true, key)) return Happening::kKey;
    if (ready <= 0) continue;
    if ((in.revents & POLLIN) == 0) {
      if ((in.revents & POLLHUP) != 0) return Happening::kLeave;
      keys_fd_ = -1;
      continue;
    }
    char bytes[64];
    const ssize_t got = read(keys_fd_, bytes, sizeof bytes);
    if (got > 0) typed_.append(bytes, static_cast<std::size_t>(got));
    else if (got < 0 && errno == EBADF) keys_fd_ = -1;  // stdout can only be written
    else if (got == 0 || errno != EINTR) return Happening::kLeave;
  }
}

}  // namespace railwise::cli
