# Run at every build: writes HEADER with the commit of ROOT, empty where there is none, and only when it changed.
execute_process(COMMAND git -C ${ROOT} describe --always --dirty --abbrev=10 --match=none
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT EXISTS ${ROOT}/.git)
  set(commit "")
endif()
set(text "#define TESSERA_COMMIT \"${commit}\"\n")
if(EXISTS ${HEADER})
  file(READ ${HEADER} old)
endif()
if(NOT "${old}" STREQUAL "${text}")
  file(WRITE ${HEADER} "${text}")
endif()
