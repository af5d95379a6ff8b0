// The shadow mode: what Railwise would have done where the plugin behind the spy reports an error. It knows
// the errors of the plugin's calls and what /sys says of the ports at that moment, and claims no more.
#pragma once

#include <string>
#include <vector>

#include "spy/connection.h"

namespace railwise::spy {

// A call on a connection of the device has failed. The first failure on each device is a line of the log.
// Reads files. Any thread.
void shadowFailure(const Device& device, const std::string& connection, const char* function,
                   ncclResult_t result);

// The lines that shadowFailure() has logged.
std::vector<std::string> shadowLines();

}  // namespace railwise::spy
