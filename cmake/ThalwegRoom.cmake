# thalweg_room(NAME base [JSON] SOURCES a.cc ... DEPENDS room ... LINK target ... TESTS a_test.cc ... FUZZ b_fuzz.cc ...)
#
# Declares one room: the static library thalweg_<name> (alias thalweg::<name>), one test executable
# <name>_test with every TESTS file, and one libFuzzer executable per FUZZ file when THALWEG_FUZZ is on.
# DEPENDS names rooms (they must agree with layers.txt), LINK names outside libraries.
# TEST_DEPENDS and TEST_LINK serve the tests alone. JSON: see thalweg_pch.
function(thalweg_room)
  cmake_parse_arguments(ROOM "JSON" "NAME" "SOURCES;DEPENDS;LINK;TESTS;TEST_DEPENDS;TEST_LINK;FUZZ" ${ARGN})
  set(target thalweg_${ROOM_NAME})
  list(TRANSFORM ROOM_DEPENDS PREPEND thalweg:: OUTPUT_VARIABLE rooms)
  if(ROOM_SOURCES)
    add_library(${target} STATIC ${ROOM_SOURCES})
    target_link_libraries(${target} PUBLIC thalweg::flags ${rooms} ${ROOM_LINK})
    thalweg_pch(${target} room ${ROOM_JSON})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE thalweg::flags ${rooms} ${ROOM_LINK})
  endif()
  add_library(thalweg::${ROOM_NAME} ALIAS ${target})

  set(json "")
  if(ROOM_JSON)
    set(json JSON)
  endif()
  list(TRANSFORM ROOM_TEST_DEPENDS PREPEND thalweg:: OUTPUT_VARIABLE test_rooms)
  if(THALWEG_TESTS AND ROOM_TESTS)
    thalweg_test(${ROOM_NAME}_test LABEL unit ${json} SOURCES ${ROOM_TESTS} LINK ${target} ${test_rooms} ${ROOM_TEST_LINK})
  endif()
  if(THALWEG_FUZZ)
    foreach(file ${ROOM_FUZZ})
      get_filename_component(name ${file} NAME_WE)
      add_executable(${name} ${file})
      target_link_libraries(${name} PRIVATE ${target} ${test_rooms} -fsanitize=fuzzer)
      set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
      add_dependencies(fuzzers ${name})
    endforeach()
  endif()
endfunction()

if(THALWEG_FUZZ)
  add_custom_target(fuzzers)
endif()

set(THALWEG_TEST_LAUNCHER "")
if(THALWEG_SANITIZE MATCHES "thread")
  # A launcher, for gtest_discover_tests cannot carry a list of environment variables.
  set(THALWEG_TEST_LAUNCHER env TSAN_OPTIONS=halt_on_error=1)
endif()

# Test code is the larger half of the build and none of its time is worth more than -O1. THALWEG_SOURCE_DIR, for test
# data, is known to tests alone: a program that carries the path of its sources is not done.
function(thalweg_test_code target json)
  target_compile_options(${target} PRIVATE ${THALWEG_TEST_FLAGS})
  target_compile_definitions(${target} PRIVATE THALWEG_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  thalweg_pch(${target} test ${json})
endfunction()

# thalweg_test_objects(name [JSON] SOURCES ... LINK ...)
# Sources that several tests link, compiled once.
function(thalweg_test_objects name)
  if(NOT THALWEG_TESTS)
    return()
  endif()
  cmake_parse_arguments(T "JSON" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} OBJECT ${T_SOURCES})
  target_link_libraries(${name} PUBLIC ${T_LINK} GTest::gtest)
  thalweg_test_code(${name} ${T_JSON})
endfunction()

# thalweg_test(name LABEL unit|golden|slow|gpu [JSON] SOURCES ... LINK ... [TIMEOUT seconds])
# One GoogleTest executable registered with CTest under one label.
function(thalweg_test name)
  if(NOT THALWEG_TESTS)
    return()
  endif()
  cmake_parse_arguments(T "JSON" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 600)
  endif()
  add_executable(${name} ${T_SOURCES})
  if(THALWEG_TEST_LAUNCHER)
    set_target_properties(${name} PROPERTIES CROSSCOMPILING_EMULATOR "${THALWEG_TEST_LAUNCHER}")
  endif()
  target_link_libraries(${name} PRIVATE ${T_LINK} GTest::gtest_main)
  thalweg_test_code(${name} ${T_JSON})
  # Printed parameter values may hold addresses; a test must have the same name in every run.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_PREFIX ${name}. NO_PRETTY_VALUES
                       PROPERTIES LABELS ${T_LABEL} TIMEOUT ${T_TIMEOUT})
endfunction()
