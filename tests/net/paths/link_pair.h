// Both ends of a link of fake users (fake_user.h) in one process, on software devices. What the handshake
// does is done here. There is no NCCL, no Connector and no Listener.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "loop_connection.h"
#include "net/paths/fake_user.h"
#include "net/tcp.h"
#include "port_control.h"
#include "tests/wait.h"

namespace railwise::net {

// Where the two ends of a link are.
struct PairPlaces {
  int source_rails = 1;
  int source_standbys = 0;
  int target_rails = 1;
  int target_standbys = 0;
  bool apart = false;    // each end has devices of its own: those of the target come after the source's
  bool resumes = false;  // a side channel that breaks is resumed

  int sourceDevices() const { return source_rails + source_standbys; }
  int targetDevices() const { return target_rails + target_standbys; }
  int targetAt() const { return apart ? sourceDevices() : 0; }
  int devices() const {
    return apart ? sourceDevices() + targetDevices() : std::max(sourceDevices(), targetDevices());
  }
};

// Both ends of a link in this process, on software devices of its own.
class LinkPair {
 public:
  // `mode`: further keys of the devices; faults stand behind a semicolon.
  explicit LinkPair(const PairPlaces& places, const CellShape& shape = {}, const std::string& mode = "",
                    int queue_pairs = 1)
      : places_(places), shape_(shape), queue_pairs_(queue_pairs) {
    net_ = acquireNet("count=" + std::to_string(places.devices()) + (mode.empty() ? "" : "," + mode));
  }
  ~LinkPair() {
    close();
    Net::release();
  }
  LinkPair(const LinkPair&) = delete;
  LinkPair& operator=(const LinkPair&) = delete;

  Net& net() { return *net_; }
  FakeSource& source() { return *source_; }
  FakeTarget& target() { return *target_; }
  const std::string& problem() const { return problem_; }
  uint64_t goal() const { return goal_; }
  uint64_t counted() const { return counted_before_ + (target_ != nullptr ? target_->counted() : 0); }

  // Makes both ends, and connects them. Call it again after close() for another link.
  Status open() {
    const Device& there = device(places_.targetAt(), places_.target_rails);
    const Device& here = device(0, places_.source_rails);
    const auto rails = static_cast<int>(there.rails().size());
    const ConnectionOptions options = optionsOf(here, 0, places_.sourceDevices());
    source_.reset(new FakeSource(here, options, rails, shape_));
    RAILWISE_TRY(source_->open());
    EndInfo request = {};
    RAILWISE_TRY(source_->chooser().describe(request));
    const ConnectionOptions other = optionsOf(there, places_.targetAt(), places_.targetDevices());
    target_.reset(new FakeTarget(there, other, request, shape_));
    RAILWISE_TRY(target_->open(request));
    const Session session = {makeSecret(), randomBytes(), randomBytes()};
    Status prepared = target_->answerer().prepare(request, session);
    for (test::Patience patience; prepared.sys_errno == ETIMEDOUT; patience.again())
      prepared = target_->answerer().prepare(request, session);
    RAILWISE_TRY(prepared);
    const EndInfo reply = target_->answerer().local();
    bool up[2] = {};
    Deadline called_by = Deadline::after({});
    for (test::Patience patience; !up[0] || !up[1]; patience.again()) {
      const Result<bool> called = up[0] ? true : source_->chooser().establish(request, reply, session);
      if (!called.ok()) return called.status();
      const Result<bool> answered = up[1] ? true : target_->answerer().establish(request);
      if (!answered.ok()) return answered.status();
      // A source that begins without queue pairs calls nobody.
      if (*called && !up[0]) called_by = Deadline::after(kManagerFollows);
      up[0] = *called;
      up[1] = *answered || (up[0] && called_by.passed() && target_->answerer().giveUpFirst(request));
    }
    return attach(session);
  }
  void close() {
    note();
    counted_before_ = counted();
    closeSource();
    closeTarget();
    goal_ = 0;
  }
  // Closes both ends while their writes are held up for `late`, and drivers neither stop nor destroy their
  // queue pairs. These writes come when the windows may have been given away.
  void closeWithLateWrites(std::chrono::milliseconds late) {
    for (const Link* link : {&source_->link(), &target_->link()}) {
      for (const LaneQueuePair& each : link->endpoint.queue_pairs) {
        if (each.qp == nullptr) continue;
        test::addFault("qp=" + std::to_string(each.qp->qp_num) +
                       " verb=modify_qp+destroy_qp errno=EBUSY nth=1 every=1 count=12");
        test::addFault("qp=" + std::to_string(each.qp->qp_num) +
                       " opcode=any nth=1 every=1 count=2 delay=" + std::to_string(late.count()) + "ms");
      }
    }
    expect(CellRing::kPlaces);
    for (int i = 0; i < 8 && turn(); ++i) {
    }
    close();
  }
  void closeSource() { source_.reset(); }
  void closeTarget() { target_.reset(); }

