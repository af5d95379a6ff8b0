// One connection of the random transfers: both of its ends, and the groups of messages that are on their way.
// What is sent follows from one seed (plan.h), the order of the calls from another.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "plugin/api.h"
#include "plugin/random_transfers/plan.h"
#include "plugin/random_transfers/slab.h"

namespace railwise::test {

struct Counts {
  uint64_t messages = 0, bytes = 0, groups = 0, silent = 0, flushed = 0, shortened = 0;
};

inline void must(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) throw Wrong{std::string(call) + " answered " + std::to_string(result)};
}

template <typename A>
class Flow {
 public:
  // What the flows of a process share. `source`: random bytes, twice the largest message.
  struct Shared {
    Pages& source;
    Slab& slab;
    Counts& counts;
    Abilities abilities;
  };

  Flow(const Shared& shared, void* send, void* receive, uint64_t seed, uint64_t messages)
      : shared_(shared), send_(send), receive_(receive), plan_(seed), left_(messages) {
    must(A::regMr(send_, source(0), shared_.source.bytes(), &source_handle_), "regMr of the source");
    must(A::regMr(receive_, shared_.slab.data(), shared_.slab.bytes(), &slab_handle_), "regMr of the slab");
    must(A::regMr(receive_, shared_.slab.data(), shared_.slab.bytes(), &device_handle_, NCCL_PTR_CUDA),
         "regMr of the slab as GPU memory");
  }
  ~Flow() = default;
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  bool finished() const { return left_ == 0 && groups_.empty(); }

  // Makes one call, chosen by chance; false when it brought nothing.
  bool step(softdev::Random& dice) {
    if (dice.below(200) == 0) changePace(dice);
    switch (dice.below(4)) {
      case 0:
        return outstanding_ < window_ && postReceive();
      case 1:
        return testSend(dice);
      case 2:
        return testReceive(dice);
      default:
        return send_pace_ > 0 && dice.below(static_cast<uint64_t>(send_pace_)) == 0 && postSend();
    }
  }

  void close(bool sender_first) {
    must(A::table().deregMr(send_, source_handle_), "deregMr");
    must(A::table().deregMr(receive_, slab_handle_), "deregMr");
    must(A::table().deregMr(receive_, device_handle_), "deregMr");
    if (sender_first) must(A::table().closeSend(send_), "closeSend");
    must(A::table().closeRecv(receive_), "closeRecv");
    if (!sender_first) must(A::table().closeSend(send_), "closeSend");
  }

  // For the report of a failure.
  std::string state() const {
    std::string text = std::to_string(left_) + " messages to plan, " + std::to_string(groups_.size()) +
                       " groups on their way, " + std::to_string(outstanding_) + " receives and " +
                       std::to_string(sends_.size()) + " sends outstanding";
    if (groups_.empty()) return text;
    text += "; oldest:";
    for (std::size_t i = 0; i < std::min<std::size_t>(groups_.size(), 3); ++i) text += describe(*groups_[i]);
    return text;
  }

 private:
  struct Group : PlannedGroup {
    uint64_t number = 0;
    std::array<char*, 8> place = {};
    std::array<void*, 8> handle = {};  // registered for just this message; null: the slab's
    void* request = nullptr;           // of the receive, then of its flush
    std::size_t sent = 0;              // of send_order
    std::size_t sends_done = 0;
    bool posted = false;
    bool received = false;
    bool flushed = false;
    bool over() const { return received && flushed && sends_done == messages.size(); }
  };
  struct Send {
    Group* group;
    std::size_t message;
    void* request;
    void* handle;  // registered for just this message; or null
  };

  char* source(std::size_t offset) const { return shared_.source.data() + offset; }

  std::string describe(const Group& group) const {
    std::string text = " group " + std::to_string(group.number) + (group.silent ? " (silent)" : "") + " [";
    for (const PlannedMessage& message : group.messages)
      text += std::to_string(message.bytes) + "/" + std::to_string(message.room) + " tag " +
              std::to_string(message.tag) + (&message == &group.messages.back() ? "" : ", ");
    return text + "]" + (group.posted ? " posted" : "") + (group.received ? " received" : "") + " " +
           std::to_string(group.sent) + " sends begun, " + std::to_string(group.sends_done) + " done";
  }

  // Sometimes one side hurries ahead of the other, and sometimes many receives are outstanding.
  void changePace(softdev::Random& dice) {
    window_ = 1 + dice.below(dice.below(2) == 0 ? 4 : 32);
    send_pace_ = static_cast<int>(1 + dice.below(dice.below(4) == 0 ? 40 : 2));
  }

