// lab_traffic: one end of a steady exchange through the plugin, for scenarios that disturb it. Two of these,
// `a` and `b`, send each other numbered messages and check every byte of them. Nothing but the plugin joins
// the two: what an end learns of the other's fate it learns from the plugin, so a scenario sees that each end
// by itself comes to an end.
//
//   lab_traffic a|b FOLDER [BYTES]     FOLDER: where the two leave their handles; BYTES of a message (default
//   16384)
//
// It says on stdout, a line each: `ready` (connected), `flow SENT RECEIVED` (five times a second while these
// grow), `wrong ...` (and exits with 3), `error CALL: RESULT`, `closed` (all connections, after an error or
// the end), `done SENT RECEIVED` (a stop that both ends have come to). On stdin it takes, a line each: `stop`
// (the last message each way, then the end), `again` (after an error: new connections), `hold` and `go` (no
// new messages of this end, and some again). End of file: as soon as it has come to an error or to `stop`'s
// end it exits: 0 all right, 3 wrong data, 4 after an error.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/options/message.h"
#include "cli/plugin/plugin_loader.h"

namespace railwise::cli {
namespace {

constexpr std::size_t kSlots = 4;
constexpr auto kReportEvery = std::chrono::milliseconds(200);
constexpr auto kCommandEvery = std::chrono::milliseconds(10);
constexpr auto kWaitForPeer = std::chrono::seconds(60);
using Handle = std::array<char, NCCL_NET_HANDLE_MAXSIZE>;

[[noreturn]] void finish(int status) {
  std::fflush(stdout);
  _exit(status);
}

void tell(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// The first word of message `number`; the following count up. The sign says that it is the last.
uint64_t firstWord(uint64_t number) { return (number + 1) * 0x9e3779b97f4a7c15ULL >> 1; }
constexpr uint64_t kLast = uint64_t{1} << 63;

// What both directions have: a connection and the registered slots its messages lie in.
struct Stream {
  explicit Stream(std::size_t slot_bytes) : words(slot_bytes / sizeof(uint64_t)), memory(kSlots * words) {}
  uint64_t* slot(uint64_t number) { return memory.data() + number % kSlots * words; }

  const std::size_t words;
  std::vector<uint64_t> memory;
  void* comm = nullptr;
  void* mhandle = nullptr;
  std::array<void*, kSlots> requests = {};
  uint64_t posted = 0;
  uint64_t done = 0;
};

class End {
 public:
  End(NetApi& api, bool first, std::string folder, std::size_t bytes)
      : api_(api), first_(first), folder_(std::move(folder)), bytes_(bytes) {}

  int run() {
    for (int round = 0;; ++round) {
      out_.emplace(bytes_);
      in_.emplace(bytes_);
      stop_ = hold_ = last_sent_ = last_received_ = failed_ = false;
      if (connect(round)) exchange();
      if (!failed_) awaitPeersEnd(round);
      close();
      tell("closed");
      if (!failed_) tell(textOf("done %" PRIu64 " %" PRIu64, out_->done, in_->done));
      had_error_ = had_error_ || failed_;
      if (!againAsked()) return had_error_ ? 4 : 0;
    }
  }

 private:
  bool check(const char* call, ncclResult_t result) {
    if (result == ncclSuccess) return true;
    if (!failed_) tell(textOf("error %s: %s", call, resultText(result).c_str()));
    failed_ = true;
    return false;
  }

  std::string handleFile(int round, bool of_first) const {
    return folder_ + (of_first ? "/a." : "/b.") + std::to_string(round);
  }

  // As NCCL's ranks meet before they close. Over siw a send is complete when TCP has it, and who closes too
  // soon may take it back: the socket is reset when something arrives after that.
  void awaitPeersEnd(int round) const {
    constexpr auto kPatience = std::chrono::seconds(5);
    const auto name = [&](bool of_first) { return handleFile(round, of_first) + ".end"; };
    if (FILE* const file = std::fopen(name(first_).c_str(), "we"); file != nullptr) (void)std::fclose(file);
    const Deadline deadline = Deadline::after(kPatience);  // it may have failed
    while (access(name(!first_).c_str(), F_OK) != 0 && !deadline.passed()) usleep(10'000);
  }

  bool writeHandle(int round, const Handle& handle) const {
    const std::string name = handleFile(round, first_);
    FILE* const file = std::fopen((name + ".part").c_str(), "we");
    const bool written = file != nullptr && std::fwrite(handle.data(), handle.size(), 1, file) == 1;
    return file != nullptr && std::fclose(file) == 0 && written &&
           std::rename((name + ".part").c_str(), name.c_str()) == 0;
  }

  bool readHandle(int round, Handle& handle) const {
    const Deadline deadline = Deadline::after(kWaitForPeer);
    while (!deadline.passed()) {
      FILE* const file = std::fopen(handleFile(round, !first_).c_str(), "re");
      if (file != nullptr) {
        const bool read = std::fread(handle.data(), handle.size(), 1, file) == 1;
        return std::fclose(file) == 0 && read;
      }
      usleep(10'000);
    }
    return false;
  }

  bool connect(int round) {
    Handle mine = {};
    Handle theirs = {};
    if (!check("listen", api_.listen(0, mine.data(), &listen_))) return false;
    if (!writeHandle(round, mine) || !readHandle(round, theirs)) {
      tell(textOf("error handles: not exchanged through %s", folder_.c_str()));
      failed_ = true;
      return false;
    }
    while (out_->comm == nullptr || in_->comm == nullptr) {
      if (out_->comm == nullptr && !check("connect", api_.connect(0, theirs.data(), &out_->comm)))
        return false;
      if (in_->comm == nullptr && !check("accept", api_.accept(listen_, &in_->comm))) return false;
      sched_yield();
    }
    for (Stream* stream : {&*out_, &*in_}) {
      const std::size_t bytes = stream->memory.size() * sizeof(uint64_t);
      if (!check("regMr",
                 api_.regMr(stream->comm, stream->memory.data(), bytes, NCCL_PTR_HOST, &stream->mhandle)))
        return false;
    }
    tell("ready");
    return true;
  }

  // Until the last message of both directions, or an error.
  void exchange() {
    int idle = 0;
    while (!(last_sent_ && out_->done == out_->posted && last_received_)) {
      const uint64_t before = out_->posted + out_->done + in_->posted + in_->done;
      if (!send() || !receive()) return;
      report();
      takeCommand();
      idle = before == out_->posted + out_->done + in_->posted + in_->done ? idle + 1 : 0;
      if (idle > 16) sched_yield();
    }
  }

  bool send() {
    Stream& s = *out_;
    if (!last_sent_ && s.posted - s.done < kSlots && (!hold_ || stop_)) {
      uint64_t* const slot = s.slot(s.posted);
      for (std::size_t i = 0; i < s.words; ++i) slot[i] = firstWord(s.posted) + i;
      if (stop_) slot[0] |= kLast;
      void*& request = s.requests[s.posted % kSlots];
      if (!check("isend", api_.isend(s.comm, slot, bytes_, 7, s.mhandle, &request))) return false;
      if (request != nullptr) {
        ++s.posted;
        last_sent_ = stop_;
      }
    }
    return completed(s, "test of a send") != kFailed;
  }

  bool receive() {
    Stream& s = *in_;
    if (!last_received_ && s.posted - s.done < kSlots) {
      void*& request = s.requests[s.posted % kSlots];
      if (!check("irecv", api_.irecv(s.comm, s.slot(s.posted), bytes_, 7, s.mhandle, &request))) return false;
      if (request != nullptr) ++s.posted;
    }
    const uint64_t number = s.done;
    const Progress progress = completed(s, "test of a receive");
    if (progress == kOne) verify(number);
    return progress != kFailed;
  }

  enum Progress { kNone, kOne, kFailed };
  Progress completed(Stream& s, const char* call) {
    if (s.done == s.posted) return kNone;
    int done = 0;
    int bytes = 0;
    if (!check(call, api_.test(s.requests[s.done % kSlots], &done, &bytes))) return kFailed;
    if (done == 0) return kNone;
    if (static_cast<std::size_t>(bytes) != bytes_) {
      tell(textOf("wrong size of message %" PRIu64 ": %d bytes", s.done, bytes));
      finish(3);
    }
    ++s.done;
    return kOne;
  }

  void verify(uint64_t number) {
    uint64_t* const slot = in_->slot(number);
    const bool last = (slot[0] & kLast) != 0;
    slot[0] &= ~kLast;
    for (std::size_t i = 0; i < in_->words; ++i) {
      if (slot[i] == firstWord(number) + i) continue;
      tell(textOf("wrong message %" PRIu64 ": word %zu is %" PRIx64 ", expected %" PRIx64, number, i, slot[i],
                  firstWord(number) + i));
      finish(3);
    }
    slot[0] = 0;  // so that what is not written again is noticed
    if (!last) return;
    last_received_ = stop_ = true;
  }

  void report() {
    const Clock::time_point now = Clock::now();
    const uint64_t moved = out_->done + in_->done;
    if (now - reported_ < kReportEvery || moved == reported_count_) return;
    reported_ = now;
    reported_count_ = moved;
    tell(textOf("flow %" PRIu64 " %" PRIu64, out_->done, in_->done));
  }

  // Empty: none yet.
  std::string readCommand() {
    for (;;) {
      const std::size_t end = input_.find('\n');
      if (end != std::string::npos) {
        const std::string line = input_.substr(0, end);
        input_.erase(0, end + 1);
        return line;
      }
      char piece[64];
      const ssize_t count = input_ended_ ? 0 : read(STDIN_FILENO, piece, sizeof piece);
      if (count == 0) input_ended_ = true;
      if (count <= 0) return "";
      input_.append(piece, static_cast<std::size_t>(count));
    }
  }

  void takeCommand() {
    const Clock::time_point now = Clock::now();
    if (now - commanded_ < kCommandEvery) return;
    commanded_ = now;
    const std::string command = readCommand();
    if (command == "stop") stop_ = true;
    if (command == "hold") hold_ = true;
    if (command == "go") hold_ = false;
  }

  // What is not written any more when this end has failed was meant for it all the same: only `again` counts.
  bool againAsked() {
    for (;;) {
      if (readCommand() == "again") return true;
      if (input_ended_) return false;
      pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      poll(&input, 1, 100);
    }
  }

  void close() {
    for (Stream* stream : {&*out_, &*in_}) {
      if (stream->mhandle != nullptr) check("deregMr", api_.deregMr(stream->comm, stream->mhandle));
    }
    if (out_->comm != nullptr) check("closeSend", api_.closeSend(out_->comm));
    if (in_->comm != nullptr) check("closeRecv", api_.closeRecv(in_->comm));
    if (listen_ != nullptr) check("closeListen", api_.closeListen(listen_));
    listen_ = nullptr;
  }

  NetApi& api_;
  const bool first_;
  const std::string folder_;
  const std::size_t bytes_;
  void* listen_ = nullptr;
  std::optional<Stream> out_;
  std::optional<Stream> in_;
  bool stop_ = false;
  bool hold_ = false;
  bool last_sent_ = false;
  bool last_received_ = false;
  bool failed_ = false;
  bool had_error_ = false;
  uint64_t reported_count_ = 0;
  Clock::time_point reported_;
  Clock::time_point commanded_;
  std::string input_;
  bool input_ended_ = false;
};

int run(int count, char** arguments) {
  const std::string end = count > 1 ? arguments[1] : "";
  const std::size_t bytes = count > 3 ? std::strtoul(arguments[3], nullptr, 10) : 16384;
  if (count < 3 || count > 4 || (end != "a" && end != "b") || bytes == 0 || bytes % sizeof(uint64_t) != 0) {
    std::fprintf(stderr, "usage: lab_traffic a|b FOLDER [BYTES, a multiple of 8]\n");
    return 2;
  }
  setMessagePrefix(end + ": ");
  setPluginLog(PluginLog::kInfo);
  PluginOptions options;
  options.plugin = RAILWISE_PLUGIN_PATH;
  auto plugin = loadPlugin(options);
  const auto devices = plugin.ok() ? startPlugin(*plugin->api, 1) : Outcome<int>(plugin.failure());
  if (!devices.ok()) {
    tell(textOf("error start: %s", devices.error().c_str()));
    return 4;
  }
  fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
  const int status = End(*plugin->api, end == "a", arguments[2], bytes).run();
  if (plugin->api->finalize() != ncclSuccess) return 4;
  return status;
}

}  // namespace
}  // namespace railwise::cli

int main(int count, char** arguments) { return railwise::cli::run(count, arguments); }
