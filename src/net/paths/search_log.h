// What the log is told while connections look for another path. A port can take a thousand connections with
// it: so only few lines in a period are warnings, the others are information.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace railwise::net {

// Logs a warning, or information when this process has logged many such warnings recently. True: a warning.
// Any thread.
bool logLimited(const std::string& line);

// The search of one connection. One thread at a time. `title`: the connection in words.
class SearchLog {
 public:
  // The connection has lost a path: `what`.
  void lost(const std::string& title, const std::string& what);
  // Ends the search, with a line as loud as the one with which it began. False: nobody was told of a search.
  bool end(const std::string& title, std::string_view how);
  // Another line has told of its end.
  void forget() { told_ = Told::kNothing; }

 private:
  enum class Told : uint8_t { kNothing, kWarning, kInformation };
  Told told_ = Told::kNothing;
};

}  // namespace railwise::net