  Group* planned(uint64_t number) {
    while (left_ > 0 && next_number_ <= number) {
      auto group = std::make_unique<Group>();
      static_cast<PlannedGroup&>(*group) = planGroup(plan_, left_, shared_.abilities);
      group->number = next_number_++;
      group->flushed = !group->flush;
      left_ -= group->messages.size();
      groups_.push_back(std::move(group));
    }
    if (groups_.empty() || number < groups_.front()->number || number >= next_number_) return nullptr;
    return groups_[number - groups_.front()->number].get();
  }

  bool place(Group& group) {
    if (group.place[0] != nullptr) return true;
    for (std::size_t i = 0; i < group.messages.size(); ++i) {
      group.place[i] = shared_.slab.take(plan_places_, group.messages[i].room);
      if (group.place[i] != nullptr) continue;
      while (i-- > 0) shared_.slab.give(group.place[i]);
      group.place.fill(nullptr);
      return false;
    }
    for (std::size_t i = 0; i < group.messages.size(); ++i) {
      const PlannedMessage& message = group.messages[i];
      Slab::prepare(group.place[i], message.room, message.bytes, source(message.source));
      if (!message.own_registration || message.room == 0) continue;
      must(A::regMr(receive_, group.place[i], message.room, &group.handle[i]), "regMr of a receive");
    }
    return true;
  }

  bool postReceive() {
    Group* const group = planned(to_post_);
    if (group == nullptr || !place(*group)) return false;
    std::vector<typename A::Buffer> buffers;
    void* const whole = group->flush ? device_handle_ : slab_handle_;
    for (std::size_t i = 0; i < group->messages.size(); ++i) {
      const PlannedMessage& message = group->messages[i];
      void* const handle = group->handle[i] != nullptr ? group->handle[i] : whole;
      buffers.push_back({group->place[i], message.room, message.tag, message.room > 0 ? handle : nullptr});
    }
    void* const on_entry =
        group->silent ? reinterpret_cast<void*>(NCCL_NET_OPTIONAL_RECV_COMPLETION) : kStale;
    void* request = on_entry;
    must(A::irecv(receive_, buffers, &request), "irecv");
    if (request == on_entry) throw Wrong{"irecv left the request as it was:" + describe(*group)};
    if (request == nullptr) return false;
    group->request = request;
    group->posted = true;
    ++to_post_;
    ++outstanding_;
    return true;
  }

  bool postSend() {
    Group* const group = planned(to_send_);
    if (group == nullptr) return false;
    const std::size_t index = group->send_order[group->sent];
    const PlannedMessage& message = group->messages[index];
    char* const data = source(message.source);
    if (message.own_registration && message.bytes > 0 && next_handle_ == nullptr)
      must(A::regMr(send_, data, message.bytes, &next_handle_), "regMr of a send");
    void* const handle = next_handle_ != nullptr ? next_handle_ : source_handle_;
    void* request = kStale;
    must(A::isend(send_, data, message.bytes, message.tag, message.bytes > 0 ? handle : nullptr, &request),
         "isend");
    if (request == kStale) throw Wrong{"isend left the request as it was"};
    if (request == nullptr) return false;
    if (!group->posted) throw Wrong{"a send found a receive that was never posted:" + describe(*group)};
    sends_.push_back({group, index, request, std::exchange(next_handle_, nullptr)});
    if (++group->sent == group->messages.size()) ++to_send_;
    return true;
  }

  bool testSend(softdev::Random& dice) {
    if (sends_.empty()) return false;
    const std::size_t index = dice.below(sends_.size());
    const Send send = sends_[index];
    const PlannedMessage& message = send.group->messages[send.message];
    int size = kUnwritten;
    const bool asks = dice.below(8) != 0;
    if (!test(send.request, asks ? &size : nullptr)) return false;
    if (asks && size != static_cast<int>(message.bytes))
      throw Wrong{"a send of " + std::to_string(message.bytes) + " bytes reports " + std::to_string(size)};
    if (send.handle != nullptr) must(A::table().deregMr(send_, send.handle), "deregMr of a send");
    sends_[index] = sends_.back();
    sends_.pop_back();
    ++send.group->sends_done;
    // Of a silent receive only the sender knows that it has all its data.
    if (send.group->silent) checkMessage(*send.group, send.message);
    retire();
    return true;
  }

