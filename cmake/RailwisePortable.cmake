# What is shipped starts with glibc 2.27 and later (NCCL's own containers have 2.28 and later), whatever this machine has: it is
# linked against the names of an old C library (packaging/glibc), with the C++ runtime inside. Objects are the same with and
# without; only the last link differs.
# Off by default where it cannot work: a sanitizer needs this machine's C library, packaging/glibc knows two processors and no
# cross compilation, clang's assembler leaves the types of the names out, and Fedora and RHEL have libstdc++.a in a package of
# its own. The preset debug has it off, too, so that the tests run on a plain build of gcc and those of the packages run once.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -dumpmachine OUTPUT_VARIABLE machine)
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.a OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
set(portable OFF)
if(NOT RAILWISE_SANITIZE AND NOT CMAKE_CROSSCOMPILING AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND machine MATCHES "^(x86_64|aarch64).*linux-gnu" AND IS_ABSOLUTE "${runtime}")
  set(portable ON)
endif()
option(RAILWISE_PORTABLE "Link what is shipped for glibc 2.27 and later, with the C++ runtime inside" ${portable})
if(NOT RAILWISE_PORTABLE)
  message(STATUS "RAILWISE_PORTABLE is off: what is built needs a C library and a C++ runtime as new as this machine's")
endif()
if(RAILWISE_PORTABLE AND RAILWISE_SANITIZE)
  message(FATAL_ERROR "RAILWISE_PORTABLE and RAILWISE_SANITIZE exclude each other: sanitizers need this machine's C library")
endif()

# Packages are made of such a build, so its libraries go where Debian has libraries (-DCMAKE_INSTALL_LIBDIR=lib64 for rpm).
if(RAILWISE_PORTABLE AND NOT DEFINED CMAKE_INSTALL_LIBDIR AND CMAKE_LIBRARY_ARCHITECTURE AND EXISTS /etc/debian_version)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "Libraries, below the prefix")
endif()

if(RAILWISE_PORTABLE)
  set(RAILWISE_OLD_GLIBC ${PROJECT_BINARY_DIR}/old-glibc)
  add_library(railwise_newer_calls STATIC
    ${PROJECT_SOURCE_DIR}/packaging/glibc/newer_calls.c ${PROJECT_SOURCE_DIR}/packaging/glibc/program_start.c)
  set_target_properties(railwise_newer_calls PROPERTIES
    POSITION_INDEPENDENT_CODE ON C_STANDARD 11 C_VISIBILITY_PRESET hidden ARCHIVE_OUTPUT_DIRECTORY ${RAILWISE_OLD_GLIBC})
  target_compile_definitions(railwise_newer_calls PRIVATE _GNU_SOURCE)
  target_compile_options(railwise_newer_calls PRIVATE
    -Wall -Wextra -Wconversion -Wno-sign-conversion $<$<BOOL:${RAILWISE_WERROR}>:-Werror> -fno-builtin)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -D READELF=${CMAKE_READELF} -D COMPILER=${CMAKE_C_COMPILER} -D OUT=${RAILWISE_OLD_GLIBC}
      -D RUNTIME=${RAILWISE_OLD_GLIBC}/librailwise_newer_calls.a -P ${PROJECT_SOURCE_DIR}/packaging/glibc/stubs.cmake
    RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "RAILWISE_PORTABLE: no old C library to link against; see above")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/packaging/glibc/stubs.cmake)
endif()

# railwise_shipped(TARGET): a program or library that packages contain. The target `shipped` builds them all, and nothing else.
add_custom_target(shipped)
function(railwise_shipped target)
  add_dependencies(shipped ${target})
  if(RAILWISE_PORTABLE)
    add_dependencies(${target} railwise_newer_calls)
    target_link_options(${target} PRIVATE -Wl,--build-id=sha1 -L${RAILWISE_OLD_GLIBC} -static-libstdc++ -static-libgcc)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${RAILWISE_OLD_GLIBC}/librailwise_newer_calls.a)
  endif()
endfunction()
