// Preloaded into arm64's test programs that run under qemu-user (CMakeLists.txt). qemu-user gives execve() to
// the kernel as it is, so the kernel refuses an arm64 program (unless binfmt_misc has qemu-user), and takes
// /proc/self/exe for qemu itself. These functions put the emulator in front. Programs of this machine, such
// as a shell, start as they are.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kMostArguments = 1024, kArgumentsOfEmulator = 6, kMostVariables = 1024 };

extern char** environ;
static char g_preload[PATH_MAX + sizeof "LD_PRELOAD="];

// A program of this machine cannot load this library and would say so: the variable goes, and comes back in
// front of arm64's programs only.
__attribute__((constructor)) static void takePreload(void) {
  const char* const preload = getenv("LD_PRELOAD");
  if (preload == NULL) return;
  (void)snprintf(g_preload, sizeof g_preload, "LD_PRELOAD=%s", preload);
  (void)unsetenv("LD_PRELOAD");
}

static bool isOfArm64(const char* path) {
  Elf64_Ehdr header;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool whole = read(fd, &header, sizeof header) == (ssize_t)sizeof header;
  close(fd);
  return whole && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_machine == EM_AARCH64;
}

struct Command {
  const char* file;
  char* arguments[kMostArguments + kArgumentsOfEmulator];
  char program[PATH_MAX];
  char preload[2 * PATH_MAX];
  char* environment[kMostVariables];
};

static const char kPreload[] = "LD_PRELOAD=";

// What the program is to preload (`railwise device run` has a library of its own) goes to the program, behind
// this library; qemu-user's own loader must not see it.
static int preloadFor(struct Command* command, char* const environment[]) {
  const size_t bytes = sizeof kPreload - 1;
  (void)snprintf(command->preload, sizeof command->preload, "%s", g_preload);
  int count = 0;
  for (int i = 0; environment[i] != NULL; ++i) {
    if (count == kMostVariables - 1) return E2BIG;
    if (strncmp(environment[i], kPreload, bytes) != 0) {
      command->environment[count++] = environment[i];
      continue;
    }
    const int length =
        snprintf(command->preload, sizeof command->preload, "%s:%s", g_preload, environment[i] + bytes);
    if (length < 0 || (size_t)length >= sizeof command->preload) return ENAMETOOLONG;
  }
  command->environment[count] = NULL;
  return 0;
}

// What to execute instead of `file`. Returns 0 or an errno. Without allocation: it may run between vfork()
// and exec.
static int emulated(const char* file, char* const arguments[], char* const environment[],
                    struct Command* command, char* const** its_environment) {
  command->file = file;
  *its_environment = environment;
  if (strcmp(file, "/proc/self/exe") == 0) {
    const ssize_t length =
        readlink(file, command->program, sizeof command->program - 1);  // qemu-user answers
    if (length < 0) return errno;
    command->program[length] = 0;
  } else {
    if (strlen(file) >= sizeof command->program) return ENAMETOOLONG;
    strcpy(command->program, file);
  }
  int count = 0;
  if (isOfArm64(command->program)) {
    const int error = preloadFor(command, environment);
    if (error != 0) return error;
    *its_environment = command->environment;
    command->file = RAILWISE_EMULATOR;
    command->arguments[count++] = (char*)RAILWISE_EMULATOR;
    command->arguments[count++] = (char*)"-E";
    command->arguments[count++] = command->preload;
    command->arguments[count++] = (char*)"-0";  // the name that the program is given
    command->arguments[count++] = arguments[0] != NULL ? arguments[0] : command->program;
    command->arguments[count++] = command->program;
    if (arguments[0] != NULL) ++arguments;
  }
  for (int i = 0; arguments[i] != NULL; ++i) {
    if (i == kMostArguments - 1) return E2BIG;
    command->arguments[count++] = arguments[i];
  }
  command->arguments[count] = NULL;
  return 0;
}

// Not on the stack: GoogleTest's death tests call execv() with 8 KiB of it.
static __thread struct Command command __attribute__((tls_model("initial-exec")));

int execve(const char* file, char* const arguments[], char* const environment[]) {
  char* const* its_environment = NULL;
  const int error = emulated(file, arguments, environment, &command, &its_environment);
  if (error != 0) {
    errno = error;
    return -1;
  }
  return (int)syscall(SYS_execve, command.file, command.arguments, its_environment);
}

int execv(const char* file, char* const arguments[]) { return execve(file, arguments, environ); }

int execvpe(const char* file, char* const arguments[], char* const environment[]) {
  if (strchr(file, '/') != NULL) return execve(file, arguments, environment);
  const char* path = getenv("PATH");
  for (path = path != NULL ? path : "/bin:/usr/bin"; *path != 0; path += *path == ':') {
    const int length = (int)strcspn(path, ":");
    char candidate[PATH_MAX];
    if (snprintf(candidate, sizeof candidate, "%.*s/%s", length, path, file) < (int)sizeof candidate)
      (void)execve(candidate, arguments, environment);
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) return -1;
    path += length;
  }
  errno = ENOENT;
  return -1;
}

int execvp(const char* file, char* const arguments[]) { return execvpe(file, arguments, environ); }

int execl(const char* file, const char* argument, ...) {
  char* arguments[kMostArguments] = {(char*)argument};
  va_list rest;
  va_start(rest, argument);
  for (int i = 1; i < kMostArguments - 1 && arguments[i - 1] != NULL; ++i) arguments[i] = va_arg(rest, char*);
  va_end(rest);
  return execve(file, arguments, environ);
}

// By fork(): what a caller would hear of a failed start it hears from the end of the child.
int posix_spawn(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const arguments[], char* const environment[]) {
  if (actions != NULL || attributes != NULL) return ENOSYS;  // no test of ours has them
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) {
    (void)execve(file, arguments, environment);
    _exit(127);
  }
  if (pid != NULL) *pid = child;
  return 0;
}
