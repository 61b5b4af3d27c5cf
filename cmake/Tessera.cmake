# tessera_library(NAME SOURCES ... DEPS ... THIRD_PARTY ...): one library per folder.
# DEPS is the folder's whole licence to include; the test layering_NAME enforces it.
function(tessera_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;THIRD_PARTY" ${ARGN})
  set(target tessera_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND tessera_ OUTPUT_VARIABLE dep_targets)
  target_link_libraries(${target} PUBLIC ${dep_targets} PRIVATE ${ARG_THIRD_PARTY} tessera_warnings)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  if(NOT ARG_DEPS)
    target_link_libraries(${target} PUBLIC fmt::fmt)
  endif()
  if(TESSERA_TESTS)
    list(JOIN ARG_DEPS "|" allowed)
    add_test(NAME layering_${name}
      COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_CURRENT_SOURCE_DIR} -DSELF=${name} "-DALLOWED=${allowed}"
              -P ${PROJECT_SOURCE_DIR}/cmake/layering_test.cmake)
    set_tests_properties(layering_${name} PROPERTIES LABELS unit)
  endif()
endfunction()

# tessera_test(FOLDER SOURCES ... DEPS ...): one GoogleTest binary per folder, each test case its own ctest entry.
function(tessera_test folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;THIRD_PARTY;LABELS" ${ARGN})
  set(target ${folder}_tests)
  add_executable(${target} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND tessera_ OUTPUT_VARIABLE dep_targets)
  target_link_libraries(${target} PRIVATE ${dep_targets} ${ARG_THIRD_PARTY} tessera_testing GTest::gtest_main tessera_warnings)
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
endfunction()
