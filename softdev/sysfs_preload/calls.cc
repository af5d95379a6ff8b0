// The functions of the C library that take a path, exported before the library's: each redirects the path
// (redirect.h) and calls the library's function. Only functions that read, because no program creates files
// below /sys. Old names (__xstat) and the names for programs built with _FORTIFY_SOURCE (__open_2) are
// included. The kernel resolves the rest of a path: links inside the tree are relative, so they stay in the
// tree.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "softdev/sysfs_preload/redirect.h"

#define RAILWISE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using railwise::sysfs_preload::kPathSize;
using railwise::sysfs_preload::redirected;
using railwise::sysfs_preload::restore;

enum Call {
#define RAILWISE_CALL(name) kCall_##name,
#include "softdev/sysfs_preload/calls.def"
#undef RAILWISE_CALL
  kCallCount
};
constexpr const char* kNames[] = {
#define RAILWISE_CALL(name) #name,
#include "softdev/sysfs_preload/calls.def"
#undef RAILWISE_CALL
};

// The library's own functions. Null: the library does not have the function. All are looked up when this
// library is loaded, so that a forked child and a signal handler find them. Code that runs earlier looks up
// the function itself.
std::atomic<void*> g_next[kCallCount];

void* nextOf(Call call) {
  void* function = g_next[call].load(std::memory_order_acquire);
  if (function == nullptr) {
    function = dlsym(RTLD_NEXT, kNames[call]);
    g_next[call].store(function, std::memory_order_release);
  }
  return function;
}

__attribute__((constructor)) void findAll() {
  for (int call = 0; call < kCallCount; ++call) (void)nextOf(static_cast<Call>(call));
  char buffer[kPathSize];
  (void)redirected("/sys", buffer);
}

mode_t modeOf(int flags, va_list arguments) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

// Declares the library's function `next`, and `to`, the path that it gets instead of `path`.
#define RAILWISE_NEXT(name, ...)                                   \
  auto next = reinterpret_cast<__VA_ARGS__>(nextOf(kCall_##name)); \
  char railwise_buffer[kPathSize];                                 \
  const char* to = redirected(path, railwise_buffer)

RAILWISE_EXPORT int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = modeOf(flags, arguments);
  va_end(arguments);
  RAILWISE_NEXT(open, int (*)(const char*, int, ...));
  return next(to, flags, mode);
}

RAILWISE_EXPORT int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = modeOf(flags, arguments);
  va_end(arguments);
  RAILWISE_NEXT(open64, int (*)(const char*, int, ...));
  return next(to, flags, mode);
}

RAILWISE_EXPORT int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = modeOf(flags, arguments);
  va_end(arguments);
  RAILWISE_NEXT(openat, int (*)(int, const char*, int, ...));
  return next(folder, to, flags, mode);
}

RAILWISE_EXPORT int openat64(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = modeOf(flags, arguments);
  va_end(arguments);
  RAILWISE_NEXT(openat64, int (*)(int, const char*, int, ...));
  return next(folder, to, flags, mode);
}

RAILWISE_EXPORT int __open_2(const char* path, int flags) {
  RAILWISE_NEXT(__open_2, int (*)(const char*, int));
  return next(to, flags);
}

RAILWISE_EXPORT int __open64_2(const char* path, int flags) {
  RAILWISE_NEXT(__open64_2, int (*)(const char*, int));
  return next(to, flags);
}

RAILWISE_EXPORT int __openat_2(int folder, const char* path, int flags) {
  RAILWISE_NEXT(__openat_2, int (*)(int, const char*, int));
  return next(folder, to, flags);
}

RAILWISE_EXPORT int __openat64_2(int folder, const char* path, int flags) {
  RAILWISE_NEXT(__openat64_2, int (*)(int, const char*, int));
  return next(folder, to, flags);
}

RAILWISE_EXPORT FILE* fopen(const char* path, const char* mode) {
  RAILWISE_NEXT(fopen, FILE * (*)(const char*, const char*));
  return next(to, mode);
}

RAILWISE_EXPORT FILE* fopen64(const char* path, const char* mode) {
  RAILWISE_NEXT(fopen64, FILE * (*)(const char*, const char*));
  return next(to, mode);
}

RAILWISE_EXPORT DIR* opendir(const char* path) {
  RAILWISE_NEXT(opendir, DIR * (*)(const char*));
  return next(to);
}

using Filter = int (*)(const dirent*);
using Order = int (*)(const dirent**, const dirent**);
RAILWISE_EXPORT int scandir(const char* path, dirent*** names, Filter filter, Order order) {
  RAILWISE_NEXT(scandir, int (*)(const char*, dirent***, Filter, Order));
  return next(to, names, filter, order);
}

