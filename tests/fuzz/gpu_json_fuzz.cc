// Arbitrary bytes as the answers of GPUs' libraries in a recording. Whatever is accepted must be usable: it
// is made safe, completed from a machine, and written and read again.
#include <cstdlib>
#include <string>

#include "gpu/json.h"

namespace {

constexpr char kStart[] =
    R"({"schema": "railwise-gpus", "schema_version": 1, "gpus": [{"index": 0, "busid": "0000:01:00.0", "sm": 90,)"
    R"( "health": {"throttled": true}}, {"index": 1, "parent": 0, "share": 0.5}],)"
    R"( "links": [{"from": 0, "to": 1, "kind": "NVLink", "latency": "direct", "width": 4, "gb_per_s": 100}],)"
    R"( "peers": [{"from": 1, "to": 0, "allowed": false}], "nics": [{"gpu": 0, "name": "a", "type": "PIX"}]})";

void use(std::string_view text) {
  auto read = railwise::gpu::parseJson(text);
  if (!read.ok()) return;
  railwise::gpu::sanitize(*read, "fuzz");
  const std::string written = railwise::gpu::jsonOf(*read);
  const auto again = railwise::gpu::parseJson(written);
  if (!again.ok() || railwise::gpu::jsonOf(*again) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  use(bytes);
  // The same bytes over a document that is right, at a place that they choose.
  if (size < 2) return 0;
  std::string changed = kStart;
  const std::size_t at = (data[0] * 256u + data[1]) % changed.size();
  changed.replace(at, std::min(size - 2, changed.size() - at), bytes.substr(2));
  use(changed);
  return 0;
}
