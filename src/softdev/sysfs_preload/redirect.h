// Which paths a program that runs below `railwise device run` sees elsewhere: those parts of /sys that the
// tree in RAILWISE_SYSFS_ROOT has. Allocates nothing; thread-safe after the first call; keeps errno.
#pragma once

#include <cstddef>

namespace railwise::sysfs_front {

constexpr std::size_t kPathSize = 4096;  // PATH_MAX

// The path to use instead of `path`, written to `buffer`, or `path` itself when it is not redirected.
const char* redirected(const char* path, char (&buffer)[kPathSize]);

// Takes the root off a path that the kernel gave us, in place: programs shall see /sys/devices/...
void restore(char* path);

// For tests: the root instead of RAILWISE_SYSFS_ROOT; null: none.
void setRoot(const char* root);

}  // namespace railwise::sysfs_front
