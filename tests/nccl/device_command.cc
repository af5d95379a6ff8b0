// `railwise device` and `railwise devices` without the other subcommands.
#include <cstddef>
#include <cstdio>
#include <string_view>

#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"

namespace railwise::cli {
namespace {

int run(Args args) {
  const std::string_view name = args.empty() ? "" : args[0];
  if (name == "device") return deviceCommand(args.subspan(1));
  if (name == "devices") return devicesCommand(args.subspan(1));
  std::fprintf(stderr, "this build has only railwise device and railwise devices\n");
  return kExitUsage;
}

}  // namespace
}  // namespace railwise::cli

int main(int argc, char** argv) {
  const auto count = static_cast<std::size_t>(argc > 0 ? argc - 1 : 0);
  return railwise::cli::finishOutput(railwise::cli::run({argv + 1, count}));
}
