# fmt and nlohmann-json by their headers alone: a machine without LLVM may lack their packages, and a build for another
# machine must not link this one's.
function(tessera_headers package target folder probe)
  find_path(TESSERA_HEADERS_${folder} ${folder}/${probe} NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  # By a link of its own: the folder above is often /usr/include, which must not come before a compiler's headers.
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/headers)
  file(CREATE_LINK ${TESSERA_HEADERS_${folder}}/${folder} ${CMAKE_BINARY_DIR}/headers/${folder} SYMBOLIC)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/headers)
  # find_package() of it below finds this.
  file(WRITE ${CMAKE_FIND_PACKAGE_REDIRECTS_DIR}/${package}-config.cmake "")
endfunction()

tessera_headers(fmt fmt::fmt fmt format.h)
set_property(TARGET fmt::fmt APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)
tessera_headers(nlohmann_json nlohmann_json::nlohmann_json nlohmann json.hpp)
