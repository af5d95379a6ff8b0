#include "cli/hosts/this_host.h"

#include <unistd.h>

#include <cstdlib>

namespace railwise::cli {

std::string nameOfThisHost() {
  if (const char* played = std::getenv("RAILWISE_HOST"); played != nullptr && *played != '\0') return played;
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  return host;
}

bool isThisHost(const std::string& host) {
  const std::string own = nameOfThisHost();
  const auto head = [](const std::string& name) { return name.substr(0, name.find('.')); };
  return host == "localhost" || host == own || head(host) == head(own);
}

}  // namespace railwise::cli
