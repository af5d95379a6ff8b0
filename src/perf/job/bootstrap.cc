#include "perf/job/bootstrap.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/process.h"
#include "cli/options/message.h"

namespace railwise::cli {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kTick{100};
// A plugin notices a dead peer as soon as the bootstrap does. Waiting this long for the bootstrap's verdict
// lets the message name the dead rank, instead of the call that failed because of it.
constexpr milliseconds kVerdictDelay{400};
constexpr milliseconds kVerdictTimeout{1'500};
// When a signal ends all ranks (Ctrl-C), each rank dies within this time, before it reports the death of
// another rank.
constexpr milliseconds kGoneDelay{40};
// How long rank 0 stays, so that the other ranks can read the verdict.
constexpr milliseconds kFarewell{500};

// The running job: the monitor thread, and the state that it shares with other threads. Only the monitor
// thread reads the sockets. It notices which rank dies or fails, forwards that to the others, and ends a job
// in which no rank makes progress.
class Job final : public Bootstrap {
 public:
  Job(BootstrapOptions options, Joined joined)
      : Bootstrap(std::move(options)), channels_(std::move(joined.channels)) {
    peers_ = std::move(joined.peers);
    states_.resize(channels_.size());
    for (std::size_t i = 0; i < channels_.size(); ++i) states_[i].open = channels_[i] != nullptr;
  }
  ~Job() override {
    stop_ = true;
    wake();
    if (monitor_.joinable()) monitor_.join();
    for (const int fd : wake_pipe_) {
      if (fd >= 0) close(fd);
    }
  }

  Status start() {
    if (pipe2(wake_pipe_, O_CLOEXEC | O_NONBLOCK) != 0) return {Code::kSystem, errno};
    monitor_ = std::thread([this] { monitor(); });
    return Status::success();
  }

  void fail(const std::string& text) override {
    {
      const std::lock_guard lock(mutex_);
      if (own_failure_) return;
      own_failure_ = text;
      own_failure_at_ = Clock::now();
    }
    if (rank() != 0) sendFailure(0, rank(), text);
    wake();
  }

  Status leave() override {
    const Deadline deadline = Deadline::after(options_.timeout);
    const auto all_said_bye = [&] {
      for (std::size_t i = 0; i < states_.size(); ++i) {
        if (channels_[i] != nullptr && !states_[i].bye) return false;
      }
      return true;
    };
    if (rank() != 0) (void)channels_[0]->send(FrameType::kBye, {}, deadline);
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ || all_said_bye(); });
      if (ended_) return {Code::kRemote};
    }
    if (rank() != 0) return Status::success();
    for (const auto& channel : channels_) {
      if (channel != nullptr) (void)channel->send(FrameType::kBye, {}, deadline);
    }
    return Status::success();
  }

 private:
  struct PeerState {
    bool open = false;
    bool bye = false;
    bool failed = false;  // the peer has reported why it ends
    std::deque<Bytes> blocks;
  };
  struct Verdict {
    int rank = 0;
    bool gone = false;  // the rank ended without a message; otherwise `text` is its message
    std::string text;
  };

  Status sendBlock(int to, const Bytes& block) override {
    const auto& channel = channels_[static_cast<std::size_t>(to)];
    const Deadline deadline = Deadline::after(options_.timeout);
    // The peer is gone. The monitor thread will report that soon, and more precisely than this call could.
    if (!channel->send(FrameType::kData, block, deadline).ok()) return waitForFailure();
    return Status::success();
  }

  Result<Bytes> receiveBlock(int from) override {
    std::unique_lock lock(mutex_);
    auto& blocks = states_[static_cast<std::size_t>(from)].blocks;
    waiting_for_ = from;
    changed_.wait(lock, [&] { return ended_ || !blocks.empty(); });
    waiting_for_ = -1;
    if (blocks.empty()) return Status{Code::kRemote};
    Bytes block = std::move(blocks.front());
    blocks.pop_front();
    return block;
  }

  Status waitForFailure() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
    return {Code::kRemote};
  }

  void wake() {
    const char byte = 0;
    (void)!write(wake_pipe_[1], &byte, 1);
  }

  void sendFailure(std::size_t to, int whose, const std::string& text) {
    const Bytes payload = ByteWriter().u32(static_cast<uint32_t>(whose)).text(text).take();
    (void)channels_[to]->send(FrameType::kFailure, payload, Deadline::after(kVerdictTimeout));
  }

  // ---- the monitor thread ----

  void monitor() {
    last_progress_at_ = Clock::now();
    while (!stop_) {
      waitForEvent();
      readAll();
      watchProgress();
      if (auto verdict = judge()) {
        end(*verdict);
        return;
      }
    }
  }

  void waitForEvent() {
    std::vector<pollfd> fds = {{.fd = wake_pipe_[0], .events = POLLIN, .revents = 0}};
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      if (states_[i].open) fds.push_back({.fd = channels_[i]->fd(), .events = POLLIN, .revents = 0});
    }
    const bool pending = gone_.has_value();
    poll(fds.data(), fds.size(), static_cast<int>((pending ? kGoneDelay / 4 : kTick).count()));
    char drained[64];
    while (read(wake_pipe_[0], drained, sizeof drained) > 0) {
    }
  }

  void readAll() {
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      while (states_[i].open && readOne(i)) {
      }
    }
  }

  // True: there may be more frames.
  bool readOne(std::size_t from) {
    Frame frame;
    const Received received = channels_[from]->receive(frame, kMaxPayload);
    if (received == Received::kNothing) return false;
    const std::lock_guard lock(mutex_);
    PeerState& state = states_[from];
    if (received != Received::kFrame) {
      state.open = false;
      if (!state.bye && !state.failed && !gone_) noteGone(static_cast<int>(from));
      changed_.notify_all();
      return false;
    }
    take(static_cast<int>(from), state, frame);
    changed_.notify_all();
    return true;
  }

  // noteGone() and take() are called with mutex_ held.
  void noteGone(int who) {
    gone_ = Verdict{who, true, {}};
    gone_at_ = Clock::now();
  }

  void take(int from, PeerState& state, Frame& frame) {
    ByteReader reader(frame.payload);
    switch (frame.type) {
      case FrameType::kData:
        state.blocks.push_back(std::move(frame.payload));
        break;
      case FrameType::kPulse:
        last_progress_at_ = Clock::now();
        forward_pulse_ = true;
        break;
      case FrameType::kBye:
        state.bye = true;
        break;
      case FrameType::kGone:
        state.failed = true;  // rank 0, which sent the frame, ends too
        if (!gone_) noteGone(static_cast<int>(reader.u32()));
        break;
      case FrameType::kFailure: {
        const auto whose = static_cast<int>(reader.u32());
        state.failed = true;
        if (told_) break;
        told_ = Verdict{rank() == 0 ? from : whose, false, reader.text()};
        told_at_ = Clock::now();
        break;
      }
      default:
        break;  // a frame that has no meaning here is ignored
    }
  }

  // Reports to the other ranks that this rank makes progress. Ends the job if no rank has made progress for
  // too long.
  void watchProgress() {
    const auto now = Clock::now();
    const uint64_t progress = options_.progress();
    if (progress != last_progress_) {
      last_progress_ = progress;
      last_progress_at_ = now;
      own_pulse_ = true;
    }
    if (now - last_pulse_at_ >= kPulsePeriod() && (own_pulse_ || (rank() == 0 && forward_pulse_))) {
      for (std::size_t i = 0; i < channels_.size(); ++i) {
        if (states_[i].open) channels_[i]->sendIfIdle(FrameType::kPulse);
      }
      own_pulse_ = forward_pulse_ = false;
      last_pulse_at_ = now;
    }
    if (now - last_progress_at_ < options_.timeout) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.timeout).count();
    fail(textOf("%s%lld s: ", kNoProgress, static_cast<long long>(seconds)) + doing() + stoppedRanks());
  }

  // The ranks on this host that do not run because of a signal or a debugger. If there are none: who may know
  // why nothing happens.
  std::string stoppedRanks() const {
    std::string text;
    for (const Peer& each : peers_) {
      const char state = each.host == peer(rank()).host ? processStat(std::to_string(each.pid)).state : '\0';
      if (state == 'T' || state == 't') text += "; " + each.text() + " is stopped";
    }
    return text.empty() ? " (railwise stuck says why, while the job waits)" : text;
  }

  // What this rank does, and for which rank its main thread waits.
  std::string doing() const {
    std::string text = options_.doing();
    const int peer = waiting_for_;
    if (peer >= 0)
      text += (text.empty() ? "waiting for rank " : ", waiting for rank ") + std::to_string(peer);
    return text;
  }

  Clock::duration kPulsePeriod() const {
    return std::min<Clock::duration>(options_.timeout / 8, milliseconds(500));
  }

  // Which rank caused the failure, once that is certain enough.
  std::optional<Verdict> judge() {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (gone_) return now - gone_at_ >= kGoneDelay ? gone_ : std::nullopt;
    if (told_ && (rank() != 0 || now - told_at_ >= kVerdictDelay)) return told_;
    const auto own_wait = rank() == 0 ? kVerdictDelay : kVerdictTimeout;
    if (own_failure_ && now - own_failure_at_ >= own_wait) return Verdict{rank(), false, *own_failure_};
    return std::nullopt;
  }

  void end(const Verdict& verdict) {
    const std::string text = words(verdict);  // before the next calls, which may fail because other ranks end
    if (rank() == 0) {
      tellAll(verdict);
      lingerUntilRead();
    }
    options_.on_failure(text);
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  void tellAll(const Verdict& verdict) {
    for (std::size_t i = 1; i < channels_.size(); ++i) {
      if (!states_[i].open) continue;
      if (verdict.gone) {
        const Bytes payload = ByteWriter().u32(static_cast<uint32_t>(verdict.rank)).take();
        (void)channels_[i]->send(FrameType::kGone, payload, Deadline::after(kTick));
      } else {
        sendFailure(i, verdict.rank, verdict.text);
      }
      channels_[i]->finishSending();
    }
  }

  // If a socket is closed while it has unread bytes, the peer may lose what was sent last. So rank 0 reads on
  // until the peers have closed.
  void lingerUntilRead() {
    const Deadline deadline = Deadline::after(kFarewell);
    bool any_open = true;
    while (any_open && !deadline.passed()) {
      waitForEvent();
      any_open = false;
      for (std::size_t i = 0; i < channels_.size(); ++i) {
        while (states_[i].open && readOne(i)) {
        }
        any_open = any_open || states_[i].open;
      }
    }
  }

  std::string words(const Verdict& verdict) {
    const std::lock_guard lock(mutex_);
    const std::string who =
        verdict.rank >= 0 && verdict.rank < size() ? peer(verdict.rank).text() : "an unknown rank";
    const std::string now = doing();
    const std::string while_text = now.empty() ? "" : "; this rank was " + now;
    if (!verdict.gone && verdict.rank == rank()) return verdict.text;
    const std::string here = own_failure_ ? "; this rank: " + *own_failure_ : while_text;
    return who + (verdict.gone ? " is gone" : " failed: " + verdict.text) + here;
  }

  std::vector<std::unique_ptr<FrameChannel>> channels_;
  int wake_pipe_[2] = {-1, -1};
  std::atomic<bool> stop_ = false;
  std::atomic<int> waiting_for_ = -1;  // the rank whose block the main thread waits for; -1: none

  // Guards the fields below. The monitor thread writes `open` with the mutex held, and may read it without.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PeerState> states_;
  std::optional<std::string> own_failure_;
  Clock::time_point own_failure_at_;
  std::optional<Verdict> gone_;
  Clock::time_point gone_at_;
  std::optional<Verdict> told_;
  Clock::time_point told_at_;
  bool ended_ = false;

  // Only the monitor thread uses the next fields.
  uint64_t last_progress_ = 0;
  Clock::time_point last_progress_at_;
  Clock::time_point last_pulse_at_;
  bool own_pulse_ = false;
  bool forward_pulse_ = false;

  std::thread monitor_;
};

}  // namespace

