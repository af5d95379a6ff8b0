# Where CUDA's headers are, for everybody: RAILWISE_CUDA_INCLUDE (the folder of cuda_runtime_api.h; empty if there is none),
# RAILWISE_CUDA_VERSION (13000) and RAILWISE_CUDA_MAJOR (13).
find_path(RAILWISE_CUDA_INCLUDE cuda_runtime_api.h
  HINTS $ENV{CUDA_HOME}/include /usr/local/cuda/include
  DOC "Folder of cuda_runtime_api.h")
if(RAILWISE_CUDA_INCLUDE AND EXISTS ${RAILWISE_CUDA_INCLUDE}/cuda.h)
  file(STRINGS ${RAILWISE_CUDA_INCLUDE}/cuda_runtime_api.h version_line REGEX "^#define CUDART_VERSION +[0-9]+")
  string(REGEX MATCH "[0-9]+" version "${version_line}")
  set(RAILWISE_CUDA_VERSION ${version} CACHE INTERNAL "CUDART_VERSION of the headers")
endif()
if(RAILWISE_CUDA_VERSION)
  math(EXPR major "${RAILWISE_CUDA_VERSION} / 1000")
  set(RAILWISE_CUDA_MAJOR ${major} CACHE INTERNAL "Major version of the headers")
  if(RAILWISE_CUDA_VERSION LESS 11080)
    message(STATUS "CUDA's headers in ${RAILWISE_CUDA_INCLUDE} are older than 11.8")
    set(RAILWISE_CUDA_INCLUDE "RAILWISE_CUDA_INCLUDE-NOTFOUND" CACHE PATH "Folder of cuda_runtime_api.h" FORCE)
  endif()
else()
  set(RAILWISE_CUDA_INCLUDE "RAILWISE_CUDA_INCLUDE-NOTFOUND" CACHE PATH "Folder of cuda_runtime_api.h" FORCE)
endif()
