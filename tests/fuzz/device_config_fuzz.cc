// Arbitrary text as RAILWISE_DEVICE=software:TEXT.
#include <string>

#include "base/log.h"
#include "softdev/softdev.h"

namespace {

void discard(int, unsigned long, const char*, int, const char*, ...) {}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  railwise::log::setSink(discard);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!text.empty() && (text[0] == '/' || text[0] == '.' || text[0] == '@')) return 0;  // would read files
  (void)railwise::softdev::configure(text.c_str());
  return 0;
}
