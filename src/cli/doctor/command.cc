// railwise doctor: decides which of its kinds the options ask for.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "cli/doctor/commands.h"
#include "cli/options/message.h"

namespace railwise::cli {
namespace {

constexpr const char* kDoctorHelp =
    "usage: railwise doctor --pair [HOST] [options]    NIC pairs of two hosts, measured\n"
    "       railwise doctor --hosts FILE [options]     NIC pairs of many hosts\n\n"
    "railwise doctor --pair --help lists the options.\n";

bool asksForPairs(std::string_view arg) {
  return arg.starts_with("--pair") || arg == "--hosts" || arg.starts_with("--hosts=");
}

}  // namespace

int doctorCommand(Args args) {
  if (std::any_of(args.begin(), args.end(), [](const char* arg) { return asksForPairs(arg); }))
    return doctorPairCommand(args);
  const bool help =
      args.size() == 1 && (std::string_view(args[0]) == "--help" || std::string_view(args[0]) == "-h");
  if (!help) {
    say("doctor: what to look at? --pair [HOST] or --hosts FILE");
    return kExitUsage;
  }
  std::fputs(kDoctorHelp, stdout);
  return kExitOk;
}

}  // namespace railwise::cli
