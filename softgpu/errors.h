// How calls answer: the last error of a thread, and the message for what is not implemented.
#pragma once

#include "api.h"

namespace softgpu {

// Every call of the runtime returns through here. An error is kept for cudaGetLastError of this thread.
cudaError_t answer(cudaError_t error);

// For what the software GPU does not implement: cudaErrorNotSupported. The first call for each `name` says
// the name on stderr.
cudaError_t notSupported(const char* name);

// One line on stderr, "softgpu: ...". Only the first call with this text prints.
void sayOnce(const char* text);

// The driver's code for an error of the runtime.
CUresult driverCode(cudaError_t error);

}  // namespace softgpu
