// railwise doctor: dispatches to what it looks at.
#include <algorithm>
#include <string_view>

#include "cli/doctor/commands.h"
#include "cli/options/message.h"

namespace railwise::cli {

int doctorCommand(Args args) {
  const auto log = std::find_if(args.begin(), args.end(),
                                [](const char* arg) { return std::string_view(arg) == "--log"; });
  if (log == args.end() && !args.empty() && std::string_view(args[0]) != "--help" &&
      std::string_view(args[0]) != "-h")
    return say("doctor: which logs? railwise doctor --log FILE..."), kExitUsage;
  std::vector<const char*> rest(args.begin(), args.end());
  std::erase_if(rest, [](const char* arg) { return std::string_view(arg) == "--log"; });
  return doctorLogCommand(rest);
}

}  // namespace railwise::cli
