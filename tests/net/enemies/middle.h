// A man in the middle: takes the calls to a listener, passes the bytes on in both directions, and lets a test
// change them. A thread of its own moves the bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/wireup/authentication.h"
#include "net/wireup/frames.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

enum class From : uint8_t { kConnector, kListener };

// Where some bytes stand: `at` counts the bytes of this direction of this call. Calls count from 1.
struct Place {
  From from;
  int call;
  uint64_t at;
};

class Middle {
 public:
  // May change the bytes. False: both ends are cut off, after these bytes.
  using Mischief = std::function<bool(const Place& place, std::string& bytes)>;

  explicit Middle(Mischief mischief);
  ~Middle();
  Middle(const Middle&) = delete;
  Middle& operator=(const Middle&) = delete;

  // From now on `handle` leads to this object, and from here to where it has led.
  void stepBetween(char* handle);
  // Cuts all calls now. `reset`: the ends see a reset, not an end.
  void cut(bool reset);
  // The handle as the listener wrote it.
  const ListenHandle& handle() const { return handle_; }
  int calls() const { return calls_; }
  // Everything that one end has said in a call, before it was changed.
  std::string said(From from, int call) const;

 private:
  struct Call {
    Socket ends[2];  // by From: where these bytes come from
    std::string waiting[2];
    std::string said[2];
    uint64_t at[2] = {0, 0};
    bool over = false;
  };
  void run();
  bool take();
  bool pass(Call& call, int number, From from);

  const Mischief mischief_;
  ListenHandle handle_ = {};
  std::vector<SocketAddress> target_;
  Socket socket_;
  std::atomic<int> calls_ = 0;
  mutable std::mutex mutex_;  // guards the next member and target_
  std::vector<std::unique_ptr<Call>> all_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// ---- what somebody may do

inline bool harmless(const Place&, std::string&) { return true; }

// A place in what one end says.
struct Spot {
  From from;
  uint64_t at;
};
void PrintTo(const Spot& spot, std::ostream* to);

// Changes one byte of the first `calls` calls.
Middle::Mischief changeByte(From from, uint64_t at, int calls = 1);
// Cuts the first call off in front of a byte.
Middle::Mischief cutBefore(From from, uint64_t at);

// What each end says before the frames of the side channel.
inline constexpr uint64_t kSaidByConnector = sizeof(ConnectRequest) + sizeof(ConnectReady);
inline constexpr uint64_t kSaidByListener = sizeof(ConnectReply);
inline constexpr std::size_t kSpotsOfReady[] = {0, offsetof(ConnectReady, accepted),
                                                sizeof(ConnectReady) - 1};
constexpr uint64_t firstFrame(From from) {
  return from == From::kConnector ? kSaidByConnector : kSaidByListener;
}

// What somebody does with the first frame of an end. More frames follow it, else leaving one out would only
// look like a slow peer.
struct Trick {
  const char* name;
  // `turn`: 0 for the bytes that the first frame is in, 1 for the next ones.
  void (*play)(int turn, std::string& bytes, std::string& kept);
};
void PrintTo(const Trick& trick, std::ostream* to);
std::vector<Trick> allTricks();
Middle::Mischief playTrick(From from, const Trick& trick);

}  // namespace railwise::net
