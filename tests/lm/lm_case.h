// Spaces to write sentences about.
#pragma once

#include <string>

#include "tessera/scheduling/space/space.h"

namespace tessera::lm {

space::Space space_of(const std::string& spec, const std::string& target = "neoverse-v1",
                      int threads = 2);

// Of the contractions, windows, rows and pointwise families.
inline constexpr const char* kSpecs[] = {
    "matmul:M=60,N=96,K=40",
    "conv2d:N=1,H=14,W=14,CI=16,CO=24,KH=3,KW=3,P=1",
    "conv2d:N=1,H=14,W=14,CI=16,CO=24,KH=3,KW=3,P=1,algo=winograd4",
    "depthwise:N=1,H=14,W=14,C=32,KH=3,KW=3,P=1",
    "softmax:R=24,C=100",
};
inline constexpr const char* kTargets[] = {"neoverse-v1", "skylake-avx512", "h200"};

}  // namespace tessera::lm
