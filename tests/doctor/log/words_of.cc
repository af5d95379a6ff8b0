// Says which check each warning falls into: reads lines "SOURCE<tab>TEXT", and writes the check of each with
// a
// '-' behind it where the explanation has nothing to type.
#include <iostream>
#include <string>

#include "doctor/log/job.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) return 1;
    const auto known = railwise::doctor::explainWarning(line.substr(0, tab), line.substr(tab + 1));
    std::cout << known.check << (known.fix.empty() && known.isError() ? "-" : "") << "\n";
  }
  return 0;
}
