# Cross compilation for arm64 with Debian's g++-aarch64-linux-gnu and arm64's development packages (docs/install.md).
# Programs run under qemu-user, with the C library of the package libc6:arm64. So it has no -L: below
# /usr/aarch64-linux-gnu is another build of the C library, qemu-user would take the loader from there and libc.so.6
# from here, and fork() would not return in the child.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# Debian installs foreign libraries below /usr/lib/aarch64-linux-gnu; this machine's own must not be found.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_IGNORE_PATH /usr/lib/x86_64-linux-gnu /lib/x86_64-linux-gnu /usr/lib/x86_64-linux-gnu/cmake)
