// The name of this host, and whether a name means this host. Thread-safe as long as no thread changes the
// environment.
#pragma once

#include <string>

namespace railwise::cli {

// RAILWISE_HOST, else the name of this computer.
std::string nameOfThisHost();
bool isThisHost(const std::string& host);

}  // namespace railwise::cli
