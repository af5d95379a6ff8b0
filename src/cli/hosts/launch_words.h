// The command line that starts a program on another host. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

namespace railwise::cli {

inline constexpr const char* kDefaultLaunch = "ssh -o BatchMode=yes -o ConnectTimeout=10";

// `launch`: "ssh -o BatchMode=yes {host}"; a launch without "{host}" gets the host as its last word. "": on
// this machine. `program`: the program and its arguments.
std::vector<std::string> launchWords(const std::string& launch, const std::string& host,
                                     const std::vector<std::string>& program);

}  // namespace railwise::cli