using Filter64 = int (*)(const dirent64*);
using Order64 = int (*)(const dirent64**, const dirent64**);
RAILWISE_EXPORT int scandir64(const char* path, dirent64*** names, Filter64 filter, Order64 order) {
  RAILWISE_NEXT(scandir64, int (*)(const char*, dirent64***, Filter64, Order64));
  return next(to, names, filter, order);
}

RAILWISE_EXPORT ssize_t readlink(const char* path, char* text, size_t size) {
  RAILWISE_NEXT(readlink, ssize_t(*)(const char*, char*, size_t));
  return next(to, text, size);
}

RAILWISE_EXPORT ssize_t readlinkat(int folder, const char* path, char* text, size_t size) {
  RAILWISE_NEXT(readlinkat, ssize_t(*)(int, const char*, char*, size_t));
  return next(folder, to, text, size);
}

RAILWISE_EXPORT ssize_t __readlink_chk(const char* path, char* text, size_t size, size_t room) {
  RAILWISE_NEXT(__readlink_chk, ssize_t(*)(const char*, char*, size_t, size_t));
  return next(to, text, size, room);
}

RAILWISE_EXPORT ssize_t __readlinkat_chk(int folder, const char* path, char* text, size_t size, size_t room) {
  RAILWISE_NEXT(__readlinkat_chk, ssize_t(*)(int, const char*, char*, size_t, size_t));
  return next(folder, to, text, size, room);
}

RAILWISE_EXPORT char* realpath(const char* path, char* resolved) {
  RAILWISE_NEXT(realpath, char* (*)(const char*, char*));
  char* real = next(to, resolved);
  if (real != nullptr) restore(real);
  return real;
}

RAILWISE_EXPORT char* __realpath_chk(const char* path, char* resolved, size_t room) {
  RAILWISE_NEXT(__realpath_chk, char* (*)(const char*, char*, size_t));
  char* real = next(to, resolved, room);
  if (real != nullptr) restore(real);
  return real;
}

RAILWISE_EXPORT char* canonicalize_file_name(const char* path) {
  RAILWISE_NEXT(canonicalize_file_name, char* (*)(const char*));
  char* real = next(to);
  if (real != nullptr) restore(real);
  return real;
}

RAILWISE_EXPORT int access(const char* path, int mode) {
  RAILWISE_NEXT(access, int (*)(const char*, int));
  return next(to, mode);
}

RAILWISE_EXPORT int euidaccess(const char* path, int mode) {
  RAILWISE_NEXT(euidaccess, int (*)(const char*, int));
  return next(to, mode);
}

RAILWISE_EXPORT int eaccess(const char* path, int mode) {
  RAILWISE_NEXT(eaccess, int (*)(const char*, int));
  return next(to, mode);
}

RAILWISE_EXPORT int faccessat(int folder, const char* path, int mode, int flags) {
  RAILWISE_NEXT(faccessat, int (*)(int, const char*, int, int));
  return next(folder, to, mode, flags);
}

// Functions since glibc 2.33. Older programs call __xstat and its relatives, which every glibc keeps.
RAILWISE_EXPORT int stat(const char* path, struct stat* status) {
  RAILWISE_NEXT(stat, int (*)(const char*, struct stat*));
  return next != nullptr ? next(to, status) : fstatat(AT_FDCWD, to, status, 0);
}

RAILWISE_EXPORT int lstat(const char* path, struct stat* status) {
  RAILWISE_NEXT(lstat, int (*)(const char*, struct stat*));
  return next != nullptr ? next(to, status) : fstatat(AT_FDCWD, to, status, AT_SYMLINK_NOFOLLOW);
}

RAILWISE_EXPORT int fstatat(int folder, const char* path, struct stat* status, int flags) {
  RAILWISE_NEXT(fstatat, int (*)(int, const char*, struct stat*, int));
  return next(folder, to, status, flags);
}

RAILWISE_EXPORT int stat64(const char* path, struct stat64* status) {
  RAILWISE_NEXT(stat64, int (*)(const char*, struct stat64*));
  return next != nullptr ? next(to, status) : fstatat64(AT_FDCWD, to, status, 0);
}

RAILWISE_EXPORT int lstat64(const char* path, struct stat64* status) {
  RAILWISE_NEXT(lstat64, int (*)(const char*, struct stat64*));
  return next != nullptr ? next(to, status) : fstatat64(AT_FDCWD, to, status, AT_SYMLINK_NOFOLLOW);
}

RAILWISE_EXPORT int fstatat64(int folder, const char* path, struct stat64* status, int flags) {
  RAILWISE_NEXT(fstatat64, int (*)(int, const char*, struct stat64*, int));
  return next(folder, to, status, flags);
}

