// Runs a test in a child process. Tests need that if they leave a device open that nobody can close.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "tests/wait.h"

namespace railwise::net {

// `body`: what went wrong, "" if nothing. Returns that, or how the child ended.
inline std::string inChild(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const bool failed_before = testing::Test::HasFailure();
  const pid_t child = fork();
  if (child == 0) {
    test::endInTwoMinutes();
    std::string problem;
    try {
      problem = body();
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (problem.empty() && testing::Test::HasFailure() && !failed_before)
      problem = "a check failed in the child";
    (void)!write(ends[1], problem.data(), problem.size());
    _exit(0);
  }
  close(ends[1]);
  char text[4096];
  std::string problem;
  for (ssize_t got = 0; (got = read(ends[0], text, sizeof text)) > 0;)
    problem.append(text, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    problem += " (the child's status: " + std::to_string(status) + ")";
  return problem;
}

}  // namespace railwise::net
