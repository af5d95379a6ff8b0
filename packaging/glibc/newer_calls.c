// What a build on a new glibc calls and glibc 2.27 does not have, in terms of what 2.27 has.
// RAILWISE_PORTABLE links it into everything that is shipped (cmake/RailwisePortable.cmake); all names are
// hidden. A call of another new function is an undefined reference at link time: write that function here, or
// call an older one.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

// The library's own name for a function that headers of a new glibc would rename.
#define RAILWISE_NAMED(name) __asm__(name)

// Up to glibc 2.32 stat() and its family were inline; the library had these, with the version of the struct.
#if defined(__x86_64__)
enum { kStatVersion = 1 };
#else
enum { kStatVersion = 0 };
#endif
extern int __xstat(int version, const char* path, struct stat* status);
extern int __lxstat(int version, const char* path, struct stat* status);
extern int __fxstat(int version, int file, struct stat* status);
extern int __fxstatat(int version, int folder, const char* path, struct stat* status, int flags);

int stat(const char* path, struct stat* status) { return __xstat(kStatVersion, path, status); }
int lstat(const char* path, struct stat* status) { return __lxstat(kStatVersion, path, status); }
int fstat(int file, struct stat* status) { return __fxstat(kStatVersion, file, status); }
int fstatat(int folder, const char* path, struct stat* status, int flags) {
  return __fxstatat(kStatVersion, folder, path, status, flags);
}

// struct stat64 is struct stat on machines of 64 bits.
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "a machine of 64 bits");
int stat64(const char* path, struct stat64* status) {
  return __xstat(kStatVersion, path, (struct stat*)status);
}
int lstat64(const char* path, struct stat64* status) {
  return __lxstat(kStatVersion, path, (struct stat*)status);
}
int fstat64(int file, struct stat64* status) { return __fxstat(kStatVersion, file, (struct stat*)status); }
int fstatat64(int folder, const char* path, struct stat64* status, int flags) {
  return __fxstatat(kStatVersion, folder, path, (struct stat*)status, flags);
}

// libstdc++ counts references without atomics while this is true. Always false: a program that loads the
// plugin has threads.
char __libc_single_threaded = 0;

// libstdc++'s random_device. The kernel's generator answers at once except in the first second after boot.
uint32_t arc4random(void) {
  uint32_t word;
  while (getrandom(&word, sizeof word, 0) != (ssize_t)sizeof word) {
    if (errno != EINTR) abort();
  }
  return word;
}

