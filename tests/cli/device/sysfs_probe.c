// Asks the C library for a path in every way that librailwise-sysfs.so stands in front of, and prints what it
// gets. In C and without the project, as any program would: sysfs_probe FILE FOLDER LINK.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

static void print(const char* name, int good) { printf("%s %s\n", name, good ? "yes" : "no"); }

static int closed(int fd) { return fd >= 0 && close(fd) == 0; }

static int keep(const struct dirent* entry) { return entry->d_name[0] != '.'; }

static int freed(char* text) {
  const int good = text != NULL && strncmp(text, "/sys/", 5) == 0;
  free(text);
  return good;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const char* file = argv[1];
  const char* folder = argv[2];
  const char* to = argv[3];
  struct stat status;
  struct stat64 status64;
  struct statx statusx;
  char text[PATH_MAX];
  print("open", closed(open(file, O_RDONLY)));
  print("open64", closed(open64(file, O_RDONLY)));
  print("openat", closed(openat(AT_FDCWD, file, O_RDONLY)));
  print("openat64", closed(openat64(AT_FDCWD, file, O_RDONLY)));
  FILE* stream = fopen(file, "r");
  print("fopen", stream != NULL);
  if (stream != NULL) fclose(stream);
  stream = fopen64(file, "r");
  print("fopen64", stream != NULL);
  if (stream != NULL) fclose(stream);
  DIR* opened = opendir(folder);
  print("opendir", opened != NULL);
  if (opened != NULL) closedir(opened);
  struct dirent** names = NULL;
  const int count = scandir(folder, &names, keep, alphasort);
  print("scandir", count > 0);
  for (int i = 0; i < count; ++i) free(names[i]);
  free(names);
  print("readlink", readlink(to, text, sizeof text) > 0);
  print("readlinkat", readlinkat(AT_FDCWD, to, text, sizeof text) > 0);
  print("realpath", realpath(to, text) != NULL && strncmp(text, "/sys/", 5) == 0);
  print("realpath-null", freed(realpath(to, NULL)));
  print("canonicalize", freed(canonicalize_file_name(to)));
  print("access", access(file, R_OK) == 0);
  print("euidaccess", euidaccess(file, R_OK) == 0);
  print("faccessat", faccessat(AT_FDCWD, file, R_OK, 0) == 0);
  print("stat", stat(file, &status) == 0 && S_ISREG(status.st_mode));
  print("lstat", lstat(to, &status) == 0 && S_ISLNK(status.st_mode));
  print("fstatat", fstatat(AT_FDCWD, file, &status, 0) == 0);
  print("stat64", stat64(file, &status64) == 0);
  print("lstat64", lstat64(file, &status64) == 0);
  print("fstatat64", fstatat64(AT_FDCWD, file, &status64, 0) == 0);
  print("statx", statx(AT_FDCWD, file, 0, STATX_BASIC_STATS, &statusx) == 0);
  print("listxattr", listxattr(file, text, sizeof text) >= 0);
  glob_t found;
  snprintf(text, sizeof text, "%s/*", folder);
  print("glob", glob(text, 0, NULL, &found) == 0 && found.gl_pathc > 0);
  globfree(&found);
  print("chdir", chdir(folder) == 0);
  return 0;
}
