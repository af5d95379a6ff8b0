// railwise top: what the processes of this machine that run Railwise do, again and again.
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "cli/observe/records.h"
#include "cli/observe/terminal.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "observe/top/model.h"
#include "observe/top/screen.h"

namespace railwise::cli {
namespace {

namespace top = observe::top;

constexpr const char* kTop = "top";
constexpr std::size_t kMostTopPids = 1024;
// How long a process that has ended stays in the news.
constexpr std::chrono::seconds kEndedTime(60);

constexpr const char* kTopHelp =
    "usage: railwise top [PID...] [options]\n\n"
    "Shows all processes of this user that run Railwise: the news, the worst first; rails with throughput, "
    "errors\n"
    "and failovers; processes; connections that wait, the longest first. On a terminal it refreshes until q; "
    "h there\n"
    "explains keys and columns. Where stdout is no terminal, and with TERM=dumb, it prints once, as with "
    "--once.\n"
    "Needs neither root nor the job's help: it reads the records that processes keep in shared memory.\n"
    "Exit status: 0 all right, 1 a PID has no record, 2 a mistake on the command line.\n"
    "docs/observability.md explains what is shown.\n\n";

struct TopOptions {
  std::vector<std::string> pids;
  std::string folder;
  double interval_s = 1;
  int width = 0;  // 0: the terminal's, or 80
  bool once = false;
  bool json = false;
  bool gone = false;
  bool bits = false;

  Clock::duration interval() const {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval_s));
  }
};

std::vector<Option> topTable(TopOptions& options) {
  return {
      flagOption('1', "once", &options.once, "print once, as plain text, from two reads"),
      flagOption('j', "json", &options.json, "print once, as JSON: everything that is known"),
      secondsOption('i', "interval", &options.interval_s, 0.05, 3600,
                    "seconds between two reads (default 1)"),
      flagOption('b', "bits", &options.bits, "Gb/s instead of GB/s"),
      flagOption(0, "gone", &options.gone, "also processes that have ended or died"),
      intOption('w', "width", &options.width, 20, 1000, "columns of --once (default: the terminal's, or 80)"),
      recordFolderOption(&options.folder)};
}

// The reads, and what has happened between them.
class Watch {
 public:
  explicit Watch(const TopOptions& options)
      : options_(options), folder_(chosenRecordFolder(options.folder)) {}

  // Reads all records; what was read before becomes the earlier read.
  Outcome<void> read() {
    std::vector<std::string> notes;
    auto read = readRecords(options_.folder, options_.pids, options_.gone, &notes);
    if (!read.ok()) return read.failure();
    before_ = std::move(now_);
    now_ = std::move(*read);
    read_unix_ns_ = unixNs();
    notes_ = std::move(notes);
    noteEnded();
    return {};
  }

  // Instead of read(): says why nothing could be read.
  void failed(const std::string& error) {
    before_ = std::move(now_);
    now_.clear();
    read_unix_ns_ = unixNs();
    notes_ = {error};
    noteEnded();
  }

  // It points into the reads: the next read() makes it invalid.
  top::Model model() const {
    std::vector<std::string> notes = notes_;
    for (const Ended& ended : ended_) notes.push_back(ended.text);
    top::Model model = top::makeModel(before_, now_, std::move(notes), folder_);
    // Without a process there is no record that says when it was read.
    if (model.unix_ns == 0) model.unix_ns = read_unix_ns_;
    return model;
  }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Ended {
    std::string text;
    Deadline shown;
  };

  // A process that was there and is not: the crash of a job must not just empty the screen.
  void noteEnded() {
    std::erase_if(ended_, [](const Ended& ended) { return ended.shown.passed(); });
    for (const record::Snapshot& earlier : before_) {
      const bool there = std::ranges::any_of(now_, [&](const record::Snapshot& snapshot) {
        return snapshot.file == earlier.file && (snapshot.process.alive || !earlier.process.alive);
      });
      if (!there && earlier.process.alive)
        ended_.push_back({top::processText(earlier.process) + " has ended", Deadline::after(kEndedTime)});
    }
  }

  const TopOptions& options_;
  const std::string folder_;
  std::vector<record::Snapshot> before_;
  std::vector<record::Snapshot> now_;
  uint64_t read_unix_ns_ = 0;
  std::vector<std::string> notes_;
  std::vector<Ended> ended_;
};

int64_t utcOffset() {
  const time_t now = time(nullptr);
  tm local = {};
  return localtime_r(&now, &local) != nullptr ? local.tm_gmtoff : 0;
}

