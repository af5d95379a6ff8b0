// Arbitrary bytes as a file of overrides, and questions to a tuner that has it.
#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "tuner/tuner.h"

namespace {

using namespace railwise::tuner;  // NOLINT: a fuzzer names nothing else

class Odd final : public Offers {
 public:
  bool has(Algorithm algorithm, Protocol) const override { return static_cast<int>(algorithm) % 2 == 1; }
  std::optional<Choice> own() const override { return std::nullopt; }
};

void silent(int, unsigned long, const char*, int, const char*, ...) {}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  railwise::log::setSink(silent);
  const OverrideFile file = parseOverrides({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!file.mistakes.empty() && !file.overrides.empty()) std::abort();
  for (const std::string& mistake : file.mistakes) {
    if (!mistake.starts_with("fuzz:")) std::abort();
    for (const char c : mistake)
      if (c < ' ' || c > '~') std::abort();
  }
  Tuner tuner(file, 16, 2);
  for (const Override& row : file.overrides) {
    if (row.channels != kAny && (row.channels < 1 || row.channels > 64)) std::abort();
    const Override* const chosen = tuner.choose({row.collective, row.max_bytes, 1, true}, Odd());
    if (chosen != nullptr && !Odd().has(chosen->algorithm, chosen->protocol)) std::abort();
  }
  return 0;
}
