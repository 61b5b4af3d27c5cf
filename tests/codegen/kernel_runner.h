// Compiles a hand-built Func for this machine and runs it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/backend/codegen/codegen.h"
#include "tessera/lang/ir/stmt.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/support/host_tensor.h"

namespace tessera::codegen {

using runtime::CpuKernel;

// Compiled and loaded into this process.
Result<std::unique_ptr<CpuKernel>> jit(const ir::Func& func,
                                       const target::Target& target = target::host(),
                                       const CodegenOptions& options = {});

// Fails the current test and returns null when compilation fails.
std::unique_ptr<CpuKernel> compile(const ir::Func& func);

// Calls the kernel with a workspace of exactly the stated size, filled with 0xab, and `workers`
// threads behind parallel_for. Returns the number of parallel_for calls.
int run(const CpuKernel& kernel, const std::vector<void*>& params, int workers = 1);

// compile() and run().
int run(const ir::Func& func, const std::vector<void*>& params, int workers = 1);

// Runs the Func compiled and interpreted on copies of `inputs`; every output must agree within
// `tolerance` (relative above 1, absolute below; 0 asks for equality).
void expect_like_interp(const ir::Func& func, const std::vector<HostTensor>& inputs,
                        double tolerance = 0);

// Numbers where types differ: zeros, ones, limits, halves, NaN and infinities for floats. At least
// `n` of them.
HostTensor edge_values(DType dtype, std::int64_t n, std::uint64_t seed);

// out[j][i] = values[j](i) for all i, `lanes` at a time. Every output has values[j].size() == n
// elements.
struct Output {
  ir::Buffer buffer;
  ir::Expr value;  // of `lanes` lanes, in terms of the base index
};
ir::Func elementwise(std::vector<ir::Buffer> inputs, const std::vector<Output>& outputs,
                     const ir::Expr& block, int lanes);

// Loads buffer[base .. base + lanes).
ir::Expr load_vec(const ir::Buffer& buffer, const ir::Expr& base, int lanes,
                  std::int64_t stride = 1);
ir::Stmt store_vec(const ir::Buffer& buffer, const ir::Expr& base, const ir::Expr& value);

// "f32x4", for parameterised tests over (type, lanes).
std::string type_and_lanes(const ::testing::TestParamInfo<std::tuple<DType, int>>& param);

target::Target aarch64_target();
target::Target avx2_target();
target::Target avx512_target();

int count(const std::string& text, const std::string& needle);

}  // namespace tessera::codegen