// Names of signals (without SIG) and of errors.
#define RAILWISE_SIGNAL(name) [SIG##name] = #name
static const char* const kSignals[] = {
    RAILWISE_SIGNAL(HUP),  RAILWISE_SIGNAL(INT),    RAILWISE_SIGNAL(QUIT), RAILWISE_SIGNAL(ILL),
    RAILWISE_SIGNAL(TRAP), RAILWISE_SIGNAL(ABRT),   RAILWISE_SIGNAL(BUS),  RAILWISE_SIGNAL(FPE),
    RAILWISE_SIGNAL(KILL), RAILWISE_SIGNAL(USR1),   RAILWISE_SIGNAL(SEGV), RAILWISE_SIGNAL(USR2),
    RAILWISE_SIGNAL(PIPE), RAILWISE_SIGNAL(ALRM),   RAILWISE_SIGNAL(TERM), RAILWISE_SIGNAL(STKFLT),
    RAILWISE_SIGNAL(CHLD), RAILWISE_SIGNAL(CONT),   RAILWISE_SIGNAL(STOP), RAILWISE_SIGNAL(TSTP),
    RAILWISE_SIGNAL(TTIN), RAILWISE_SIGNAL(TTOU),   RAILWISE_SIGNAL(URG),  RAILWISE_SIGNAL(XCPU),
    RAILWISE_SIGNAL(XFSZ), RAILWISE_SIGNAL(VTALRM), RAILWISE_SIGNAL(PROF), RAILWISE_SIGNAL(WINCH),
    RAILWISE_SIGNAL(IO),   RAILWISE_SIGNAL(PWR),    RAILWISE_SIGNAL(SYS),
};
#define RAILWISE_ERROR(name) [name] = #name
static const char* const kErrors[] = {
    RAILWISE_ERROR(EPERM),
    RAILWISE_ERROR(ENOENT),
    RAILWISE_ERROR(ESRCH),
    RAILWISE_ERROR(EINTR),
    RAILWISE_ERROR(EIO),
    RAILWISE_ERROR(ENXIO),
    RAILWISE_ERROR(E2BIG),
    RAILWISE_ERROR(ENOEXEC),
    RAILWISE_ERROR(EBADF),
    RAILWISE_ERROR(ECHILD),
    RAILWISE_ERROR(EAGAIN),
    RAILWISE_ERROR(ENOMEM),
    RAILWISE_ERROR(EACCES),
    RAILWISE_ERROR(EFAULT),
    RAILWISE_ERROR(ENOTBLK),
    RAILWISE_ERROR(EBUSY),
    RAILWISE_ERROR(EEXIST),
    RAILWISE_ERROR(EXDEV),
    RAILWISE_ERROR(ENODEV),
    RAILWISE_ERROR(ENOTDIR),
    RAILWISE_ERROR(EISDIR),
    RAILWISE_ERROR(EINVAL),
    RAILWISE_ERROR(ENFILE),
    RAILWISE_ERROR(EMFILE),
    RAILWISE_ERROR(ENOTTY),
    RAILWISE_ERROR(ETXTBSY),
    RAILWISE_ERROR(EFBIG),
    RAILWISE_ERROR(ENOSPC),
    RAILWISE_ERROR(ESPIPE),
    RAILWISE_ERROR(EROFS),
    RAILWISE_ERROR(EMLINK),
    RAILWISE_ERROR(EPIPE),
    RAILWISE_ERROR(EDOM),
    RAILWISE_ERROR(ERANGE),
    RAILWISE_ERROR(EDEADLK),
    RAILWISE_ERROR(ENAMETOOLONG),
    RAILWISE_ERROR(ENOLCK),
    RAILWISE_ERROR(ENOSYS),
    RAILWISE_ERROR(ENOTEMPTY),
    RAILWISE_ERROR(ELOOP),
    RAILWISE_ERROR(ENOMSG),
    RAILWISE_ERROR(EIDRM),
    RAILWISE_ERROR(ECHRNG),
    RAILWISE_ERROR(EL2NSYNC),
    RAILWISE_ERROR(EL3HLT),
    RAILWISE_ERROR(EL3RST),
    RAILWISE_ERROR(ELNRNG),
    RAILWISE_ERROR(EUNATCH),
    RAILWISE_ERROR(ENOCSI),
    RAILWISE_ERROR(EL2HLT),
    RAILWISE_ERROR(EBADE),
    RAILWISE_ERROR(EBADR),
    RAILWISE_ERROR(EXFULL),
    RAILWISE_ERROR(ENOANO),
    RAILWISE_ERROR(EBADRQC),
    RAILWISE_ERROR(EBADSLT),
    RAILWISE_ERROR(EBFONT),
    RAILWISE_ERROR(ENOSTR),
    RAILWISE_ERROR(ENODATA),
    RAILWISE_ERROR(ETIME),
    RAILWISE_ERROR(ENOSR),
    RAILWISE_ERROR(ENONET),
    RAILWISE_ERROR(ENOPKG),
    RAILWISE_ERROR(EREMOTE),
    RAILWISE_ERROR(ENOLINK),
    RAILWISE_ERROR(EADV),
    RAILWISE_ERROR(ESRMNT),
    RAILWISE_ERROR(ECOMM),
    RAILWISE_ERROR(EPROTO),
    RAILWISE_ERROR(EMULTIHOP),
    RAILWISE_ERROR(EDOTDOT),
    RAILWISE_ERROR(EBADMSG),
    RAILWISE_ERROR(EOVERFLOW),
    RAILWISE_ERROR(ENOTUNIQ),
    RAILWISE_ERROR(EBADFD),
    RAILWISE_ERROR(EREMCHG),
    RAILWISE_ERROR(ELIBACC),
    RAILWISE_ERROR(ELIBBAD),
    RAILWISE_ERROR(ELIBSCN),
    RAILWISE_ERROR(ELIBMAX),
    RAILWISE_ERROR(ELIBEXEC),
    RAILWISE_ERROR(EILSEQ),
    RAILWISE_ERROR(ERESTART),
    RAILWISE_ERROR(ESTRPIPE),
    RAILWISE_ERROR(EUSERS),
    RAILWISE_ERROR(ENOTSOCK),
    RAILWISE_ERROR(EDESTADDRREQ),
    RAILWISE_ERROR(EMSGSIZE),
    RAILWISE_ERROR(EPROTOTYPE),
    RAILWISE_ERROR(ENOPROTOOPT),
    RAILWISE_ERROR(EPROTONOSUPPORT),
    RAILWISE_ERROR(ESOCKTNOSUPPORT),
    RAILWISE_ERROR(EOPNOTSUPP),
    RAILWISE_ERROR(EPFNOSUPPORT),
    RAILWISE_ERROR(EAFNOSUPPORT),
    RAILWISE_ERROR(EADDRINUSE),
    RAILWISE_ERROR(EADDRNOTAVAIL),
    RAILWISE_ERROR(ENETDOWN),
    RAILWISE_ERROR(ENETUNREACH),
    RAILWISE_ERROR(ENETRESET),
    RAILWISE_ERROR(ECONNABORTED),
    RAILWISE_ERROR(ECONNRESET),
    RAILWISE_ERROR(ENOBUFS),
    RAILWISE_ERROR(EISCONN),
    RAILWISE_ERROR(ENOTCONN),
    RAILWISE_ERROR(ESHUTDOWN),
    RAILWISE_ERROR(ETOOMANYREFS),
    RAILWISE_ERROR(ETIMEDOUT),
    RAILWISE_ERROR(ECONNREFUSED),
    RAILWISE_ERROR(EHOSTDOWN),
    RAILWISE_ERROR(EHOSTUNREACH),
    RAILWISE_ERROR(EALREADY),
    RAILWISE_ERROR(EINPROGRESS),
    RAILWISE_ERROR(ESTALE),
    RAILWISE_ERROR(EUCLEAN),
    RAILWISE_ERROR(ENOTNAM),
    RAILWISE_ERROR(ENAVAIL),
    RAILWISE_ERROR(EISNAM),
    RAILWISE_ERROR(EREMOTEIO),
    RAILWISE_ERROR(EDQUOT),
    RAILWISE_ERROR(ENOMEDIUM),
    RAILWISE_ERROR(EMEDIUMTYPE),
    RAILWISE_ERROR(ECANCELED),
    RAILWISE_ERROR(ENOKEY),
    RAILWISE_ERROR(EKEYEXPIRED),
    RAILWISE_ERROR(EKEYREVOKED),
    RAILWISE_ERROR(EKEYREJECTED),
    RAILWISE_ERROR(EOWNERDEAD),
    RAILWISE_ERROR(ENOTRECOVERABLE),
    RAILWISE_ERROR(ERFKILL),
    RAILWISE_ERROR(EHWPOISON),
};

