// Ranks of one group in this process, on software devices of its own, and traffic between them that shows
// every wrong byte and every wrong signal.
//
// Each rank puts numbered messages to each other one. A message lies at the place number % kPlaces of an area
// of its writer, and each of its words follows from writer, target, number and place. It goes as a plain put
// of its first half and a put with a signal of the rest, or as one of them. The target takes a message when
// the signal has come so far, looks at every word, wipes the place, and says so by a signal of its own
// without data. So:
//
// - a signal before its data, a lost or doubled signal, and a late write of what was repeated are seen: words
//   differ, a wiped place changes, or the value of a signal is higher than what was put;
// - a writer changes the source of a message as soon as its request is done. A repetition from there is seen.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "net/rma/rma.h"
#include "tests/wait.h"

namespace railwise::net {

struct RmaShape {
  int ranks = 2;
  int rails = 1;     // of the device of each rank
  int standbys = 0;  // devices of each rank beside those
  int contexts = 1;
  std::size_t bytes = 256;  // of a message: a multiple of 16
  bool gpu = false;         // windows count as memory of a GPU
  bool never_reset = true;  // nobody resets signals
  bool together = false;    // all ranks have the same devices
  bool gets = false;        // each message is also read once from its writer
};

class RmaRanks {
 public:
  static constexpr uint64_t kPlaces = 16;