std::string Peer::text() const {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + " on host " + host + ")";
}

Outcome<std::unique_ptr<Bootstrap>> Bootstrap::join(BootstrapOptions options) {
  auto joined = joinJob(options, std::move(options.listener));
  if (!joined.ok()) return joined.failure();
  auto job = std::make_unique<Job>(std::move(options), std::move(*joined));
  if (!job->start().ok()) return Error{"cannot create a pipe"};
  return std::unique_ptr<Bootstrap>(std::move(job));
}

Result<std::vector<Bytes>> Bootstrap::gather(const Bytes& mine) {
  if (rank() != 0) {
    RAILWISE_TRY(sendBlock(0, mine));
    return std::vector<Bytes>();
  }
  std::vector<Bytes> blocks = {mine};
  blocks.reserve(static_cast<std::size_t>(size()));
  for (int from = 1; from < size(); ++from) {
    auto block = receiveBlock(from);
    if (!block.ok()) return block.status();
    blocks.push_back(std::move(*block));
  }
  return blocks;
}

Result<Bytes> Bootstrap::scatter(const std::vector<Bytes>& blocks) {
  if (rank() != 0) return receiveBlock(0);
  for (int to = 1; to < size(); ++to) RAILWISE_TRY(sendBlock(to, blocks[static_cast<std::size_t>(to)]));
  return blocks[0];
}

