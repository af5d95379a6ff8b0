// Arbitrary text as a fault rule; what is accepted must come back from its own text.
#include <cstdlib>
#include <string>

#include "softdev/config/fault_rule.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace railwise::softdev;
  FaultRule rule;
  std::string error;
  if (!parseFaultRule({reinterpret_cast<const char*>(data), size}, &rule, &error)) {
    if (error.empty()) std::abort();
    return 0;
  }
  FaultRule again;
  const std::string text = faultRuleText(rule);
  if (!parseFaultRule(text, &again, &error) || faultRuleText(again) != text) std::abort();
  return 0;
}
