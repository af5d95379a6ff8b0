#include "cli/hosts/host_file.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace railwise::cli {
namespace {

constexpr std::size_t kMaxName = 255;
constexpr std::string_view kBlanks = " \t\r\f\v";

std::string_view firstWord(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const std::size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin);
  return line.substr(0, line.find_first_of(kBlanks));
}

}  // namespace

bool isHostName(std::string_view name) {
  if (name.empty() || name.size() > kMaxName || name[0] == '-') return false;
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_' || c == ':' ||
           c == '@';
  };
  return std::all_of(name.begin(), name.end(), allowed) && std::count(name.begin(), name.end(), '@') <= 1;
}

Outcome<std::vector<std::string>> parseHostFile(std::string_view text, const std::string& file,
                                                std::size_t most) {
  std::vector<std::string> hosts;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string host(firstWord(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (host.empty()) continue;
    const std::string place = file + ":" + std::to_string(number) + ": ";
    if (!isHostName(host))
      return Error{place + "'" + host.substr(0, 80) +
                   "' is not the name of a host (letters, digits, . - _ : @)"};
    if (std::find(hosts.begin(), hosts.end(), host) != hosts.end())
      return Error{place + host + " is there twice: take one of the lines out"};
    if (hosts.size() == most)
      return Error{place + "more than " + std::to_string(most) + " hosts: take them in parts"};
    hosts.push_back(host);
  }
  if (hosts.empty()) return Error{file + ": no host in it; write one host per line"};
  return hosts;
}

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