Status Bootstrap::barrier() {
  auto gathered = gather({});
  if (!gathered.ok()) return gathered.status();
  return scatter(std::vector<Bytes>(static_cast<std::size_t>(size()))).status();
}

namespace {

Bytes pack(const std::vector<Bytes>& blocks) {
  ByteWriter writer;
  for (const Bytes& block : blocks) writer.text(toText(block));
  return writer.take();
}

Result<std::vector<Bytes>> unpack(const Bytes& packed, int count) {
  ByteReader reader(packed);
  std::vector<Bytes> blocks;
  blocks.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) blocks.push_back(toBytes(reader.text()));
  if (!reader.ok()) return Status{Code::kRemote};
  return blocks;
}

}  // namespace

Result<std::vector<Bytes>> Bootstrap::allGather(const Bytes& mine) {
  auto rows = gather(mine);
  if (!rows.ok()) return rows.status();
  const Bytes packed = rank() == 0 ? pack(*rows) : Bytes();
  auto all = scatter(std::vector<Bytes>(rank() == 0 ? rows->size() : 0, packed));
  if (!all.ok()) return all.status();
  return unpack(*all, size());
}

Result<std::vector<Bytes>> Bootstrap::exchange(const std::vector<Bytes>& blocks) {
  auto rows = gather(pack(blocks));
  if (!rows.ok()) return rows.status();
  std::vector<Bytes> columns;
  if (rank() == 0) {
    std::vector<std::vector<Bytes>> table;
    for (const Bytes& row : *rows) {
      auto unpacked = unpack(row, size());
      if (!unpacked.ok()) return unpacked.status();
      table.push_back(std::move(*unpacked));
    }
    for (std::size_t to = 0; to < table.size(); ++to) {
      std::vector<Bytes> column;
      column.reserve(table.size());
      for (auto& row : table) column.push_back(std::move(row[to]));
      columns.push_back(pack(column));
    }
  }
  auto mine = scatter(columns);
  if (!mine.ok()) return mine.status();
  return unpack(*mine, size());
}

}  // namespace railwise::cli
