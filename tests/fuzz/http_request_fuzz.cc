// Arbitrary bytes as what a client sends to `railwise metrics --listen`, all at once and byte by byte: the
// first answer does not depend on how the bytes arrive.
#include <cstdlib>
#include <string_view>

#include "cli/http/server.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  using railwise::cli::HttpRequest;
  using railwise::cli::readRequest;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const HttpRequest whole = readRequest(text);
  std::size_t length = 0;
  HttpRequest first = readRequest("");
  while (first.state == HttpRequest::State::kIncomplete && length < size)
    first = readRequest(text.substr(0, ++length));
  if (whole.state == HttpRequest::State::kWhole &&
      (whole.length == 0 || whole.length > size || whole.path.empty() || whole.path[0] != '/'))
    std::abort();
  if (whole.state != first.state || whole.length != first.length || whole.path != first.path) std::abort();
  return 0;
}
