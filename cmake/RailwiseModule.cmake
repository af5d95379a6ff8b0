# One CMake target per module: railwise_module(NAME SOURCES... DEPENDS...) makes the static, position-independent
# library railwise_NAME with our warnings, hidden symbols and the sanitizers that were asked for.

find_path(IBVERBS_INCLUDE_DIR infiniband/verbs.h)
if(NOT IBVERBS_INCLUDE_DIR)
  message(FATAL_ERROR "infiniband/verbs.h not found: install libibverbs-dev (Debian, Ubuntu) or rdma-core-devel")
endif()
file(STRINGS ${IBVERBS_INCLUDE_DIR}/infiniband/verbs.h atomic_write REGEX "IBV_WR_ATOMIC_WRITE")
if(NOT atomic_write)
  message(FATAL_ERROR "infiniband/verbs.h is too old, as Ubuntu 22.04's is: build on Debian 12, Ubuntu 24.04 or newer; the packages run on older ones too")
endif()
find_path(RDMACM_INCLUDE_DIR rdma/rdma_cma.h)
if(NOT RDMACM_INCLUDE_DIR)
  message(FATAL_ERROR "rdma/rdma_cma.h not found: install librdmacm-dev (Debian, Ubuntu) or rdma-core-devel")
endif()
find_path(NLOHMANN_JSON_INCLUDE_DIR nlohmann/json.hpp)
if(NOT NLOHMANN_JSON_INCLUDE_DIR)
  message(FATAL_ERROR "nlohmann/json.hpp not found: install nlohmann-json3-dev (Debian, Ubuntu) or json-devel")
endif()

find_package(Threads REQUIRED)

# What the presets of CI do for speed; off elsewhere, so that every file is also compiled by itself.
option(RAILWISE_UNITY "Compile a module as few large files" OFF)
option(RAILWISE_FAST_TESTS "Compile the GoogleTest programs, not what they test, without optimisation and with precompiled headers" OFF)

add_library(railwise_options INTERFACE)
target_compile_features(railwise_options INTERFACE cxx_std_20)
target_compile_options(railwise_options INTERFACE
  -Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow -Wnon-virtual-dtor -Wformat=2 -Wno-missing-field-initializers
  $<$<BOOL:${RAILWISE_WERROR}>:-Werror>
  -fvisibility=hidden -fvisibility-inlines-hidden -fno-semantic-interposition)
