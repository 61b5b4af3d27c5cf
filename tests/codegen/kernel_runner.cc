#include "kernel_runner.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "tessera/lang/interp/interp.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/verify.h"
#include "tests/testing/testing.h"

namespace tessera::codegen {
namespace {

struct State {
  std::atomic<int> calls{0};
};

void threaded_for(tsr_host* host, tsr_body body, void* closure, std::int64_t n) {
  ++static_cast<State*>(host->state)->calls;
  const std::int64_t workers = host->num_workers;
  std::vector<std::thread> threads;
  for (std::int64_t w = 0; w < workers; ++w) {
    threads.emplace_back([=] {
      body(closure, n * w / workers, n * (w + 1) / workers, static_cast<std::int32_t>(w));
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace

Result<std::unique_ptr<CpuKernel>> jit(const ir::Func& func, const target::Target& target,
                                       const CodegenOptions& options) {
  TESSERA_TRY(const Binary binary, compile_kernel(func, target, options));
  return runtime::load_kernel(binary);
}

std::unique_ptr<CpuKernel> compile(const ir::Func& func) {
  if (const auto ok = ir::verify(func); !ok.ok()) {
    ADD_FAILURE() << ok.error().message;
    return nullptr;
  }
  auto kernel = jit(func, target::host(), {.verify_llvm = true});
  if (!kernel.ok()) {
    ADD_FAILURE() << kernel.error().message;
    return nullptr;
  }
  return std::move(kernel).value();
}

int run(const CpuKernel& kernel, const std::vector<void*>& params, int workers) {
  State state;
  tsr_host host{threaded_for, workers, &state};
  const auto bytes =
      static_cast<std::size_t>(kernel.info.shared_bytes + workers * kernel.info.worker_bytes);
  void* workspace = std::aligned_alloc(64, std::max<std::size_t>(bytes, 64));
  std::memset(workspace, 0xab, bytes);
  EXPECT_EQ(kernel.entry(params.data(), workspace, &host), 0);
  std::free(workspace);
  return state.calls;
}

int run(const ir::Func& func, const std::vector<void*>& params, int workers) {
  const auto kernel = compile(func);
  return kernel ? run(*kernel, params, workers) : -1;
}

void expect_like_interp(const ir::Func& func, const std::vector<HostTensor>& inputs,
                        double tolerance) {
  std::vector<HostTensor> want;
  for (const HostTensor& input : inputs) want.push_back(input.clone());
  for (std::size_t i = inputs.size(); i < func.params.size(); ++i) {
    want.emplace_back(func.params[i]->dtype, func.params[i]->shape);
  }
  std::vector<HostTensor> got;
  std::vector<void*> pointers;
  for (HostTensor& tensor : want) pointers.push_back(got.emplace_back(tensor.clone()).data());
  const auto ran = interp::run(func, want);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  ASSERT_GE(run(func, pointers), 0);
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(testing::mismatch(got[i], want[i], tolerance), "") << func.params[i]->name;
  }
}

HostTensor edge_values(DType dtype, std::int64_t n, std::uint64_t seed) {
  static constexpr double kFloats[] = {0,    -0.0,  1,     -1,     0.5,   1.5,
                                       2.5,  -2.5,  3,     127.5,  -129,  255.75,
                                       1e-3, 65519, 65520, 3.4e38, -7e18, 1.00048828125};
  static constexpr std::int64_t kInts[] = {0,
                                           1,
                                           -1,
                                           2,
                                           -2,
                                           3,
                                           7,
                                           -7,
                                           8,
                                           63,
                                           64,
                                           127,
                                           128,
                                           -128,
                                           255,
                                           32767,
                                           65535,
                                           0x7fffffff,
                                           -0x80000000ll,
                                           0xffffffffll,
                                           INT64_MAX,
                                           INT64_MIN};
  HostTensor out(dtype, {n});
  Rng rng(seed);
  for (std::int64_t i = 0; i < n; ++i) {
    if (!is_float(dtype)) {
      out.set_int(i, kInts[rng.below(std::ssize(kInts))]);
      continue;
    }
    const std::int64_t pick = rng.below(std::ssize(kFloats) + 3);
    const double special[] = {NAN, INFINITY, -INFINITY};
    out.set_float(i,
                  pick < std::ssize(kFloats) ? kFloats[pick] : special[pick - std::ssize(kFloats)]);
  }
  return out;
}

ir::Func elementwise(std::vector<ir::Buffer> inputs, const std::vector<Output>& outputs,
                     const ir::Expr& block, int lanes) {
  std::vector<ir::Stmt> stores;
  for (const Output& output : outputs) {
    inputs.push_back(output.buffer);
    stores.push_back(store_vec(output.buffer, block * lanes, output.value));
  }
  const std::int64_t blocks = outputs[0].buffer->shape[0] / lanes;
  return {"elementwise", std::move(inputs), static_cast<int>(outputs.size()),
          ir::For::make(block, blocks, ir::LoopKind::kSerial, ir::Block::make(std::move(stores)))};
}

ir::Expr load_vec(const ir::Buffer& buffer, const ir::Expr& base, int lanes, std::int64_t stride) {
  return ir::Load::make(buffer, {lanes == 1 ? base : ir::Ramp::make(base, stride, lanes)});
}

ir::Stmt store_vec(const ir::Buffer& buffer, const ir::Expr& base, const ir::Expr& value) {
  return ir::Store::make(
      buffer, {value.lanes() == 1 ? base : ir::Ramp::make(base, 1, value.lanes())}, value);
}

std::string type_and_lanes(const ::testing::TestParamInfo<std::tuple<DType, int>>& param) {
  return to_text(ir::Type{std::get<0>(param.param), std::get<1>(param.param)});
}

target::Target aarch64_target() {
  target::Target t;
  t.name = "aarch64";
  t.arch = target::Arch::kAArch64;
  t.triple = "aarch64-unknown-linux-gnu";
  t.cpu = "neoverse-v1";
  t.features = "+neon,+fullfp16,+dotprod,+i8mm,+bf16,-sve,-sve2";
  t.vector_bytes = 16;
  t.has_f16 = t.has_bf16_dot = t.has_bf16_mma = t.has_i8_dot = t.has_i8_mma = true;
  return t;
}

target::Target avx2_target() {
  target::Target t;
  t.name = "avx2";
  t.arch = target::Arch::kX86_64;
  t.triple = "x86_64-unknown-linux-gnu";
  t.cpu = "haswell";
  t.features = "+avx2,+fma,+f16c";
  t.vector_bytes = 32;
  t.vector_registers = 16;
  return t;
}

target::Target avx512_target() {
  target::Target t = avx2_target();
  t.name = "avx512";
  t.cpu = "cascadelake";
  t.features = "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512vnni";
  t.vector_bytes = 64;
  t.vector_registers = 32;
  t.has_i8_dot = true;
  return t;
}

int count(const std::string& text, const std::string& needle) {
  int n = 0;
  for (std::size_t at = text.find(needle); at != std::string::npos; at = text.find(needle, at + 1))
    ++n;
  return n;
}

}  // namespace tessera::codegen
