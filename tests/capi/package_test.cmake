# Builds examples/c with find_package(Tessera) from FROM (build or install), saves a model as an
# artifact, and runs it three ways: compiled, loaded, and linked into a program of its own.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${code}\n${out}${err}")
  endif()
  set(printed "${out}" PARENT_SCOPE)
endfunction()

if(FROM STREQUAL install)
  # Only the component's files: the rest of the tree need not be built.
  run(${CMAKE_COMMAND} -DCMAKE_INSTALL_CONFIG_NAME=${CONFIG} -DCMAKE_INSTALL_PREFIX=${WORK}/prefix
      -P ${BUILD}/tessera/capi/cmake_install.cmake)
  set(package -DCMAKE_PREFIX_PATH=${WORK}/prefix)
else()
  set(package -DTessera_DIR=${BUILD}/cmake)
endif()

set(configure ${CMAKE_COMMAND} -S ${EXAMPLES} -B ${WORK}/build ${package} -DCMAKE_C_FLAGS=${C_FLAGS})
run(${configure})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/run_model zoo:mlp --threads 2 --save ${WORK}/mlp)
set(compiled "${printed}")
if(NOT compiled MATCHES "^[a-z]+ f32 \\[[0-9,]+\\]( -?[0-9]+\\.[0-9]+)+\n$")
  message(FATAL_ERROR "run_model printed: ${compiled}")
endif()
run(${WORK}/build/run_model ${WORK}/mlp)
if(NOT printed STREQUAL compiled)
  message(FATAL_ERROR "the artifact computes\n${printed}instead of\n${compiled}")
endif()

run(${configure} -DARTIFACT=${WORK}/mlp -DARTIFACT_NAME=mlp)
run(${CMAKE_COMMAND} --build ${WORK}/build)
# Raw bytes of a zero input, as many as the header says.
file(STRINGS ${WORK}/mlp/mlp.h line REGEX "MLP_INPUT_0_BYTES")
string(REGEX REPLACE ".*BYTES ([0-9]+).*" "\\1" bytes "${line}")
string(REPEAT "0" ${bytes} zeros)
file(WRITE ${WORK}/input "${zeros}")
run(${WORK}/build/run_artifact ${WORK}/input ${WORK}/output)
if(NOT printed MATCHES "f32, [0-9]+ bytes")
  message(FATAL_ERROR "run_artifact printed: ${printed}")
endif()
