# Headers of other people are compiled once for each kind of target instead of once for each source: they are half
# of what the compiler reads. Headers of our own are not among them, so that changing one builds only what includes it.
# A source still includes what it uses: it must compile with THALWEG_PCH=OFF too.

set(std_headers
  <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque>
  <filesystem> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <string> <string_view>
  <thread> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)

# One owner of each kind; the others reuse what it has compiled, for which their flags must be the same.
function(thalweg_pch_kind kind)
  cmake_parse_arguments(KIND "" "" "HEADERS;FLAGS;LINK" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/pch/${kind}.cc CONTENT "// The owner of precompiled headers needs a source.\n")
  add_library(thalweg_pch_${kind} OBJECT ${CMAKE_BINARY_DIR}/pch/${kind}.cc)
  target_compile_options(thalweg_pch_${kind} PRIVATE ${KIND_FLAGS})
  target_link_libraries(thalweg_pch_${kind} PRIVATE thalweg::flags fmt::fmt spdlog::spdlog ${KIND_LINK})
  target_precompile_headers(thalweg_pch_${kind} PRIVATE ${std_headers} ${KIND_HEADERS})
endfunction()

set(THALWEG_TEST_FLAGS -O1)
if(THALWEG_PCH)
  thalweg_pch_kind(room)
  thalweg_pch_kind(room_json HEADERS <nlohmann/json.hpp> LINK nlohmann_json::nlohmann_json)
  if(THALWEG_TESTS)
    thalweg_pch_kind(test HEADERS <gtest/gtest.h> FLAGS ${THALWEG_TEST_FLAGS} LINK GTest::gtest)
    thalweg_pch_kind(test_json HEADERS <nlohmann/json.hpp> <gtest/gtest.h> FLAGS ${THALWEG_TEST_FLAGS}
                     LINK nlohmann_json::nlohmann_json GTest::gtest)
  endif()
endif()

# thalweg_pch(target room|test json): json where a good part of the sources reads nlohmann's header, which costs the
# others half a second each.
function(thalweg_pch target kind json)
  if(THALWEG_PCH)
    if(json)
      string(APPEND kind _json)
    endif()
    # A program's default would be -fPIE.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC>)
    target_precompile_headers(${target} REUSE_FROM thalweg_pch_${kind})
  endif()
endfunction()
