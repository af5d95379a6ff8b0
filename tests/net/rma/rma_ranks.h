// Ranks of one group in this process, on software devices of its own, and traffic between them that shows
// every wrong byte and every wrong signal.
//
// Each rank puts numbered messages to each other one, over each of its contexts: a channel for each rank and
// context. A message lies at the place number % places of the area of its channel, and each of its words
// follows from writer, target, channel, number and place. It goes as a plain put
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

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "loop_connection.h"
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
  bool own = false;         // each rank puts to itself, too
  uint64_t places = 16;     // messages of a channel that are under way
};

class RmaRanks {
 public:
  explicit RmaRanks(const RmaShape& shape, const std::string& mode = "") : shape_(shape) {
    const int each = shape.rails + shape.standbys;
    const int devices = shape.together ? each : each * shape.ranks;
    net_ = acquireNet("count=" + std::to_string(devices) + (mode.empty() ? "" : "," + mode));
    try {
      open();
    } catch (...) {
      ranks_.clear();
      Net::release();
      throw;
    }
  }
  ~RmaRanks() {
    ranks_.clear();
    Net::release();
  }
  RmaRanks(const RmaRanks&) = delete;
  RmaRanks& operator=(const RmaRanks&) = delete;

  // Called with the handle of each rank, by its number, on its way to all ranks.
  static inline std::function<void(int rank, char* handle)> on_the_way;

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
      for (int channel = 0; channel < channels(); ++channel) {
        const Between& link = rank->links[static_cast<std::size_t>(channel)];
        if (isUsed(*rank, channel) && (link.taken < goal_ || link.acknowledged() < goal_ || link.open() > 0))
          return false;
      }
    }
    return true;
  }
  // All messages that are expected, of all channels.
  uint64_t goal() const {
    const int others = shape_.ranks - (shape_.own ? 0 : 1);
    return goal_ * static_cast<uint64_t>(shape_.ranks * others * shape_.contexts);
  }
  // What is missing, for whoever looks for the reason.
  std::string missing() const {
    std::string text;
    for (const auto& rank : ranks_) {
      if (rank->context->failed()) text += " rank " + std::to_string(rank->number) + " has failed;";
      for (int channel = 0; channel < channels(); ++channel) {
        const Between& link = rank->links[static_cast<std::size_t>(channel)];
        if (!isUsed(*rank, channel) || text.size() > 800 ||
            (link.taken >= goal_ && link.acknowledged() >= goal_ && link.open() == 0))
          continue;
        text += " rank " + std::to_string(rank->number) + "/" + std::to_string(otherOf(channel)) +
                " context " + std::to_string(contextOf(channel)) + ": put " + std::to_string(link.put) +
                ", acknowledged " + std::to_string(link.acknowledged()) + ", open " +
                std::to_string(link.open()) + ", taken " + std::to_string(link.taken) + ", told " +
                std::to_string(link.told) + ";";
      }
    }
    return text;
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
  // Every place is wiped, and every signal is exactly what was put. After a failure: no signal is more.
  void verify() {
    const bool all = !failed();
    for (auto& rank : ranks_) {
      for (int channel = 0; channel < channels(); ++channel) {
        if (!isUsed(*rank, channel)) continue;
        const auto at = static_cast<std::size_t>(channel);
        const uint64_t signal = load(rank->signals[at]);
        const uint64_t put = putBy(*rank, channel);
        require(all ? signal == put : signal <= put, *rank, channel,
                "the signal is " + std::to_string(signal) + ", and " + std::to_string(put) + " were put");
        for (uint64_t place = 0; all && place < shape_.places; ++place)
          require(isWiped(*rank, channel, place), *rank, channel, "a wiped place was written");
      }
    }
  }
  RmaGroup& group(int rank) { return *ranks_[static_cast<std::size_t>(rank)]->group; }
  RmaContext& context(int rank) { return *ranks_[static_cast<std::size_t>(rank)]->context; }
  void drive() {
    for (auto& rank : ranks_) (void)rank->context->progress();
  }

 private:
  static constexpr std::size_t kFacts = 4095;  // in the place of a channel: what gets read

  struct Message {
    RmaRequest* first = nullptr;
    RmaRequest* second = nullptr;
    RmaRequest* got = nullptr;
    uint64_t number = 0;
  };
  // Between this rank and another one over one context, both ways.
  struct Between {
    uint64_t put = 0;    // messages to the other rank
    uint64_t taken = 0;  // messages of the other rank
    uint64_t told = 0;   // of these, those that it was told of
    RmaRequest* telling = nullptr;
    const uint64_t* acknowledgements = nullptr;
    std::vector<Message> messages;
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
  int channels() const { return shape_.ranks * shape_.contexts; }
  int otherOf(int channel) const { return channel / shape_.contexts; }
  int contextOf(int channel) const { return channel % shape_.contexts; }
  bool isUsed(const Rank& rank, int channel) const { return shape_.own || otherOf(channel) != rank.number; }
  // The channel of the other end, to this rank.
  std::size_t backOf(const Rank& rank, int channel) const {
    return static_cast<std::size_t>(rank.number * shape_.contexts + contextOf(channel));
  }
  // What the other rank of the channel has put to this one.
  uint64_t putBy(const Rank& rank, int channel) const {
    return ranks_[static_cast<std::size_t>(otherOf(channel))]->links[backOf(rank, channel)].put;
  }
  std::size_t placeAt(std::size_t channel, uint64_t number) const {
    return (channel * shape_.places + number % shape_.places) * words();
  }
  std::size_t placeAt(int channel, uint64_t number) const {
    return placeAt(static_cast<std::size_t>(channel), number);
  }
  static uint64_t load(const uint64_t& from) { return __atomic_load_n(&from, __ATOMIC_ACQUIRE); }
  // `to`: the target's channel.
  static uint64_t wordOf(int writer, std::size_t to, uint64_t number, std::size_t i) {
    uint64_t x = number * 0x9e3779b97f4a7c15 +
                 (static_cast<uint64_t>(writer) * 4096 + to) * 0xbf58476d1ce4e5b9 + i * 0x94d049bb133111eb;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    return (x ^ (x >> 27)) | 1;  // never that of a wiped place
  }
  void require(bool holds, const Rank& rank, int channel, const std::string& what) {
    if (!holds && problem_.empty())
      problem_ = "rank " + std::to_string(rank.number) + ", other rank " + std::to_string(otherOf(channel)) +
                 ", context " + std::to_string(contextOf(channel)) + ": " + what;
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
    for (auto& handle : handles) {
      if (on_the_way) on_the_way(static_cast<int>(pointers.size()), reinterpret_cast<char*>(handle.data()));
      pointers.push_back(handle.data());
    }
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
    const auto count = static_cast<std::size_t>(channels());
    rank.sources.resize(count * shape_.places * words());
    rank.targets.resize(rank.sources.size());
    if (shape_.gets) rank.got.resize(rank.sources.size());
    rank.signals.resize(count);
    rank.acknowledgements.resize(count);
    rank.links.resize(count);
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
    if (shape_.gets) {
      rank.read = add(rank.got);
      rank.facts.resize(rank.sources.size());
      for (std::size_t i = 0; i < rank.facts.size(); ++i) rank.facts[i] = wordOf(rank.number, kFacts, 0, i);
      rank.fact = add(rank.facts);
    }
    for (std::size_t channel = 0; channel < count; ++channel) {
      rank.links[channel].acknowledgements = &rank.acknowledgements[channel];
      rank.links[channel].messages.resize(shape_.places);
    }
  }

  void step(Rank& rank) {
    if (rank.context->failed()) return;
    (void)rank.context->progress();
    for (int channel = 0; channel < channels(); ++channel) {
      if (!isUsed(rank, channel)) continue;
      finish(rank, channel);
      take(rank, channel);
      put(rank, channel);
    }
  }
  bool test(Rank& rank, RmaRequest*& request) {
    if (request == nullptr) return true;
    int done = 0;
    (void)rank.group->test(*request, &done);
    if (done != 0) request = nullptr;
    return done != 0;
  }
  // Requests in their order; then the source is changed.
  void finish(Rank& rank, int channel) {
    Between& link = rank.links[static_cast<std::size_t>(channel)];
    (void)test(rank, link.telling);
    for (Message& message : link.messages) {
      if (message.number == 0) continue;
      if (message.got != nullptr && test(rank, message.got)) checkGot(rank, channel, message.number);
      if (message.first == nullptr && message.second == nullptr) continue;
      const bool first = test(rank, message.first);
      const bool second = test(rank, message.second);
      if (!first || !second) continue;
      std::memset(&rank.sources[placeAt(channel, message.number)], 0xee, shape_.bytes);
    }
  }
  void checkGot(Rank& rank, int channel, uint64_t number) {
    const std::size_t back = backOf(rank, channel);
    for (std::size_t i = 0; i < words(); ++i) {
      const uint64_t word = rank.got[placeAt(channel, number) + i];
      if (word != wordOf(otherOf(channel), kFacts, 0, placeAt(back, number) + i))
        require(false, rank, channel, "a get brought a wrong word");
    }
    std::memset(&rank.got[placeAt(channel, number)], 0x11, shape_.bytes);
  }
  void put(Rank& rank, int channel) {
    Between& link = rank.links[static_cast<std::size_t>(channel)];
    const uint64_t number = link.put + 1;
    if (number > goal_ || link.acknowledged() + shape_.places < number) return;
    Message& message = link.messages[number % shape_.places];
    if (message.first != nullptr || message.second != nullptr || message.got != nullptr) return;
    const std::size_t at = placeAt(channel, number);
    const std::size_t back = backOf(rank, channel);
    for (std::size_t i = 0; i < words(); ++i) rank.sources[at + i] = wordOf(rank.number, back, number, i);
    const std::size_t there = placeAt(back, number);
    const int context = contextOf(channel);
    const auto to = static_cast<uint32_t>(otherOf(channel));
    std::size_t begin = 0;
    Status status;
    if (number % 3 == 1) {  // its first half goes before, or all but a word, which takes one path only
      begin = number % 2 == 0 ? shape_.bytes / 2 / 8 * 8 : shape_.bytes - 8;
      status = rank.context->put(context, {rank.source, at * 8}, begin, {rank.target, there * 8}, to,
                                 &message.first);
    }
    if (status.ok() && shape_.gets && number % 4 == 0)
      status = rank.context->get(context, {rank.fact, there * 8}, shape_.bytes, {rank.read, at * 8}, to,
                                 &message.got);
    const RmaSignal signal = {{rank.signal, back * 8}, 1};
    if (status.ok())
      status = rank.context->putSignal(context, {rank.source, at * 8 + begin}, shape_.bytes - begin,
                                       {rank.target, there * 8 + begin}, to, signal, &message.second);
    if (!status.ok()) {
      require(rank.context->failed(), rank, channel, "a put is refused, and its group goes on");
      return;
    }
    link.put = number;
    message.number = number;
  }
  bool isWiped(const Rank& rank, int channel, uint64_t place) const {
    for (std::size_t i = 0; i < words(); ++i) {
      if (load(rank.targets[placeAt(channel, place) + i]) != 0) return false;
    }
    return true;
  }
  void take(Rank& rank, int channel) {
    Between& link = rank.links[static_cast<std::size_t>(channel)];
    const uint64_t come = load(rank.signals[static_cast<std::size_t>(channel)]);
    if (come > putBy(rank, channel))
      require(false, rank, channel,
              "a signal of " + std::to_string(come) + ", where " + std::to_string(putBy(rank, channel)) +
                  " is the most that was put");
    while (link.taken < come) {
      const uint64_t number = ++link.taken;
      ++taken_;
      for (std::size_t i = 0; i < words(); ++i) {
        uint64_t& word = rank.targets[placeAt(channel, number) + i];
        if (load(word) != wordOf(otherOf(channel), static_cast<std::size_t>(channel), number, i))
          require(false, rank, channel,
                  "message " + std::to_string(number) + " has a wrong word " + std::to_string(i));
        __atomic_store_n(&word, 0, __ATOMIC_RELAXED);
      }
    }
    if (link.telling != nullptr || link.told == link.taken) return;
    const RmaSignal signal = {{rank.acknowledgement, backOf(rank, channel) * 8}, link.taken - link.told};
    const auto to = static_cast<uint32_t>(otherOf(channel));
    if (rank.context->putSignal(contextOf(channel), {}, 0, {}, to, signal, &link.telling).ok())
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
