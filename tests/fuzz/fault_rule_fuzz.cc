// Arbitrary text as a fault rule; what is accepted must come back from its own text.
#include <cstdlib>
#include <string>

#include "softdev/config/fault_rule.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace railwise::softdev;
  const auto rule = parseFaultRule({reinterpret_cast<const char*>(data), size});
  if (!rule.ok()) {
    if (rule.error().empty()) std::abort();
    return 0;
  }
  const std::string text = faultRuleText(*rule);
  const auto again = parseFaultRule(text);
  if (!again.ok() || faultRuleText(*again) != text) std::abort();
  return 0;
}