target_include_directories(railwise_options INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(railwise_options INTERFACE
  _GNU_SOURCE RAILWISE_VERSION="${PROJECT_VERSION}" $<$<CONFIG:Debug>:RAILWISE_TRACE=1>)
target_link_libraries(railwise_options INTERFACE Threads::Threads)
if(RAILWISE_SANITIZE)
  target_compile_options(railwise_options INTERFACE
    -fsanitize=${RAILWISE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)  # gcc warns of its own instrumentation
  target_link_options(railwise_options INTERFACE -fsanitize=${RAILWISE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND RAILWISE_SANITIZE MATCHES "address")
    target_compile_options(railwise_options INTERFACE -fsanitize=fuzzer-no-link)  # coverage for tests/fuzz
    target_link_options(railwise_options INTERFACE -fsanitize=fuzzer-no-link)
  endif()
endif()

# railwise_unity(TARGET): its files may be compiled together, so no name in an anonymous namespace occurs in two of them.
function(railwise_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${RAILWISE_UNITY} UNITY_BUILD_BATCH_SIZE 12)
endfunction()

# For the modules of this folder that follow, which wait for files and people: -O2 would take the compiler twice as long.
macro(railwise_optimise_less)
  add_compile_options($<$<CONFIG:RelWithDebInfo>:-Og>)
endmacro()

function(railwise_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(railwise_${name} STATIC ${arg_SOURCES})
  set_target_properties(railwise_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  railwise_unity(railwise_${name})
  target_link_libraries(railwise_${name} PUBLIC railwise_options)
  foreach(dependency IN LISTS arg_DEPENDS)
    target_link_libraries(railwise_${name} PUBLIC railwise_${dependency})
  endforeach()
endfunction()

# rdma-core's headers, for the modules that may see them (verbs, softdev, net) and their tests.
add_library(railwise_rdma_headers INTERFACE)
target_include_directories(railwise_rdma_headers SYSTEM INTERFACE ${IBVERBS_INCLUDE_DIR} ${RDMACM_INCLUDE_DIR})

# railwise_test_options(TARGET): how the files of a GoogleTest program are compiled.
function(railwise_test_options target)
  target_compile_options(${target} PRIVATE -Wno-dangling-else)  # `if (x) EXPECT_EQ(...)`
  if(RAILWISE_FAST_TESTS)
    target_compile_options(${target} PRIVATE -O0 -g1)
    target_precompile_headers(${target} REUSE_FROM railwise_test_headers)
  endif()
endfunction()

# railwise_test_objects(NAME SOURCES... DEPENDS...): what several test programs have in common, compiled once; it stands
# among the DEPENDS of each.
function(railwise_test_objects name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(railwise_${name} OBJECT ${arg_SOURCES})
  target_link_libraries(railwise_${name} PRIVATE railwise_options GTest::gtest)
  foreach(dependency IN LISTS arg_DEPENDS)
    target_link_libraries(railwise_${name} PRIVATE railwise_${dependency})
  endforeach()
  target_include_directories(railwise_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  railwise_test_options(railwise_${name})
endfunction()

# railwise_loads_device(TARGET): a program of this folder that has src/verbs inside finds the software device's library, which
# lies beside the plugin, beside itself too (base/installed_places.h).
function(railwise_loads_device target)
  add_dependencies(${target} railwise_device)
  file(CREATE_LINK ${PROJECT_BINARY_DIR}/lib/railwise-verbs ${CMAKE_CURRENT_BINARY_DIR}/railwise-verbs SYMBOLIC)
endfunction()

# railwise_test(NAME SOURCES... DEPENDS... [WHOLE] [LONG] [PLUGIN] [DEFINITIONS...] [TIMEOUT S]): one GoogleTest program, one
# ctest entry for each of its tests, labelled "quick". LONG: among them are instantiations named Full... and Campaign..., labelled so,
# which have an hour. WHOLE: its tests need no process each; with a sanitizer, where processes begin slowly, they are one ctest
# entry. PLUGIN: the program loads the built plugin, whose path it gets in RAILWISE_PLUGIN_PATH.
function(railwise_test name)
  cmake_parse_arguments(arg "PLUGIN;LONG;WHOLE" "TIMEOUT" "SOURCES;DEPENDS;DEFINITIONS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES} ${PROJECT_SOURCE_DIR}/tests/own_fabric.cc)
  target_link_libraries(${name} PRIVATE railwise_options GTest::gtest GTest::gtest_main)
  foreach(dependency IN LISTS arg_DEPENDS)
    target_link_libraries(${name} PRIVATE railwise_${dependency})
  endforeach()
  target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
  railwise_test_options(${name})
  railwise_unity(${name})
  if(arg_PLUGIN)
    add_dependencies(${name} railwise_plugin)
    target_compile_definitions(${name} PRIVATE RAILWISE_PLUGIN_PATH="$<TARGET_FILE:railwise_plugin>")
  endif()
  if("verbs" IN_LIST arg_DEPENDS OR "net" IN_LIST arg_DEPENDS)
    railwise_loads_device(${name})
  endif()
  set(discovery DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 NO_PRETTY_TYPES NO_PRETTY_VALUES)
  if(arg_WHOLE AND RAILWISE_SANITIZE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS quick TIMEOUT 600)
  elseif(arg_LONG)
    gtest_discover_tests(${name} ${discovery} TEST_FILTER "-Full*/*:Campaign*/*"
      PROPERTIES LABELS quick TIMEOUT ${arg_TIMEOUT})
    gtest_discover_tests(${name} ${discovery} TEST_FILTER "Full*/*" PROPERTIES LABELS full TIMEOUT 3600 PROCESSORS 2)
    gtest_discover_tests(${name} ${discovery} TEST_FILTER "Campaign*/*"
      PROPERTIES LABELS campaign TIMEOUT 3600 PROCESSORS 2)
  else()
    gtest_discover_tests(${name} ${discovery} PROPERTIES LABELS quick TIMEOUT ${arg_TIMEOUT})
  endif()
endfunction()
include(GoogleTest)
