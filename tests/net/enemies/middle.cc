#include "net/enemies/middle.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "net/tcp.h"

namespace railwise::net {

using test::loopback;

Middle::Middle(Mischief mischief) : mischief_(std::move(mischief)) {
  Result<Socket> socket = Socket::listen(loopback(0), 128);
  if (!socket.ok()) throw std::runtime_error("a proxy cannot listen");
  socket_ = std::move(*socket);
  thread_ = std::thread([this] { run(); });
}

Middle::~Middle() {
  stop_ = true;
  thread_.join();
}

void Middle::stepBetween(char* handle) {
  const std::lock_guard lock(mutex_);
  std::memcpy(&handle_, handle, sizeof handle_);
  target_ = handleAddresses(handle_);
  ListenHandle changed = handle_;
  const SocketAddress own[] = {loopback(0)};
  setHandleAddresses(changed, own, socket_.localAddress().port());
  std::memcpy(handle, &changed, sizeof changed);
}

std::string Middle::said(From from, int call) const {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(call - 1);
  return index < all_.size() ? all_[index]->said[static_cast<int>(from)] : "";
}

void Middle::cut(bool reset) {
  const std::lock_guard lock(mutex_);
  for (const auto& call : all_) {
    call->over = true;
    for (Socket& end : call->ends) {
      const linger at_once = {1, 0};
      if (reset && end.valid()) (void)setsockopt(end.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      end.close();
    }
  }
}

void Middle::run() {
  while (!stop_) {
    bool moved = false;
    {
      const std::lock_guard lock(mutex_);
      moved = take();
      for (std::size_t i = 0; i < all_.size(); ++i) {
        for (const From from : {From::kConnector, From::kListener})
          moved = pass(*all_[i], static_cast<int>(i) + 1, from) || moved;
      }
    }
    if (!moved) usleep(50);
  }
}

// A new call. False: there is none.
bool Middle::take() {
  Result<Socket> caller = socket_.accept();
  if (!caller.ok() || !caller->valid() || target_.empty()) return false;
  Result<Socket> called = Socket::connect(target_.front());
  if (!called.ok()) return false;
  auto call = std::make_unique<Call>();
  call->ends[static_cast<int>(From::kConnector)] = std::move(*caller);
  call->ends[static_cast<int>(From::kListener)] = std::move(*called);
  all_.push_back(std::move(call));
  ++calls_;
  return true;
}

// Moves what there is in one direction. False: nothing.
bool Middle::pass(Call& call, int number, From from) {
  if (call.over) return false;
  const int index = static_cast<int>(from);
  Socket& source = call.ends[index];
  Socket& target = call.ends[1 - index];
  const Result<Io> connected = target.connected();  // once: it may fail the next time
  if (connected.ok() && *connected == Io::kAgain) return false;
  std::array<std::byte, 4096> room;
  Transfer heard = {room, 0};
  const Result<Io> got = source.receive(heard);
  bool goes_on = got.ok() && *got != Io::kClosed;
  if (heard.moved > 0) {
    std::string bytes(reinterpret_cast<const char*>(room.data()), heard.moved);
    call.said[index] += bytes;
    goes_on = mischief_({from, number, call.at[index]}, bytes) && goes_on;
    call.at[index] += heard.moved;
    call.waiting[index] += bytes;
  }
  std::string& waiting = call.waiting[index];
  Transfer rest = {std::as_writable_bytes(std::span(waiting.data(), waiting.size())), 0};
  if (!waiting.empty()) {
    const Result<Io> sent = target.send(rest);
    goes_on = goes_on && sent.ok() && *sent != Io::kClosed;
    waiting.erase(0, rest.moved);
  }
  if (!goes_on) {
    call.over = true;
    for (Socket& end : call.ends) end.close();
  }
  return heard.moved > 0 || rest.moved > 0;
}

Middle::Mischief changeByte(From from, uint64_t at, int calls) {
  return [=](const Place& place, std::string& bytes) {
    if (place.from == from && place.call <= calls && place.at <= at && at < place.at + bytes.size())
      bytes[at - place.at] = static_cast<char>(bytes[at - place.at] ^ 0x41);
    return true;
  };
}

Middle::Mischief cutBefore(From from, uint64_t at) {
  return [=](const Place& place, std::string& bytes) {
    const bool here = place.from == from && place.call == 1 && at < place.at + bytes.size();
    if (here) bytes.resize(at > place.at ? at - place.at : 0);
    return !here;
  };
}

void PrintTo(const Spot& spot, std::ostream* to) {
  *to << (spot.from == From::kConnector ? "connector " : "listener ") << spot.at;
}
void PrintTo(const Trick& trick, std::ostream* to) { *to << trick.name; }

namespace {

// The first frame in `bytes`, with its seal, which is taken out.
std::string takeFrame(std::string& bytes) {
  MessageHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t length = frameBytes(header.type) + sizeof(FrameSeal);
  std::string frame = bytes.substr(0, length);
  bytes.erase(0, length);
  return frame;
}

}  // namespace

std::vector<Trick> allTricks() {
  return {
      {"repeat",
       [](int turn, std::string& bytes, std::string&) {
         if (turn == 0) bytes += bytes;
       }},
      {"swap",
       [](int turn, std::string& bytes, std::string& kept) {
         if (turn == 0) kept = takeFrame(bytes);
         if (!bytes.empty()) bytes += std::exchange(kept, "");
       }},
      {"drop",
       [](int turn, std::string& bytes, std::string&) {
         if (turn == 0) (void)takeFrame(bytes);
       }},
      {"add",
       [](int turn, std::string& bytes, std::string&) {
         if (turn == 0) bytes.insert(0, 48, 'x');
       }},
  };
}

Middle::Mischief playTrick(From from, const Trick& trick) {
  struct Played {
    int turn = 0;
    std::string kept;
  };
  return [from, trick, played = std::make_shared<Played>()](const Place& place, std::string& bytes) {
    if (place.from == from && place.call == 1 && place.at >= firstFrame(from) && played->turn < 2)
      trick.play(played->turn++, bytes, played->kept);
    return true;
  };
}

}  // namespace railwise::net
