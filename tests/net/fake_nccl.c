// The function of NCCL's library that tells its release, for tests without an NCCL.
static int g_release = 23102;

void fakeNcclRelease(int release) { g_release = release; }

int ncclGetVersion(int* version) {
  if (g_release == 0) return 1;  // as a library that is broken
  *version = g_release;
  return 0;
}
