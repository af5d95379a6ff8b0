// Serves pages over HTTP to a few clients: a monitoring system, a person with a browser. One thread, which
// never waits for a client: clients that are slow, silent or hostile cost a bounded amount of memory and are
// sent away.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/outcome.h"
#include "base/socket.h"

namespace railwise::cli {

// Reads a request of HTTP/1 from what a client has sent. Pure functions, any thread.

// The most bytes of a request: its line and its fields.
inline constexpr std::size_t kMostRequestBytes = 8192;

struct HttpRequest {
  enum class State { kIncomplete, kWhole, kWrong };
  State state = State::kIncomplete;
  int status = 0;          // kWrong: the status to answer
  std::size_t length = 0;  // kWhole: the request's bytes
  bool head = false;       // HEAD: the answer has no body
  bool close = false;      // the connection ends after the answer
  std::string path;        // of the target, without the query
};

// Reads the request at the start of `text`.
HttpRequest readRequest(std::string_view text);

// The answer to a request. `status`: 200, 400, 404, 405, 431, 503 or 505.
struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};
std::string answerText(const HttpAnswer& answer, bool head, bool close);

// "ADDR:PORT", "[IPV6]:PORT" or ":PORT", which is all addresses. Port 0: the kernel chooses.
Outcome<SocketAddress> parseListenAddress(const std::string& text);

// Blocks SIGTERM and SIGINT, and returns a descriptor that is readable once one of them has come. -1: there
// is none.
int endSignals();

class HttpServer {
 public:
  // Answers a request by the path of its target.
  using Pages = std::function<HttpAnswer(const std::string& path)>;

  // The error names the address.
  static Outcome<HttpServer> create(const std::string& address, Pages pages);

  SocketAddress address() const { return listener_.localAddress(); }

  // Serves until `until`, or until `stop_fd` is readable. True: `stop_fd` is.
  bool serve(int stop_fd, Clock::time_point until);

 private:
  struct Client {
    Socket socket;
    Clock::time_point deadline;
    std::string in;
    std::string out;
    std::size_t sent = 0;
    bool closing = false;  // after `out` the connection ends
    bool drained = false;  // `out` is sent, and the client has been told: what it still sends is dropped
  };

  HttpServer(Socket listener, Pages pages) : listener_(std::move(listener)), pages_(std::move(pages)) {}
  // Takes a client that waits. False: it cannot be taken now, and still waits.
  bool accept();
  // Moves bytes and answers. False: the connection ends.
  bool advance(Client& client);
  bool receive(Client& client);
  void answer(Client& client);

  Socket listener_;
  Pages pages_;
  std::list<Client> clients_;  // whose turn was longest ago, first
};

}  // namespace railwise::cli
