// The start of a program, for RAILWISE_PORTABLE. From glibc 2.34 on, the library runs the program's
// constructors. Before, the program brought a function that runs them; every glibc still calls such a
// function where there is one. The start code of the compiler (crt1.o) calls this __libc_start_main instead
// of the library's, and it hands such a function over.
#if defined(__x86_64__)
#define RAILWISE_FIRST_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define RAILWISE_FIRST_VERSION "GLIBC_2.17"
#else
#error "which version of glibc was the first on this machine?"
#endif
typedef int (*Main)(int, char**, char**);
typedef void (*Initialize)(int, char**, char**);
extern int libraryStart(Main program, int count, char** arguments, Initialize initialize,
                        void (*finish)(void), void (*finishLoader)(void), void* stack);
__asm__(".symver libraryStart, __libc_start_main@" RAILWISE_FIRST_VERSION);

extern void _init(void);
extern const Initialize __init_array_start[] __attribute__((visibility("hidden")));
extern const Initialize __init_array_end[] __attribute__((visibility("hidden")));

static void runConstructors(int count, char** arguments, char** environment) {
  _init();
  for (const Initialize* each = __init_array_start; each < __init_array_end; ++each) {
    (*each)(count, arguments, environment);
  }
}

int __libc_start_main(Main program, int count, char** arguments, Initialize initialize, void (*finish)(void),
                      void (*finishLoader)(void), void* stack);
int __libc_start_main(Main program, int count, char** arguments, Initialize initialize, void (*finish)(void),
                      void (*finishLoader)(void), void* stack) {
  (void)initialize;
  return libraryStart(program, count, arguments, runConstructors, finish, finishLoader, stack);
}