int printOnce(const TopOptions& options) {
  Watch watch(options);
  auto read = watch.read();
  if (read.ok()) {
    std::this_thread::sleep_for(options.interval());
    read = watch.read();
  }
  if (!read.ok()) {
    say("%s: %s", kTop, read.error().c_str());
    return kExitFailed;
  }
  const top::Model model = watch.model();
  if (options.json) return writeOutput(kTop, "", top::modelJson(model));
  top::Style style{.utf8 = localeIsUtf8(), .bits = options.bits, .utc_offset_s = utcOffset()};
  style.width = options.width > 0 ? options.width : terminalSize().value_or(TerminalSize()).columns;
  return writeOutput(kTop, "",
                     top::plainText(top::frameOf(model, style), style, outputHasColor(ColorChoice::kAuto)));
}

// What the user has chosen by keys.
class Screen {
 public:
  Screen(Watch& watch, const TopOptions& options) : watch_(watch) {
    const char* const no_color = std::getenv("NO_COLOR");
    color_ = no_color == nullptr || *no_color == '\0';
    style_.utf8 = localeIsUtf8();
    style_.bits = options.bits;
    style_.keys = true;
    style_.utc_offset_s = utcOffset();
  }

  bool paused() const { return style_.paused; }

  bool draw(Terminal& terminal) {
    const TerminalSize size = terminalSize().value_or(TerminalSize());
    style_.width = size.columns;
    style_.height = size.rows;
    const top::Frame frame = top::frameOf(watch_.model(), style_);
    most_scroll_ = frame.most_scroll;
    style_.scroll = std::min(style_.scroll, most_scroll_);
    return terminal.draw(top::escapedText(frame, style_, color_));
  }

  // False: the user wants to leave.
  bool press(int key) {
    switch (key) {
      case 'q':
        return false;
      case 'p':
        style_.paused = !style_.paused;
        break;
      case 'o':
        style_.order = static_cast<top::Order>((static_cast<int>(style_.order) + 1) % 3);
        break;
      case 'u':
        style_.bits = !style_.bits;
        break;
      case 'r':
        show(top::View::kRails);
        break;
      case 'c':
        show(top::View::kConnections);
        break;
      case 'e':
        show(top::View::kEvents);
        break;
      case 'h':
      case '?':
        show(top::View::kHelp);
        break;
      case 'm':
      case Terminal::kEscape:
        show(top::View::kMain);
        break;
      case 'g':
      case Terminal::kHome:
        style_.scroll = 0;
        break;
      case 'k':
      case Terminal::kUp:
        scroll(-1);
        break;
      case 'j':
      case Terminal::kDown:
        scroll(1);
        break;
      case Terminal::kPageUp:
        scroll(-style_.height / 2);
        break;
      case ' ':
      case Terminal::kPageDown:
        scroll(style_.height / 2);
        break;
      default:
        break;
    }
    return true;
  }

 private:
  void show(top::View view) {
    style_.view = style_.view == view ? top::View::kMain : view;
    style_.scroll = 0;
  }
  void scroll(int lines) { style_.scroll = std::clamp(style_.scroll + lines, 0, most_scroll_); }

  Watch& watch_;
  top::Style style_;
  int most_scroll_ = 0;
  bool color_ = true;
};

int refresh(const TopOptions& options) {
  Watch watch(options);
  if (const auto read = watch.read(); !read.ok()) {
    say("%s: %s", kTop, read.error().c_str());
    return kExitFailed;
  }
  Screen screen(watch, options);
  const auto terminal = Terminal::open();
  if (terminal == nullptr) {
    say("%s: the terminal cannot be set (%s): --once prints without", kTop, std::strerror(errno));
    return kExitFailed;
  }
  Deadline next = Deadline::after(options.interval());
  bool changed = true;
  for (;;) {
    if (changed && !screen.draw(*terminal)) return kExitFailed;
    int key = 0;
    const auto happening = terminal->wait(next, &key);
    if (happening == Terminal::Happening::kLeave) return kExitFailed;
    if (happening == Terminal::Happening::kKey && !screen.press(key)) return kExitOk;
    changed = happening != Terminal::Happening::kNothing || !screen.paused();
    if (happening != Terminal::Happening::kNothing) continue;
    next = Deadline::after(options.interval());
    if (screen.paused()) continue;
    if (const auto read = watch.read(); !read.ok()) watch.failed(read.error());
  }
}

}  // namespace

int topCommand(Args args) {
  TopOptions options;
  int status = kExitOk;
  auto arguments = parseOrLeave(kTop, topTable(options), args, kTopHelp, kMostTopPids, &status);
  if (!arguments) return status;
  options.pids = std::move(arguments->positional);
  for (const std::string& pid : options.pids) {
    if (parseInt(pid, 1, INT32_MAX)) continue;
    say("%s: '%s' is not the number of a process (railwise top --help lists what there is)", kTop,
        pid.c_str());
    return kExitUsage;
  }
  return options.once || options.json || !canDraw() ? printOnce(options) : refresh(options);
}

}  // namespace railwise::cli
