# Writes OUTPUT, a C++ source that defines tessera::codegen::kBackEndSources: one number for what FILES ("a|b") contain.
string(REPLACE "|" ";" FILES "${FILES}")
set(all "")
foreach(file IN LISTS FILES)
  file(SHA256 ${file} digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 digest "${all}")
file(WRITE ${OUTPUT} "#include \"tessera/backend/codegen/codegen.h\"
namespace tessera::codegen {
const char* const kBackEndSources = \"${digest}\";
}
")
