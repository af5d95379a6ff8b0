// Versions 6 to 10 of the API have no finalize: the plugin's threads live as long as the process, which is no
// leak. Asked by the thread sanitizer at the start; other builds ignore it.
extern "C" [[gnu::visibility("default")]] const char*
__tsan_default_options();  // NOLINT: the sanitizer's name
extern "C" const char* __tsan_default_options() { return "report_thread_leaks=0"; }  // NOLINT
