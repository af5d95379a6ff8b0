#include "base/status.h"

namespace railwise {

const char* codeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "success";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kInvalidUsage:
      return "invalid usage";
    case Code::kNoDevice:
      return "no device";
    case Code::kSystem:
      return "system error";
    case Code::kRemote:
      return "remote error";
    case Code::kInternal:
      return "internal error";
  }
  return "unknown";
}

}  // namespace railwise