  explicit RmaRanks(const RmaShape& shape, const std::string& mode = "") : shape_(shape) {
    const int each = shape.rails + shape.standbys;
    const int devices = shape.together ? each : each * shape.ranks;
    const std::string text = "software:fabric=test" + std::to_string(getpid()) +
                             ",count=" + std::to_string(devices) + (mode.empty() ? "" : "," + mode);
    setenv("RAILWISE_DEVICE", text.c_str(), 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("RAILWISE_FUSE_PLACELESS", "1", 1);  // these devices are in no PCI tree
    const Result<Net*> net = Net::acquire();
    if (!net.ok()) throw std::runtime_error("no devices: " + text);
    net_ = *net;
    open();
  }
  ~RmaRanks() {
    ranks_.clear();
    Net::release();
  }
  RmaRanks(const RmaRanks&) = delete;
  RmaRanks& operator=(const RmaRanks&) = delete;

  // What was wrong first, in words; "": nothing.
  const std::string& problem() const { return problem_; }
  // Each rank shall put so many messages more to each other one.
  void expect(uint64_t messages) { goal_ += messages; }
  uint64_t taken() const { return taken_; }
  bool failed() const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const auto& rank) { return rank->context->failed(); });
  }
  bool allFailed() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const auto& rank) { return rank->context->failed(); });
  }
  bool done() const {
    for (const auto& rank : ranks_) {
      for (int other = 0; other < shape_.ranks; ++other) {
        const Between& link = rank->links[static_cast<std::size_t>(other)];
        if (other != rank->number && (link.taken < goal_ || link.acknowledged() < goal_ || link.open() > 0))
          return false;
      }
    }
    return true;
  }
  // Lets each rank do what there is to do. False: a promise was broken, or a rank has failed.
  bool turn() {
    for (auto& rank : ranks_) step(*rank);
    if (++turns_ % 64 == 0) sched_yield();
    return problem_.empty() && !failed();
  }
  bool run(uint64_t messages) {
    expect(messages);
    for (test::Patience patience; !done(); patience.again()) {
      if (!turn()) return false;
    }
    verify();
    return problem_.empty();
  }
  // Every place is wiped, and every signal is exactly what was put.
  void verify() {
    for (auto& rank : ranks_) {
      for (int other = 0; other < shape_.ranks; ++other) {
        if (other == rank->number) continue;
        const Between& link = rank->links[static_cast<std::size_t>(other)];
        const auto at = static_cast<std::size_t>(other);
        require(load(rank->signals[at]) == link.base + link.taken, *rank, other,
                "the signal is " + std::to_string(load(rank->signals[at])) + ", and not " +
                    std::to_string(link.base + link.taken));
        for (uint64_t place = 0; place < kPlaces; ++place)
          require(isWiped(*rank, other, place), *rank, other, "a wiped place was written");
      }
    }
  }
  RmaGroup& group(int rank) { return *ranks_[static_cast<std::size_t>(rank)]->group; }
  RmaContext& context(int rank) { return *ranks_[static_cast<std::size_t>(rank)]->context; }
  void drive() {
    for (auto& rank : ranks_) (void)rank->context->progress();
  }

 private:
  struct Message {
    RmaRequest* first = nullptr;
    RmaRequest* second = nullptr;
    RmaRequest* got = nullptr;
    uint64_t number = 0;
  };
  // Between this rank and another one, both ways.
  struct Between {
    uint64_t put = 0;    // messages to the other rank
    uint64_t taken = 0;  // messages of the other rank
    uint64_t told = 0;   // of these, those that it was told of
    uint64_t base = 0;
    RmaRequest* telling = nullptr;
    const uint64_t* acknowledgements = nullptr;
    std::vector<Message> messages = std::vector<Message>(kPlaces);
    uint64_t acknowledged() const { return __atomic_load_n(acknowledgements, __ATOMIC_ACQUIRE); }
    int open() const {
      int count = telling != nullptr ? 1 : 0;
      for (const Message& message : messages)
        count += (message.first != nullptr) + (message.second != nullptr) + (message.got != nullptr);
      return count;
    }
  };
  struct Rank {
    int number = 0;
    std::unique_ptr<RmaNet> net;
    RmaGroup* group = nullptr;
    RmaContext* context = nullptr;
    std::vector<uint64_t> sources, targets, signals, acknowledgements, got, facts;
    RmaWindow *source = nullptr, *target = nullptr, *signal = nullptr, *acknowledgement = nullptr,
              *read = nullptr, *fact = nullptr;
    std::vector<Between> links;
    ~Rank() {
      if (context != nullptr) RmaContext::destroy(context);
      for (RmaWindow* window : {source, target, signal, acknowledgement, read, fact}) {
        if (window != nullptr) group->deregister(window);
      }
      if (group != nullptr) RmaGroup::close(group);
    }
  };

  std::size_t words() const { return shape_.bytes / sizeof(uint64_t); }
  std::size_t placeAt(int other, uint64_t number) const {
    return (static_cast<std::size_t>(other) * kPlaces + number % kPlaces) * words();
  }
  static uint64_t load(const uint64_t& from) { return __atomic_load_n(&from, __ATOMIC_ACQUIRE); }
  static uint64_t wordOf(int writer, int target, uint64_t number, std::size_t i) {
    uint64_t x = number * 0x9e3779b97f4a7c15 +
                 static_cast<uint64_t>(writer * 64 + target) * 0xbf58476d1ce4e5b9 + i * 0x94d049bb133111eb;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    return (x ^ (x >> 27)) | 1;  // never that of a wiped place
  }
  void require(bool holds, const Rank& rank, int other, const std::string& what) {
    if (!holds && problem_.empty())
      problem_ =
          "rank " + std::to_string(rank.number) + ", other rank " + std::to_string(other) + ": " + what;
  }

  void open() {
    std::vector<std::vector<std::byte>> handles(static_cast<std::size_t>(shape_.ranks),
                                                std::vector<std::byte>(kHandleBytes));
    std::vector<RmaListener*> listeners;
    const int each = shape_.rails + shape_.standbys;
    for (int i = 0; i < shape_.ranks; ++i) {
      auto rank = std::make_unique<Rank>();
      rank->number = i;
      rank->net = std::make_unique<RmaNet>(*net_, 77);
      std::vector<int> members;
      for (int rail = 0; rail < shape_.rails; ++rail)
        members.push_back((shape_.together ? 0 : i * each) + rail);
      const Result<int> device = net_->makeVirtualDevice(members);
      if (!device.ok()) throw std::runtime_error("no such device");
      const auto listener = rank->net->listen(*device, handles[static_cast<std::size_t>(i)].data());
      if (!listener.ok()) throw std::runtime_error("no listener");
      listeners.push_back(*listener);
      ranks_.push_back(std::move(rank));
    }
    std::vector<const void*> pointers;
    for (const auto& handle : handles) pointers.push_back(handle.data());
    for (auto& rank : ranks_) begin(*rank, *listeners[static_cast<std::size_t>(rank->number)], pointers);
  }
  void begin(Rank& rank, RmaListener& listener, const std::vector<const void*>& handles) {
    const auto group = RmaNet::connect(listener, handles, rank.number);
    if (!group.ok()) throw std::runtime_error("no group");
    rank.group = *group;
    RmaNet::close(&listener);
    const auto context = rank.group->createContext(shape_.contexts, -1);
    if (!context.ok()) throw std::runtime_error("no context");
    rank.context = *context;
    const auto ranks = static_cast<std::size_t>(shape_.ranks);
    rank.sources.resize(ranks * kPlaces * words());
    rank.targets.resize(ranks * kPlaces * words());
    rank.got.resize(ranks * kPlaces * words());
    rank.signals.resize(ranks);
    rank.acknowledgements.resize(ranks);
    rank.links.resize(ranks);
    const auto add = [&](std::vector<uint64_t>& memory) {
      const auto window = rank.group->registerMemory(
          reinterpret_cast<uint64_t>(memory.data()), memory.size() * sizeof(uint64_t),
          shape_.gpu ? MemoryKind::kDevice : MemoryKind::kHost,
          kRmaStrongOrder | (shape_.never_reset ? kRmaNeverReset : 0));
      if (!window.ok()) throw std::runtime_error("no window");
      return *window;
    };
    rank.source = add(rank.sources);
    rank.target = add(rank.targets);
    rank.signal = add(rank.signals);
    rank.acknowledgement = add(rank.acknowledgements);
    rank.read = add(rank.got);
    rank.facts.resize(ranks * kPlaces * words());
    for (std::size_t i = 0; i < rank.facts.size(); ++i) rank.facts[i] = wordOf(rank.number, 1000, 0, i);
    rank.fact = add(rank.facts);
    for (std::size_t other = 0; other < ranks; ++other)
      rank.links[other].acknowledgements = &rank.acknowledgements[other];
  }

  void step(Rank& rank) {
    if (rank.context->failed()) return;
    (void)rank.context->progress();
    for (int other = 0; other < shape_.ranks; ++other) {
      if (other == rank.number) continue;
      finish(rank, other);
      take(rank, other);
      put(rank, other);
    }
  }
  bool test(Rank& rank, RmaRequest*& request) {
    if (request == nullptr) return true;
    bool done = false;
    (void)rank.group->test(*request, &done);
    if (done) request = nullptr;
    return done;
  }
  // Requests in their order; then the source is changed.
  void finish(Rank& rank, int other) {
    Between& link = rank.links[static_cast<std::size_t>(other)];
    (void)test(rank, link.telling);
    for (Message& message : link.messages) {
      if (message.number == 0) continue;
      if (message.got != nullptr && test(rank, message.got)) checkGot(rank, other, message.number);
      if (message.first == nullptr && message.second == nullptr) continue;
      const bool first = test(rank, message.first);
      const bool second = test(rank, message.second);
      if (!first || !second) continue;
      std::memset(&rank.sources[placeAt(other, message.number)], 0xee, shape_.bytes);
    }
  }
  void checkGot(Rank& rank, int other, uint64_t number) {
    for (std::size_t i = 0; i < words(); ++i) {
      const uint64_t word = rank.got[placeAt(other, number) + i];
      require(word == wordOf(other, 1000, 0, placeAt(rank.number, number) + i), rank, other,
              "a get brought a wrong word");
    }
    std::memset(&rank.got[placeAt(other, number)], 0x11, shape_.bytes);
  }
  void put(Rank& rank, int other) {
    Between& link = rank.links[static_cast<std::size_t>(other)];
    const uint64_t number = link.put + 1;
    if (number > goal_ || link.acknowledged() + kPlaces < number) return;
    Message& message = link.messages[number % kPlaces];
    if (message.first != nullptr || message.second != nullptr || message.got != nullptr) return;
    const std::size_t at = placeAt(other, number);
    for (std::size_t i = 0; i < words(); ++i) rank.sources[at + i] = wordOf(rank.number, other, number, i);
    const std::size_t there = placeAt(rank.number, number);
    const int context =
        static_cast<int>(static_cast<uint64_t>(other) % static_cast<uint64_t>(shape_.contexts));
    const auto to = static_cast<uint32_t>(other);
    std::size_t begin = 0;
    Status status;
    if (number % 3 == 1) {  // its first half goes before
      begin = shape_.bytes / 2 / 8 * 8;
      status = rank.context->put(context, {rank.source, at * 8}, begin, {rank.target, there * 8}, to, nullptr,
                                 false, &message.first);
    }
    if (status.ok() && shape_.gets && number % 4 == 0)
      status = rank.context->get(context, {rank.fact, there * 8}, shape_.bytes, {rank.read, at * 8}, to,
                                 false, &message.got);
    const RmaSignal signal = {{rank.signal, static_cast<uint64_t>(rank.number) * 8}, 1};
    if (status.ok())
      status = rank.context->put(context, {rank.source, at * 8 + begin}, shape_.bytes - begin,
                                 {rank.target, there * 8 + begin}, to, &signal, false, &message.second);
    if (!status.ok()) return;
    link.put = number;
    message.number = number;
  }
  bool isWiped(const Rank& rank, int other, uint64_t place) const {
    for (std::size_t i = 0; i < words(); ++i) {
      if (load(rank.targets[placeAt(other, place) + i]) != 0) return false;
    }
    return true;
  }
  void take(Rank& rank, int other) {
    Between& link = rank.links[static_cast<std::size_t>(other)];
    const uint64_t come = load(rank.signals[static_cast<std::size_t>(other)]);
    require(come <= goal_, rank, other,
            "a signal of " + std::to_string(come) + ", where " + std::to_string(goal_) +
                " is the most that was put");
    while (link.taken < come) {
      const uint64_t number = ++link.taken;
      ++taken_;
      for (std::size_t i = 0; i < words(); ++i) {
        uint64_t& word = rank.targets[placeAt(other, number) + i];
        require(load(word) == wordOf(other, rank.number, number, i), rank, other,
                "message " + std::to_string(number) + " has a wrong word " + std::to_string(i));
        __atomic_store_n(&word, 0, __ATOMIC_RELAXED);
      }
    }
    if (link.telling != nullptr || link.told == link.taken) return;
    const RmaSignal signal = {{rank.acknowledgement, static_cast<uint64_t>(rank.number) * 8},
                              link.taken - link.told};
    if (rank.context->put(0, {}, 0, {}, static_cast<uint32_t>(other), &signal, false, &link.telling).ok())
      link.told = link.taken;
  }

  const RmaShape shape_;
  Net* net_ = nullptr;
  std::vector<std::unique_ptr<Rank>> ranks_;
  uint64_t goal_ = 0;
  uint64_t taken_ = 0;
  uint64_t turns_ = 0;
  std::string problem_;
};

}  // namespace railwise::net
