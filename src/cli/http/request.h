// Reads a request of HTTP/1 from what a client has sent. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace railwise::cli {

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

}  // namespace railwise::cli