RAILWISE_EXPORT int __xstat(int version, const char* path, struct stat* status) {
  RAILWISE_NEXT(__xstat, int (*)(int, const char*, struct stat*));
  return next(version, to, status);
}

RAILWISE_EXPORT int __lxstat(int version, const char* path, struct stat* status) {
  RAILWISE_NEXT(__lxstat, int (*)(int, const char*, struct stat*));
  return next(version, to, status);
}

RAILWISE_EXPORT int __fxstatat(int version, int folder, const char* path, struct stat* status, int flags) {
  RAILWISE_NEXT(__fxstatat, int (*)(int, int, const char*, struct stat*, int));
  return next(version, folder, to, status, flags);
}

RAILWISE_EXPORT int __xstat64(int version, const char* path, struct stat64* status) {
  RAILWISE_NEXT(__xstat64, int (*)(int, const char*, struct stat64*));
  return next(version, to, status);
}

RAILWISE_EXPORT int __lxstat64(int version, const char* path, struct stat64* status) {
  RAILWISE_NEXT(__lxstat64, int (*)(int, const char*, struct stat64*));
  return next(version, to, status);
}

RAILWISE_EXPORT int __fxstatat64(int version, int folder, const char* path, struct stat64* status,
                                 int flags) {
  RAILWISE_NEXT(__fxstatat64, int (*)(int, int, const char*, struct stat64*, int));
  return next(version, folder, to, status, flags);
}

RAILWISE_EXPORT int statx(int folder, const char* path, int flags, unsigned mask, struct statx* status) {
  RAILWISE_NEXT(statx, int (*)(int, const char*, int, unsigned, struct statx*));
  return next(folder, to, flags, mask, status);
}

RAILWISE_EXPORT int chdir(const char* path) {
  RAILWISE_NEXT(chdir, int (*)(const char*));
  return next(to);
}

// `ls -l` reads access control lists.
RAILWISE_EXPORT ssize_t getxattr(const char* path, const char* name, void* value, size_t size) {
  RAILWISE_NEXT(getxattr, ssize_t(*)(const char*, const char*, void*, size_t));
  return next(to, name, value, size);
}

RAILWISE_EXPORT ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) {
  RAILWISE_NEXT(lgetxattr, ssize_t(*)(const char*, const char*, void*, size_t));
  return next(to, name, value, size);
}

RAILWISE_EXPORT ssize_t listxattr(const char* path, char* list, size_t size) {
  RAILWISE_NEXT(listxattr, ssize_t(*)(const char*, char*, size_t));
  return next(to, list, size);
}

RAILWISE_EXPORT ssize_t llistxattr(const char* path, char* list, size_t size) {
  RAILWISE_NEXT(llistxattr, ssize_t(*)(const char*, char*, size_t));
  return next(to, list, size);
}

// The library's glob() opens folders by internal calls, unless the caller supplies functions. So this
// supplies the exported ones.
using GlobError = int (*)(const char*, int);
RAILWISE_EXPORT int glob(const char* pattern, int flags, GlobError error, glob_t* found) {
  const auto next = reinterpret_cast<int (*)(const char*, int, GlobError, glob_t*)>(nextOf(kCall_glob));
  if ((flags & GLOB_ALTDIRFUNC) == 0) {
    found->gl_closedir = [](void* folder) { closedir(static_cast<DIR*>(folder)); };
    found->gl_readdir = [](void* folder) { return readdir(static_cast<DIR*>(folder)); };
    found->gl_opendir = [](const char* path) -> void* { return opendir(path); };
    found->gl_lstat = [](const char* path, struct stat* status) { return lstat(path, status); };
    found->gl_stat = [](const char* path, struct stat* status) { return stat(path, status); };
  }
  return next(pattern, flags | GLOB_ALTDIRFUNC, error, found);
}

RAILWISE_EXPORT int glob64(const char* pattern, int flags, GlobError error, glob64_t* found) {
  const auto next = reinterpret_cast<int (*)(const char*, int, GlobError, glob64_t*)>(nextOf(kCall_glob64));
  if ((flags & GLOB_ALTDIRFUNC) == 0) {
    found->gl_closedir = [](void* folder) { closedir(static_cast<DIR*>(folder)); };
    found->gl_readdir = [](void* folder) { return readdir64(static_cast<DIR*>(folder)); };
    found->gl_opendir = [](const char* path) -> void* { return opendir(path); };
    found->gl_lstat = [](const char* path, struct stat64* status) { return lstat64(path, status); };
    found->gl_stat = [](const char* path, struct stat64* status) { return stat64(path, status); };
  }
  return next(pattern, flags | GLOB_ALTDIRFUNC, error, found);
}