  // Lets both ends do what there is to do. False: a link has failed, or a promise was broken.
  bool turn() {
    const uint64_t before = counted();
    const bool sends = source_ == nullptr || source_->progress().ok();
    const bool counts = target_ == nullptr || target_->progress().ok();
    note();
    fruitless_ = counted() != before ? 0 : fruitless_ + 1;
    if (fruitless_ % 64 == 63) sched_yield();
    if (fruitless_ > kSleepAfter && fruitless_ % 64 == 63) usleep(kSleepUs);
    return sends && counts && problem_.empty();
  }
  // Sends so many cells more, over a new link if there is none. False: as turn().
  bool run(uint64_t cells) {
    if (source_ == nullptr && !open().ok()) {
      problem_ = "it does not open";
      return false;
    }
    expect(cells);
    for (test::Patience patience; !done(); patience.again()) {
      if (!turn()) return false;
    }
    source_->verify();
    target_->verify();
    note();
    return problem_.empty();
  }
  void expect(uint64_t cells) {
    goal_ += cells;
    source_->expect(goal_);
    target_->expect(goal_);
  }
  // Has everything arrived, and is that known?
  bool done() const { return source_->done() && target_->done() && target_->counted() == goal_; }
  // The names of the rails that the link uses now.
  std::string railsInUse() const {
    std::string names;
    for (const Rail& rail : source_->link().endpoint.rails)
      names += std::string(names.empty() ? "" : "+") + rail.hca->name();
    return names;
  }

 private:
  // RDMA CM may tell the target later than the source that a queue pair is up.
  static constexpr auto kManagerFollows = std::chrono::milliseconds(500);
  static constexpr uint32_t kSleepAfter = 4096;
  static constexpr useconds_t kSleepUs = 50;

  const Device& device(int first, int count) {
    std::vector<int> members;
    for (int i = 0; i < count; ++i) members.push_back(first + i);
    const Result<int> index = net_->makeVirtualDevice(members);
    if (!index.ok()) throw std::runtime_error("no such device");
    return *net_->device(*index);
  }
  ConnectionOptions optionsOf(const Device& device, int first, int count) {
    ConnectionOptions options{net_->config(), net_->host(), -1, queue_pairs_, net_->railBandwidths(device)};
    for (const Rail& rail : net_->standbysOf(device)) {
      for (int i = 0; i < count; ++i) {
        if (rail.hca == net_->device(first + i)->rails().front().hca) options.standbys.push_back(rail);
      }
    }
    options.devices = net_->physicalDevices();
    options.watcher = net_->watcher();
    if (places_.resumes) options.resumer = net_->resumer();
    return options;
  }
  Status attach(const Session& session) {
    Result<Socket> listener = Socket::listen(test::loopback(0), 1);
    if (!listener.ok()) return listener.status();
    Result<Socket> caller = Socket::connect(listener->localAddress());
    if (!caller.ok()) return caller.status();
    Socket called;
    for (test::Patience patience; !called.valid(); patience.again()) {
      Result<Socket> taken = listener->accept();
      if (!taken.ok()) return taken.status();
      called = std::move(*taken);
    }
    for (test::Patience patience;; patience.again()) {
      const Result<Io> connected = caller->connected();
      if (!connected.ok()) return connected.status();
      if (*connected == Io::kDone) break;
    }
    const uint16_t port = places_.resumes ? net_->resumer()->port() : 0;
    source_->link().attach(std::move(*caller), session, port);
    target_->link().attach(std::move(called), session, port);
    return Status::success();
  }
  void note() {
    if (problem_.empty() && source_ != nullptr) problem_ = source_->problem();
    if (problem_.empty() && target_ != nullptr) problem_ = target_->problem();
  }

  const PairPlaces places_;
  const CellShape shape_;
  const int queue_pairs_;
  Net* net_ = nullptr;
  std::unique_ptr<FakeSource> source_;
  std::unique_ptr<FakeTarget> target_;
  uint64_t goal_ = 0;
  uint64_t counted_before_ = 0;
  uint32_t fruitless_ = 0;
  std::string problem_;
};

}  // namespace railwise::net
