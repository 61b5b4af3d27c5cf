# tessera_wanted(FOLDER RESULT): whether the options and what is installed let a folder be built.
function(tessera_wanted folder result)
  set(wanted TRUE)
  if(NOT TESSERA_LLVM)
    # Those that need LLVM, SQLite, protobuf or CLI11, and those above them. Of kernel, measure and record, the parts
    # that need none are built.
    set(compiler codegen onnx gguf checkpoint zoo exec infer model search fleet compile generate bench quantize tune collect study app artifact capi cli)
    if(folder IN_LIST compiler OR (folder MATCHES "^(dataset|graphset|lm)$" AND NOT ZLIB_FOUND))
      set(wanted FALSE)
    endif()
  endif()
  set(${result} ${wanted} PARENT_SCOPE)
endfunction()

# tessera_library(NAME [QUICK] [BATCHED] SOURCES ... DEPS ... THIRD_PARTY ...): one library per folder, or FOLDER/PART: the sources
# of a folder that need less than the rest, a target tessera_FOLDER_PART of their own. QUICK: compiled with -O1. BATCHED:
# several sources at once (tessera_batched).
# DEPS is the whole licence to include; the test layering_NAME enforces it.
function(tessera_library name)
  cmake_parse_arguments(ARG "QUICK;BATCHED" "" "SOURCES;DEPS;THIRD_PARTY" ${ARGN})
  string(REPLACE "/" "_" kind ${name})
  set(target tessera_${kind})
  string(REGEX REPLACE "/.*" "" folder ${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  if(ARG_BATCHED)
    tessera_batched(${target})
  endif()
  tessera_targets("${ARG_DEPS}" dep_targets)
  target_link_libraries(${target} PUBLIC ${dep_targets} PRIVATE ${ARG_THIRD_PARTY} tessera_warnings)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  if(NOT ARG_DEPS)
    target_link_libraries(${target} PUBLIC fmt::fmt)
  endif()
  if(ARG_QUICK)
    target_compile_options(${target} PRIVATE ${TESSERA_QUICK})
    tessera_precompiled(${target} quick_library)
  elseif(TARGET tessera_pch_${kind})
    tessera_precompiled(${target} ${kind})
  else()
    tessera_precompiled(${target} library)
  endif()
  if(TESSERA_TESTS)
    list(TRANSFORM ARG_DEPS REPLACE "/.*" "" OUTPUT_VARIABLE allowed)
    list(JOIN allowed "|" allowed)
    set(files "")
    if(name MATCHES "/")
      list(JOIN ARG_SOURCES "|" files)
    endif()
    set(test layering_${kind})
    add_test(NAME ${test}
      COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_CURRENT_SOURCE_DIR} -DTREE=${PROJECT_SOURCE_DIR}/tessera -DSELF=${folder} "-DALLOWED=${allowed}"
              "-DFILES=${files}" -P ${PROJECT_SOURCE_DIR}/cmake/layering_test.cmake)
    set_tests_properties(${test} PROPERTIES LABELS unit)
  endif()
endfunction()

# The targets of DEPS.
function(tessera_targets deps result)
  list(TRANSFORM deps REPLACE "/" "_")
  list(TRANSFORM deps PREPEND tessera_)
  set(${result} ${deps} PARENT_SCOPE)
endfunction()

# tessera_test(FOLDER SOURCES ... DEPS ...): one GoogleTest binary per folder, each test case its own ctest entry.
function(tessera_test folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;THIRD_PARTY;LABELS" ${ARGN})
  set(target ${folder}_tests)
  add_executable(${target} ${ARG_SOURCES})
  tessera_targets("${ARG_DEPS}" dep_targets)
  target_link_libraries(${target} PRIVATE ${dep_targets} ${ARG_THIRD_PARTY} tessera_testing GTest::gtest_main tessera_warnings)
  target_compile_options(${target} PRIVATE ${TESSERA_QUICK})
  tessera_precompiled(${target} test)
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600
    ENVIRONMENT TESSERA_CACHE=off)  # of the user: tests that want one have their own
endfunction()

# tessera_long(FOLDER FILTER TIMES): a nightly test that runs those tests of the folder many times, in random orders.
function(tessera_long folder filter times)
  add_test(NAME ${folder}_long COMMAND ${folder}_tests --gtest_filter=${filter} --gtest_repeat=${times} --gtest_shuffle
    --gtest_brief=1)
  set_tests_properties(${folder}_long PROPERTIES LABELS nightly TIMEOUT 3600 ENVIRONMENT TESSERA_CACHE=off)
endfunction()

# tessera_fuzzer(NAME SOURCES ... DEPS ...): bin/NAME_fuzzer, a libFuzzer binary; only in the fuzz preset, where a test labelled
# nightly runs it for a minute and `./do fuzz` for longer. Begins with the seeds in tests/fuzz/corpus/NAME, which it must have;
# SECURITY.md names it.
function(tessera_fuzzer name)
  file(GLOB seeds ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}/*)
  file(STRINGS ${PROJECT_SOURCE_DIR}/SECURITY.md promised REGEX "fuzzers? .*`${name}`")
  if(NOT seeds OR NOT promised)
    message(FATAL_ERROR "the fuzzer ${name} needs seeds in tests/fuzz/corpus/${name} and its name in SECURITY.md")
  endif()
  if(NOT TESSERA_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  set(target ${name}_fuzzer)
  add_executable(${target} ${ARG_SOURCES})
  tessera_targets("${ARG_DEPS}" dep_targets)
  target_link_libraries(${target} PRIVATE ${dep_targets} tessera_warnings)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${target})
  set(found ${CMAKE_BINARY_DIR}/corpus/${target})
  set(seeds ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  file(MAKE_DIRECTORY ${found})
  add_test(NAME ${target} COMMAND ${target} -max_total_time=60 -artifact_prefix=${found}- ${found} ${seeds})
  set_tests_properties(${target} PROPERTIES LABELS nightly TIMEOUT 300)
endfunction()
