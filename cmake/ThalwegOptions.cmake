# Build options and the flags every target shares.
option(THALWEG_CHECKS "Keep data-plane checks (TW_DCHECK) on" OFF)
option(THALWEG_CHECKED_RING "Rings of CUDA products as racecheck can follow them, slower" OFF)
option(THALWEG_FUZZ "Build the libFuzzer targets (Clang only)" OFF)
option(THALWEG_TESTS "Build the tests" ON)
option(THALWEG_PCH "Precompile headers of the standard library, fmt, nlohmann-json and GoogleTest" ON)
# Warnings stop the build with the compilers that the project is built with day by day; a newer one may
# warn about something that none of us has seen, and that must not keep anybody from building.
set(werror OFF)
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13) OR
   (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17))
  set(werror ON)
endif()
option(THALWEG_WERROR "Warnings are errors" ${werror})
set(THALWEG_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "GCC ${CMAKE_CXX_COMPILER_VERSION} is too old: Thalweg needs GCC 12 or Clang 16, or newer")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  message(FATAL_ERROR "Clang ${CMAKE_CXX_COMPILER_VERSION} is too old: Thalweg needs GCC 12 or Clang 16, or newer")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library(thalweg_flags INTERFACE)
add_library(thalweg::flags ALIAS thalweg_flags)
# Contraction is off so that a row has the same bits whichever vector width the compiler picks.
set(cxx_flags
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  -ffp-contract=off -fno-math-errno -pthread)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105651: a false alarm about "literal" + std::string; under other names where headers are precompiled.
  list(APPEND cxx_flags -Wno-restrict)
  if(THALWEG_PCH)
    list(APPEND cxx_flags -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endif()
if(THALWEG_WERROR)
  list(APPEND cxx_flags -Werror)
endif()
target_compile_options(thalweg_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${cxx_flags}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
target_include_directories(thalweg_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
# fmt 9 turns constexpr off when nvcc reads it, and then does not compile as C++20.
target_compile_definitions(thalweg_flags INTERFACE
  THALWEG_VERSION="${PROJECT_VERSION}" $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
if(THALWEG_CHECKS)
  target_compile_definitions(thalweg_flags INTERFACE THALWEG_CHECKS=1)
endif()
if(THALWEG_SANITIZE)
  # Without -fno-sanitize-recover a test that overflows an integer prints a line and passes.
  target_compile_options(thalweg_flags INTERFACE
    -fsanitize=${THALWEG_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(thalweg_flags INTERFACE -fsanitize=${THALWEG_SANITIZE})
endif()

find_program(THALWEG_CCACHE ccache)
if(THALWEG_CCACHE)
  # Without this it keeps nothing that was compiled with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${THALWEG_CCACHE})
endif()
