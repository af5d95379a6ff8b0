// A command that the demo runs. One thread.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace railwise::cli {

class DemoChild {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // `words`: arguments of this executable. The output of the command goes where ours goes, or is kept.
  enum class Output { kShown, kKept };
  DemoChild(const std::vector<std::string>& words, const Variables& variables, Output output);
  ~DemoChild();  // ends the command
  DemoChild(const DemoChild&) = delete;
  DemoChild& operator=(const DemoChild&) = delete;

  bool running();
  // Waits for the end of the command. Returns its exit status; 128 and more: a signal ended it.
  int wait();
  void end();                  // asks the command to end, and waits
  std::string output() const;  // what it has written so far, if that is kept

 private:
  pid_t pid_ = -1;
  int status_ = 127;
  std::FILE* kept_ = nullptr;
};

}  // namespace railwise::cli