#define RAILWISE_ROW(table, number) \
  ((number) < 0 || (size_t)(number) >= sizeof(table) / sizeof(table)[0] ? NULL : (table)[number])
const char* sigabbrev_np(int signal) { return RAILWISE_ROW(kSignals, signal); }
const char* strerrorname_np(int error) { return error == 0 ? "0" : RAILWISE_ROW(kErrors, error); }

// libstdc++'s waits until a steady time. Where the library has the function (2.30), it is called.
typedef int (*ClockWait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);

static int64_t nanoseconds(struct timespec time) { return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec; }

static int64_t nowOf(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return nanoseconds(now);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  static ClockWait library;
  static int looked;  // 0: not yet
  if (__atomic_load_n(&looked, __ATOMIC_ACQUIRE) == 0) {
    __atomic_store_n(&library, (ClockWait)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"), __ATOMIC_RELAXED);
    __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
  }
  const ClockWait call = __atomic_load_n(&library, __ATOMIC_RELAXED);
  if (call != NULL) return call(condition, mutex, clock, until);
  // The condition variable waits by the wall clock, which may be set meanwhile: it never waits longer than
  // this in one piece.
  const int64_t longest = 100000000;
  for (;;) {
    const int64_t left = nanoseconds(*until) - nowOf(clock);
    if (left <= 0) return ETIMEDOUT;
    const int64_t wall = nowOf(CLOCK_REALTIME) + (left < longest ? left : longest);
    const struct timespec next = {.tv_sec = wall / 1000000000, .tv_nsec = wall % 1000000000};
    const int waited = pthread_cond_timedwait(condition, mutex, &next);
    if (waited != ETIMEDOUT) return waited;
  }
}

#ifdef DLFO_EH_SEGMENT_TYPE
// libgcc's way from an address to the unwind tables of its library, for exceptions.
struct Search {
  uintptr_t address;
  struct dl_find_object* found;
};

static int holdsAddress(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  struct Search* search = data;
  uintptr_t start = UINTPTR_MAX, end = 0, tables = 0;
  int inside = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* header = &object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + header->p_vaddr;
    if (header->p_type == DLFO_EH_SEGMENT_TYPE) tables = begin;
    if (header->p_type != PT_LOAD) continue;
    if (begin < start) start = begin;
    if (begin + header->p_memsz > end) end = begin + header->p_memsz;
    inside |= search->address >= begin && search->address < begin + header->p_memsz;
  }
  if (!inside || tables == 0) return 0;
  search->found->dlfo_flags = 0;
  search->found->dlfo_map_start = (void*)start;
  search->found->dlfo_map_end = (void*)end;
  search->found->dlfo_link_map = NULL;  // libgcc does not read it
  search->found->dlfo_eh_frame = (void*)tables;
  return 1;
}

