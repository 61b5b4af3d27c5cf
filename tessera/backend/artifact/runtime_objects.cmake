# tessera_runtime_objects(RESULT): the C runtime of artifacts as object files, for every architecture that has a compiler
# here: the one that Tessera is built for, and the other one with a cross compiler of Debian or with clang. They are
# compiled with runtime/libc.h in place of the C library's headers.
function(tessera_runtime_objects result)
  set(binary ${CMAKE_CURRENT_BINARY_DIR})
  foreach(header dlfcn errno fcntl linux/futex pthread sched stdint stdio stdlib string sys/auxv sys/mman sys/resource
          sys/syscall time unistd)
    file(CONFIGURE OUTPUT ${binary}/libc/${header}.h CONTENT "#include \"tessera/backend/artifact/runtime/libc.h\"\n")
  endforeach()
  file(GLOB sources ${CMAKE_CURRENT_SOURCE_DIR}/runtime/*.[ch])
  foreach(name machine/runtime/abi.h machine/runtime/fork_join.h machine/runtime/fork_join.c machine/target/processors.h
          machine/target/processors.c)
    list(APPEND sources ${PROJECT_SOURCE_DIR}/tessera/${name})
  endforeach()
  set(objects "")
  foreach(arch x86_64 aarch64)
    tessera_runtime_compiler(${arch} compiler)
    if(NOT compiler)
      message(STATUS "No C compiler for ${arch} (${arch}-linux-gnu-gcc, clang): no artifacts for it")
      continue()
    endif()
    execute_process(COMMAND ${compiler} -print-file-name=include OUTPUT_VARIABLE own_headers
      OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    set(flags -std=gnu11 -O2 -fPIC -fvisibility=hidden -fno-stack-protector -Wall -Wextra -D_GNU_SOURCE -nostdinc)
    if(arch STREQUAL aarch64)
      # Atomic instructions of newer cores where they are.
      list(APPEND flags -moutline-atomics)
    endif()
    foreach(device cpu cuda opencl)
      set(object ${binary}/${device}_${arch}.o)
      set(source ${CMAKE_CURRENT_SOURCE_DIR}/runtime/model_${device}.c)
      add_custom_command(OUTPUT ${object}
        COMMAND ${compiler} ${flags} -isystem ${binary}/libc -isystem ${own_headers} -I${PROJECT_SOURCE_DIR} -c ${source}
                -o ${object}
        DEPENDS ${sources} VERBATIM)
      list(APPEND objects ${object})
    endforeach()
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()

# A command, or nothing.
function(tessera_runtime_compiler arch result)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL arch)
    set(${result} ${CMAKE_C_COMPILER} PARENT_SCOPE)
    return()
  endif()
  find_program(TESSERA_CC_${arch} NAMES ${arch}-linux-gnu-gcc clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14
    DOC "C compiler that makes objects for ${arch}")
  set(command ${TESSERA_CC_${arch}})
  if(NOT command)
    set(command "")
  elseif(command MATCHES "clang")
    list(APPEND command --target=${arch}-linux-gnu)
  endif()
  set(${result} ${command} PARENT_SCOPE)
endfunction()
