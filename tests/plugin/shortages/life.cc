#include "plugin/shortages/life.h"

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "plugin/api.h"

namespace railwise::test {
namespace {

using A = Api<12>;

constexpr std::size_t kBytes = 600'000;
constexpr std::size_t kSizes[] = {8, 4096, 0, 70'001, 512, kBytes, 1, 16'384};

class JobLife : Living {
 public:
  Life run() {
    try {
      start();
      for (int channel = 0; channel < 2; ++channel) connect(channel);
      for (Channel& channel : channels_) registerMemory(channel);
      for (int round = 0; round < 2; ++round)
        for (Channel& channel : channels_) transfer(channel, round);
    } catch (const Failure&) {
    }
    end();
    return life_;
  }

 private:
  struct Channel {
    Handle handle;
    void* listener = nullptr;
    void* send = nullptr;
    void* receive = nullptr;
    std::vector<char> from = std::vector<char>(kBytes), to = std::vector<char>(kBytes);
    void* from_handle = nullptr;
    void* to_handle = nullptr;
  };

  // `done` until it says so.
  void until(const char* what, const std::function<bool()>& done) {
    const auto limit = Clock::now() + kPatience;
    while (!done()) {
      if (Clock::now() > limit) wrong(std::string("no error and no end: ") + what);
    }
  }

  void start() {
    call("init", A::init(&context_));
    initialised_ = true;
    int count = 0;
    call("devices", A::table().devices(&count));
    if (count < 2) {
      life_.failed = "devices counts " + std::to_string(count);
      throw Failure{};
    }
    for (int device = 0; device < count; ++device) {
      A::Properties properties;
      call("getProperties", A::table().getProperties(device, &properties));
      flushes_ = (properties.ptrSupport & NCCL_PTR_CUDA) != 0;  // iWARP has none
    }
    ncclNetVDeviceProps_v12_t members = {};
    members.ndevs = 2;
    members.devs[1] = 1;
    call("makeVDevice", A::table().makeVDevice(&fused_, &members));
  }

  void connect(int index) {
    Channel& channel = channels_.emplace_back();
    const int device = index == 0 ? 0 : fused_;
    call("listen", A::listen(context_, device, channel.handle.bytes(), &channel.listener));
    until("connect and accept", [&] {
      if (channel.send == nullptr)
        call("connect", A::connect(context_, device, channel.handle.bytes(), &channel.send));
      if (channel.receive == nullptr) call("accept", A::accept(channel.listener, &channel.receive));
      return channel.send != nullptr && channel.receive != nullptr;
    });
  }

  void registerMemory(Channel& channel) {
    call("regMr", A::regMr(channel.send, channel.from.data(), kBytes, &channel.from_handle));
    call("regMr", A::regMr(channel.receive, channel.to.data(), kBytes, &channel.to_handle,
                           flushes_ ? NCCL_PTR_CUDA : NCCL_PTR_HOST));
  }

  void transfer(Channel& channel, int round) {
    int number = 0;
    for (const std::size_t bytes : kSizes) {
      const int seed = 10 * round + number++;
      for (std::size_t i = 0; i < bytes; ++i) channel.from[i] = Memory<A>::pattern(seed, i);
      void *receive = nullptr, *send = nullptr;
      call("irecv",
           A::irecv(channel.receive, {{channel.to.data(), bytes, seed, channel.to_handle}}, &receive));
      if (receive == nullptr) wrong("irecv took no receive");
      int sent = 0, received = 0, size = 0;
      const auto testReceive = [&] {
        if (received == 0) call("test of a receive", A::table().test(receive, &received, &size));
      };
      until("isend", [&] {
        call("isend", A::isend(channel.send, channel.from.data(), bytes, seed, channel.from_handle, &send));
        if (send == nullptr) testReceive();  // a connection without a path needs both ends
        return send != nullptr;
      });
      until("test", [&] {
        if (sent == 0) call("test of a send", A::table().test(send, &sent, nullptr));
        testReceive();
        return sent != 0 && received != 0;
      });
      flush(channel, bytes);
      if (size != static_cast<int>(bytes)) wrong("a receive reports a wrong size");
      for (std::size_t i = 0; i < bytes; ++i)
        if (channel.to[i] != Memory<A>::pattern(seed, i)) wrong("a byte is wrong");
    }
  }

  void flush(Channel& channel, std::size_t bytes) {
    void *data = channel.to.data(), *handle = channel.to_handle, *request = nullptr;
    int size = static_cast<int>(bytes), done = 0;
    call("iflush", A::table().iflush(channel.receive, 1, &data, &size, &handle, &request));
    if (request == nullptr) return;
    until("test of a flush", [&] {
      call("test of a flush", A::table().test(request, &done, nullptr));
      return done != 0;
    });
  }

  void end() {
    for (Channel& channel : channels_) {
      if (channel.from_handle != nullptr)
        must("deregMr", A::table().deregMr(channel.send, channel.from_handle));
      if (channel.to_handle != nullptr)
        must("deregMr", A::table().deregMr(channel.receive, channel.to_handle));
      if (channel.send != nullptr) must("closeSend", A::table().closeSend(channel.send));
      if (channel.receive != nullptr) must("closeRecv", A::table().closeRecv(channel.receive));
      if (channel.listener != nullptr) must("closeListen", A::table().closeListen(channel.listener));
    }
    if (initialised_) must("finalize", A::finalize(context_));
  }

  void* context_ = nullptr;
  bool initialised_ = false;
  bool flushes_ = false;
  int fused_ = -1;
  std::vector<Channel> channels_;
};

}  // namespace

Life live() { return JobLife().run(); }

}  // namespace railwise::test
