#include "cli/command.h"

int main(int argc, char** argv) {
  const auto count = static_cast<std::size_t>(argc > 0 ? argc - 1 : 0);
  return railwise::tools::runCommand({argv + 1, count});
}