int _dl_find_object(void* address, struct dl_find_object* found) {
  struct Search search = {(uintptr_t)address, found};
  return dl_iterate_phdr(holdsAddress, &search) == 1 ? 0 : -1;
}
#endif

// glibc 2.38 has C23's numbers (0b1) behind new names.
#define RAILWISE_NUMBER(type, name)                                            \
  extern type railwise_##name(const char*, char**, int) RAILWISE_NAMED(#name); \
  type __isoc23_##name(const char* text, char** end, int base);                \
  type __isoc23_##name(const char* text, char** end, int base) { return railwise_##name(text, end, base); }
RAILWISE_NUMBER(long, strtol)
RAILWISE_NUMBER(long long, strtoll)
RAILWISE_NUMBER(unsigned long, strtoul)
RAILWISE_NUMBER(unsigned long long, strtoull)

#define RAILWISE_SCAN(name, source)                                                             \
  extern int railwise_v##name(source, const char*, va_list) RAILWISE_NAMED("__isoc99_v" #name); \
  int __isoc23_##name(source from, const char* format, ...);                                    \
  int __isoc23_##name(source from, const char* format, ...) {                                   \
    va_list arguments;                                                                          \
    va_start(arguments, format);                                                                \
    const int fields = railwise_v##name(from, format, arguments);                               \
    va_end(arguments);                                                                          \
    return fields;                                                                              \
  }
RAILWISE_SCAN(sscanf, const char*)
RAILWISE_SCAN(fscanf, FILE*)