  bool testReceive(softdev::Random& dice) {
    const std::size_t posted = static_cast<std::size_t>(to_post_ - firstNumber());
    if (posted == 0) return false;
    Group& group = *groups_[dice.below(std::min<std::size_t>(posted, groups_.size()))];
    if (group.request == nullptr) return false;
    if (group.received) return testFlush(group);
    std::array<int, 9> sizes;
    sizes.fill(kUnwritten);
    const bool asks = dice.below(8) != 0;
    if (!test(group.request, asks ? sizes.data() : nullptr)) return false;
    group.request = nullptr;
    group.received = true;
    --outstanding_;
    if (asks) checkSizes(group, sizes);
    for (std::size_t i = 0; i < group.messages.size() && !group.silent; ++i) checkMessage(group, i);
    if (group.flush) startFlush(group);
    retire();
    return true;
  }

  static bool test(void* request, int* sizes) {
    int done = kUnwritten;
    must(A::table().test(request, &done, sizes), "test");
    if (done == kUnwritten) throw Wrong{"test did not say whether the request is done"};
    return done != 0;
  }

  void checkSizes(const Group& group, const std::array<int, 9>& sizes) const {
    const std::size_t count = group.messages.size();
    for (std::size_t i = 0; i < count && !group.silent; ++i) {
      if (sizes[i] != static_cast<int>(group.messages[i].bytes))
        throw Wrong{"size " + std::to_string(i) + " is reported as " + std::to_string(sizes[i]) + ":" +
                    describe(group)};
    }
    if (sizes[count] != kUnwritten) throw Wrong{"test wrote more sizes than receives:" + describe(group)};
  }

  void checkMessage(const Group& group, std::size_t index) const {
    const PlannedMessage& message = group.messages[index];
    const std::string wrong =
        Slab::check(group.place[index], message.room, message.bytes, source(message.source));
    if (!wrong.empty())
      throw Wrong{"message " + std::to_string(index) + ": " + wrong + ":" + describe(group)};
  }

  // NCCL flushes what it has received into GPU memory before a kernel may see it.
  void startFlush(Group& group) {
    std::vector<void*> data;
    std::vector<void*> handles;
    std::vector<int> sizes;
    for (std::size_t i = 0; i < group.messages.size(); ++i) {
      if (group.handle[i] != nullptr || group.messages[i].room == 0) continue;  // host memory, or none
      data.push_back(group.place[i]);
      handles.push_back(device_handle_);
      sizes.push_back(static_cast<int>(group.messages[i].bytes));
    }
    void* request = kStale;
    must(A::table().iflush(receive_, static_cast<int>(data.size()), data.data(), sizes.data(), handles.data(),
                           &request),
         "iflush");
    if (request == kStale) throw Wrong{"iflush left the request as it was"};
    group.request = request;
    group.flushed = request == nullptr;
    shared_.counts.flushed += request != nullptr ? 1 : 0;
  }

  bool testFlush(Group& group) {
    if (!test(group.request, nullptr)) return false;
    group.request = nullptr;
    group.flushed = true;
    retire();
    return true;
  }

  uint64_t firstNumber() const { return groups_.empty() ? next_number_ : groups_.front()->number; }

  void retire() {
    while (!groups_.empty() && groups_.front()->over()) {
      const Group& group = *groups_.front();
      for (std::size_t i = 0; i < group.messages.size(); ++i) {
        const PlannedMessage& message = group.messages[i];
        if (group.handle[i] != nullptr)
          must(A::table().deregMr(receive_, group.handle[i]), "deregMr of a receive");
        shared_.slab.give(group.place[i]);
        shared_.counts.bytes += message.bytes;
        shared_.counts.shortened += message.bytes < message.room ? 1 : 0;
      }
      shared_.counts.messages += group.messages.size();
      shared_.counts.groups += group.messages.size() > 1 ? 1 : 0;
      shared_.counts.silent += group.silent ? 1 : 0;
      groups_.pop_front();
    }
  }

  Shared shared_;
  void* send_;
  void* receive_;
  softdev::Random plan_;
  softdev::Random plan_places_{plan_.next()};
  uint64_t left_;  // messages not yet planned
  void* source_handle_ = nullptr;
  void* slab_handle_ = nullptr;
  void* device_handle_ = nullptr;
  std::deque<std::unique_ptr<Group>> groups_;  // in the order of the receives
  uint64_t next_number_ = 0;                   // of the next group that is planned
  uint64_t to_post_ = 0;                       // the group whose receive is next
  uint64_t to_send_ = 0;                       // the group whose sends are next
  std::size_t outstanding_ = 0;
  std::size_t window_ = 8;
  int send_pace_ = 1;
  void* next_handle_ = nullptr;  // registered for a send that has not found its receive yet
  std::vector<Send> sends_;
};

}  // namespace railwise::test
