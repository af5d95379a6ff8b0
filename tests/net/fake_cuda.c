// Two functions of NVIDIA's driver library, for tests on machines without one.
#include <stdio.h>

static int g_error = 0;

void fakeCudaError(int error) { g_error = error; }

int cuCtxGetDevice(int* device) {
  *device = 3;
  return g_error;
}

int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  snprintf(text, (size_t)bytes, "0000:%02x:00.0", 0x0e + device);
  return g_error;
}
