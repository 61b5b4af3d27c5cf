// The ONNX backend cases through compiled code.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/frontend/onnx/backend_case.h"

namespace tessera::app {

// How the outputs of a case were computed.
enum class Ran {
  kNot,          // refused before anything ran
  kCode,         // generated code, perhaps with host functions between kernels
  kHost,         // host functions only: sorting and the like
  kFolded,       // import left nothing to compute
  kNodes,        // node by node, each with the sizes it then has
  kInterpreted,  // by the interpreter
};
const char* to_text(Ran ran);

struct ConformanceCase {
  std::string name;  // its folder
  onnx::CaseResult result;
  Ran ran = Ran::kNot;
};

enum class ConformanceMode {
  kCompiled,   // whole models; node by node only where shapes follow from data
  kNodes,      // every case node by node, each node compiled
  kInterpret,  // by the interpreter
};
inline const std::map<std::string, ConformanceMode> kConformanceModes = {
    {"compiled", ConformanceMode::kCompiled},
    {"nodes", ConformanceMode::kNodes},
    {"interpret", ConformanceMode::kInterpret}};

// So many cases at once (0: one per core), results in the order of the folders.
std::vector<ConformanceCase> run_conformance(const std::vector<std::string>& folders,
                                             ConformanceMode mode, int jobs);

}  // namespace tessera::app
