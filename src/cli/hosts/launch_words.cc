#include "cli/hosts/launch_words.h"

#include <sstream>
#include <string_view>

namespace railwise::cli {

std::vector<std::string> launchWords(const std::string& launch, const std::string& host,
                                     const std::vector<std::string>& program) {
  constexpr std::string_view kPlace = "{host}";
  std::vector<std::string> words;
  bool placed = launch.empty();
  std::istringstream all(launch);
  for (std::string word; all >> word;) {
    for (std::size_t at = word.find(kPlace); at != std::string::npos;
         at = word.find(kPlace, at + host.size())) {
      word.replace(at, kPlace.size(), host);
      placed = true;
    }
    words.push_back(word);
  }
  if (!placed) words.push_back(host);
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

}  // namespace railwise::cli
