// Lets NCCL's Inspector join its dump thread. The Inspector of 2.29.7 sleeps 1 ms instead. Then NCCL unloads
// the library, and a thread that got no CPU in that time runs in unmapped code. profilers_test.py links this
// with
// --wrap=pthread_create and --wrap=nanosleep: the Inspector sleeps only in its dump thread and where it stops
// it.
#include <pthread.h>
#include <time.h>

static pthread_t dump_thread;
static bool dumping = false;

extern "C" {

int __real_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
int __real_nanosleep(const timespec*, timespec*);

int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                          void* argument) {
  const int error = __real_pthread_create(&dump_thread, attributes, start, argument);
  dumping = error == 0;
  *thread = dump_thread;
  return error;
}

int __wrap_nanosleep(const timespec* duration, timespec* left) {
  if (dumping && pthread_equal(pthread_self(), dump_thread) == 0) {
    dumping = false;
    return pthread_join(dump_thread, nullptr);
  }
  return __real_nanosleep(duration, left);
}
}
