# Headers that most sources include, compiled once for each kind of target.
# A source still includes what it uses; builds with TESSERA_PCH=OFF (lint) see that it does.
# Several work trees share a compiler cache better with OFF: precompiled headers are of one tree.
set(precompile OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(precompile ON)
endif()
option(TESSERA_PCH "Build faster: precompiled headers, sources in batches, and -O1 for what is not hot (gcc only)" ${precompile})

set(common_headers <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory>
  <optional> <set> <span> <string> <unordered_map> <utility> <vector> <fmt/format.h> <fmt/ranges.h>)

# What the optimizer says about the standard library's own code; from a precompiled header it is taken for ours.
set(tessera_pch_quiet -Wno-stringop-overread -Wno-stringop-overflow -Wno-array-bounds -Wno-restrict -Wno-maybe-uninitialized)

# tessera_headers_of(KIND [PIE] HEADERS ... LIBRARIES ... OPTIONS ...): the target tessera_pch_KIND.
# PIE: for executables; a precompiled header serves only sources with its own options.
function(tessera_headers_of kind)
  if(NOT TESSERA_PCH)
    return()
  endif()
  cmake_parse_arguments(ARG "PIE" "" "HEADERS;LIBRARIES;OPTIONS" ${ARGN})
  set(target tessera_pch_${kind})
  add_library(${target} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cc)
  target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES} tessera_warnings)
  target_compile_options(${target} PRIVATE -fpch-preprocess ${ARG_OPTIONS})
  if(ARG_PIE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIE)
  endif()
  target_precompile_headers(${target} PRIVATE ${ARG_HEADERS})
endfunction()

# tessera_precompiled(TARGET KIND): its C++ sources take the headers of tessera_pch_KIND.
function(tessera_precompiled target kind)
  if(NOT TESSERA_PCH)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.c$")
  set_source_files_properties(${sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess> ${tessera_pch_quiet})
  target_precompile_headers(${target} REUSE_FROM tessera_pch_${kind})
endfunction()

# tessera_batched(TARGET): eight of its sources, or those of a subfolder, are compiled as one, so that what their headers
# instantiate is compiled once. Names in their unnamed namespaces have to differ. TESSERA_PCH=OFF compiles each by itself.
function(tessera_batched target)
  if(NOT TESSERA_PCH)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(mode BATCH)
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH folder)
    if(source MATCHES "\\.c$" OR IS_ABSOLUTE ${source})
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    elseif(folder)
      set(mode GROUP)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE ${mode})
  # gcc takes an unnamed namespace of an included source for one of a header.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endfunction()

# For code whose own speed nobody notices: two thirds of the time to compile it.
if(TESSERA_PCH)
  set(TESSERA_QUICK $<$<CONFIG:Release>:-O1>)
endif()

tessera_headers_of(library HEADERS ${common_headers} LIBRARIES fmt::fmt)
tessera_headers_of(quick_library HEADERS ${common_headers} LIBRARIES fmt::fmt OPTIONS ${TESSERA_QUICK})
if(TESSERA_TESTS)
  # Not nlohmann/json.hpp, which a sixteenth of them include: gcc instantiates what a header left open in every source.
  tessera_headers_of(test PIE
    HEADERS ${common_headers} <gtest/gtest.h>
    LIBRARIES fmt::fmt GTest::gtest OPTIONS ${TESSERA_QUICK})
endif()
