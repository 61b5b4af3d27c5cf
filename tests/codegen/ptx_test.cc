// PTX as text; tests/artifact has it assembled.
#include <sstream>

#include <gtest/gtest.h>

#include "device_program.h"
#include "kernel_runner.h"
#include "micro_kernel.h"
#include "tessera/lang/ir/text.h"

namespace tessera::codegen {
namespace {

std::string ptx_of(const ir::DeviceProgram& program, const char* machine = "h200") {
  const Result<Binary> binary =
      compile(program, target::find_target(machine).value(), {.verify_llvm = true});
  if (!binary.ok()) {
    ADD_FAILURE() << binary.error().message;
    return "";
  }
  EXPECT_EQ(binary->kind, runtime::BinaryKind::kPtx);
  return {binary->bytes.begin(), binary->bytes.end()};
}

// From the label of the loop that holds the most of `what` to the branch back.
std::string inner_loop(const std::string& ptx, const std::string& what) {
  std::string best;
  std::size_t at = 0;
  while ((at = ptx.find("\n$L", at)) != std::string::npos) {
    const std::size_t end = ptx.find("\n$L", at + 1);
    const std::string block = ptx.substr(at, end - at);
    if (count(block, what) > count(best, what)) best = block;
    ++at;
  }
  return best;
}

TEST(Ptx, KernelsSayTheirParametersAndThreads) {
  const std::string ptx = ptx_of(tiled_matmul(256));
  EXPECT_NE(ptx.find(".target sm_90a"), std::string::npos) << ptx.substr(0, 400);
  EXPECT_NE(ptx.find(".entry tsr0_tiles("), std::string::npos);
  EXPECT_NE(ptx.find(".maxntid 16, 16, 1"), std::string::npos);
  EXPECT_NE(ptx.find(".shared"), std::string::npos);
  EXPECT_EQ(count(ptx, "bar.sync"), 2);
  EXPECT_EQ(count(ptx, ".local"), 0) << "sums are in memory";
}

TEST(Ptx, TheInnerLoopOfAMatmulIsLoadsAndFmas) {
  const std::string ptx = ptx_of(tiled_matmul(256));
  const std::string loop = inner_loop(ptx, "fma.rn.f32");
  EXPECT_EQ(count(loop, "fma.rn.f32"), 16) << loop;
  EXPECT_EQ(count(loop, "ld.shared.v4.f32"), 2) << loop;
  EXPECT_EQ(count(loop, ".s64"), 0) << loop;
  EXPECT_EQ(count(loop, ".u64"), 0) << loop;
  EXPECT_GE(count(ptx, "ld.global.v4.f32"), 1);
  EXPECT_GE(count(ptx_of(tiled_matmul(256), "a100"), "ld.global.nc.v4.f32"), 1);
  EXPECT_GE(count(ptx, "st.shared.v4.f32"), 1);
  EXPECT_EQ(count(ptx, "st.global.v4.f32"), 4);
}

// The two factors of every product of a loop, in their order.
std::vector<std::pair<std::string, std::string>> factors_of(const std::string& loop) {
  std::vector<std::pair<std::string, std::string>> out;
  std::istringstream lines(loop);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string op, sum, x, y;
    words >> op >> sum >> x >> y;
    if (op == "fma.rn.f32") out.emplace_back(x, y);
  }
  return out;
}

TEST(Ptx, EveryProductSharesAFactorWithTheOneBefore) {
  const std::string ptx = ptx_of(tiled_matmul(256));
  const auto factors = factors_of(inner_loop(ptx, "fma.rn.f32"));
  ASSERT_EQ(factors.size(), 16u);
  for (std::size_t i = 1; i < factors.size(); ++i) {
    EXPECT_TRUE(factors[i].first == factors[i - 1].first ||
                factors[i].second == factors[i - 1].second)
        << i;
  }
  EXPECT_EQ(count(ptx, "0f80000000"), 16) << "what is stored is the register of a sum";
}

TEST(Ptx, ThreadsExchangeRegisters) {
  const std::string ptx = ptx_of(row_sums(32));
  EXPECT_EQ(count(ptx, "shfl.sync.bfly.b32"), 5);
  EXPECT_EQ(count(ptx, ".entry"), 2);
}

TEST(Ptx, LaunchesSayWhichMemoryTheyTake) {
  const Result<Binary> binary = compile(row_sums(32), target::find_target("t4").value());
  ASSERT_TRUE(binary.ok()) << binary.error().message;
  ASSERT_EQ(binary->launches.size(), 2u);
  EXPECT_EQ(binary->parameters, 2);
  EXPECT_EQ(binary->temporaries, std::vector<std::int64_t>{128});
  EXPECT_EQ(binary->launches[0].arguments, (std::vector<int>{0, 2}));
  EXPECT_EQ(binary->launches[1].arguments, (std::vector<int>{2, 1}));
  EXPECT_EQ(binary->launches[0].grid, (std::array<std::int64_t, 3>{32, 1, 1}));
}

TEST(Ptx, LaunchesSayWhetherTheyWait) {
  for (const auto& [machine, waits] : {std::pair{"h200", true}, std::pair{"a100", false}}) {
    const Result<Binary> binary = compile(row_sums(32), target::find_target(machine).value());
    ASSERT_TRUE(binary.ok()) << binary.error().message;
    const std::string ptx(binary->bytes.begin(), binary->bytes.end());
    EXPECT_EQ(ptx.find("griddepcontrol.wait;") != std::string::npos, waits) << machine;
    for (const runtime::LaunchInfo& l : binary->launches) EXPECT_EQ(l.waits, waits) << machine;
  }
}

ir::DeviceProgram one_launch(const std::string& params, const std::string& body,
                             const std::string& shared = "") {
  return parse_program("device p" + params + " { launch k" +
                       "(A) -> (B) { grid bx in 4, by in 1, bz in 1 "
                       "block tx in 32, ty in 1, tz in 1 " +
                       shared + "\n" + body + "} }");
}

// Those that round exactly are calls.
TEST(Ptx, QuotientsAndRootsAreInstructions) {
  const std::string ptx = ptx_of(one_launch("(A: f32[4, 32]) -> (B: f32[4, 32])",
                                            "B[bx, tx] = tanh(A[bx, tx]) / sqrt(A[bx, tx])\n"));
  EXPECT_EQ(count(ptx, "div.full.f32"), 2);
  EXPECT_EQ(count(ptx, "sqrt.approx.f32"), 1);
  EXPECT_EQ(count(ptx, "div.rn.f32") + count(ptx, "sqrt.rn.f32"), 0);
}

TEST(Ptx, PairsOfHalvesAreExchangedAtOnce) {
  const std::string ptx =
      ptx_of(one_launch("(A: f16[4, 64]) -> (B: f16[4, 64])",
                        "B[bx, ramp(tx * 2, 1, 2)] = shuffle_xor(A[bx, ramp(tx * 2, 1, 2)], 1)\n"));
  EXPECT_EQ(count(ptx, "shfl.sync.bfly.b32"), 1) << ptx;
}

TEST(Ptx, AsynchronousCopiesFromSm80On) {
  const ir::DeviceProgram p =
      one_launch("(A: f32[4, 128]) -> (B: f32[4, 128])",
                 "eval async_copy(S[ramp(tx * 4, 1, 4)], A[bx, ramp(tx * 4, 1, 4)])\n"
                 "eval async_commit()\neval async_wait(0)\nbarrier\n"
                 "B[bx, ramp(tx * 4, 1, 4)] = S[ramp(124 - tx * 4, 1, 4)]\n",
                 "shared S: f32[128]");
  const std::string ptx = ptx_of(p);
  EXPECT_EQ(count(ptx, "cp.async.cg.shared.global"), 1);
  EXPECT_EQ(count(ptx, "cp.async.commit_group"), 1);
  EXPECT_EQ(count(ptx, "cp.async.wait_group"), 1);
  const std::string old = ptx_of(p, "v100");
  EXPECT_EQ(count(old, "cp.async"), 0);
  EXPECT_EQ(count(old, "st.shared.v4.f32"), 1);
}

TEST(Ptx, ConditionsOfCopiesOfElementsAreNoBranches) {
  const ir::DeviceProgram p = one_launch("(A: f32[4, 32]) -> (B: f32[4, 32])",
                                         "if bx < 3 { if tx < 16 {\n"
                                         "eval async_copy(S[tx], A[bx, tx])\n"
                                         "} }\neval async_commit()\neval async_wait(0)\nbarrier\n"
                                         "B[bx, tx] = S[31 - tx]\n",
                                         "shared S: f32[32]");
  const std::string ptx = ptx_of(p, "a100");
  EXPECT_EQ(count(ptx, "\t@%p"), 1) << ptx;
  EXPECT_EQ(count(ptx, "cp.async.ca.shared.global"), 1) << ptx;
  EXPECT_EQ(count(ptx, "bra"), 0) << ptx;
  EXPECT_GE(count(ptx_of(p, "v100"), "bra"), 1) << "a copy that is none";
}

TEST(Ptx, LoadsThatConditionsGuardAreNoBranches) {
  const auto ptx_with = [](const std::string& type, const std::string& at,
                           const std::string& value) {
    return ptx_of(one_launch(fmt::format("(A: {0}[4, 64]) -> (B: {0}[4, 64])", type),
                             "B[bx, " + at + "] = " + value + "\n"),
                  "a100");
  };
  for (const std::string& ptx :
       {ptx_with("f16", "tx", "select(2 <= tx, A[bx, tx - 2], 0.0f16)"),
        ptx_with("f16", "tx", "select(tx < 30, select(2 <= tx, A[bx, tx - 2], 0.0f16), 1.0f16)"),
        ptx_with("f32", "tx", "select(2 <= tx, A[bx, tx - 2], 0.0)"),
        ptx_with("f32", "tx",
                 "select(2 <= tx, A[bx, tx - 2], 0.0) * select(2 <= tx, A[bx, tx - 2], 0.0)"),
        ptx_with("f32", "ramp(tx * 2, 1, 2)",
                 "select(2 <= tx, A[bx, ramp(tx * 2 - 4, 1, 2)], broadcast(0.0, 2))")}) {
    EXPECT_EQ(count(ptx, "bra"), 0) << ptx;
    EXPECT_EQ(count(ptx, "ld.global"), 1) << ptx;
  }
}

TEST(Ptx, NeighboursThatAConditionGuardsAreLoadedTogether) {
  const std::string ptx = ptx_of(one_launch("(A: f32[4, 128]) -> (B: f32[4, 128])",
                                            "B[bx, ramp(tx * 4, 1, 2)] = select(2 <= tx, A[bx, "
                                            "ramp(tx * 4 - 8, 1, 2)], broadcast(0.0, 2))\n"
                                            "B[bx, ramp(tx * 4 + 2, 1, 2)] = select(2 <= tx, A[bx, "
                                            "ramp(tx * 4 - 6, 1, 2)], broadcast(0.0, 2))\n"),
                                 "a100");
  EXPECT_EQ(count(ptx, "ld.global.nc.v4.f32"), 1) << ptx;
}

TEST(Ptx, CopiesOfVectorsThatConditionsGuardAreBranches) {
  const std::string ptx =
      ptx_of(one_launch("(A: f32[4, 64]) -> (B: f32[4, 64])",
                        "S[ramp(tx * 2, 1, 2)] = select(2 <= tx, A[bx, ramp(tx * 2 - 4, 1, 2)], "
                        "broadcast(0.0, 2))\n"
                        "barrier\nB[bx, ramp(tx * 2, 1, 2)] = S[ramp(62 - tx * 2, 1, 2)]\n",
                        "shared S: f32[64]"),
             "a100");
  EXPECT_GE(count(ptx, "bra"), 1) << ptx;
}

TEST(Ptx, ThreadsOfFewBlocksMayHaveManyRegisters) {
  const auto ptx_with = [](int blocks) {
    return ptx_of(parse_program(fmt::format("device p(A: f32[{0}, 32]) -> (B: f32[{0}, 32]) {{ "
                                            "launch k(A) -> (B) {{ "
                                            "grid bx in {0}, by in 1, bz in 1 "
                                            "block tx in 32, ty in 1, tz in 1\n"
                                            "B[bx, tx] = A[bx, tx]\n}} }}",
                                            blocks)),
                  "a100");  // 108 multiprocessors
  };
  EXPECT_EQ(count(ptx_with(108), ".minnctapersm 1\n"), 1);
  EXPECT_EQ(count(ptx_with(109), ".minnctapersm 2\n"), 1);
  EXPECT_EQ(count(ptx_with(108 * 16), ".minnctapersm 16\n"), 1);
  EXPECT_EQ(count(ptx_with(108 * 16 + 1), "minnctapersm"), 0);
}

TEST(Ptx, IndicesThatAreLoadedAreNotLoadedOutside) {
  const std::string ptx =
      ptx_of(one_launch("(A: f16[4, 32]) -> (B: f16[4, 32])",
                        "I[tx] = tx\nbarrier\n"
                        "B[bx, tx] = select(2 <= tx, A[bx, I[tx - 2]], 0.0f16)\n",
                        "shared I: i64[32]"),
             "a100");
  EXPECT_GE(count(ptx, "bra") + count(ptx, "\t@%p"), 1) << ptx;
}

TEST(Ptx, HalvesSideBySideAreStoredTogether) {
  const std::string ptx = ptx_of(one_launch("(A: f16[4, 64]) -> (B: f16[4, 64])",
                                            "B[bx, tx * 2] = A[bx, 63 - tx]\n"
                                            "B[bx, tx * 2 + 1] = A[bx, tx]\n"));
  EXPECT_EQ(count(ptx, "st.global"), 1) << ptx;
}

TEST(Ptx, KernelsOfHopperFetchWhatOthersWillRead) {
  const ir::DeviceProgram p = row_sums(32);
  EXPECT_EQ(count(ptx_of(p), "cp.async.bulk.prefetch.L2.global"), 2);  // one of each launch
  EXPECT_EQ(count(ptx_of(p, "a100"), "cp.async.bulk.prefetch"), 0);
  const int parameters = count(ptx_of(p, "a100"), ".param .u64");
  EXPECT_EQ(count(ptx_of(p), ".param .u64"), parameters + 6);
}

TEST(Ptx, KernelsOfHopperWaitForTheOneBefore) {
  const ir::DeviceProgram p = row_sums(32);
  const std::string ptx = ptx_of(p);
  const std::size_t second = ptx.find(".entry", ptx.find(".entry") + 1);
  for (const std::string& kernel : {ptx.substr(0, second), ptx.substr(second)}) {
    const std::size_t wait = kernel.find("griddepcontrol.wait;");
    ASSERT_NE(wait, std::string::npos) << kernel;
    for (const char* access : {"ld.global", "st.global"}) {
      EXPECT_GE(count(kernel, access), 1) << kernel;
      EXPECT_LT(wait, kernel.find(access)) << kernel;
    }
    EXPECT_EQ(count(kernel, "ld.global.nc"), 0) << "it may move above the wait";
    EXPECT_GT(kernel.find("griddepcontrol.launch_dependents;"), kernel.rfind("st.global"));
  }
  EXPECT_EQ(count(ptx_of(p, "a100"), "griddepcontrol"), 0);
}

// A barrier does not change what the kernel reads, and neither does a store.
TEST(Ptx, KernelsThatWaitReadTheirInputsOnceAndEarly) {
  const std::string twice = ptx_of(one_launch(
      "(A: f32[4, 32]) -> (B: f32[4, 32])",
      "S[tx] = A[bx, tx]\nbarrier\nB[bx, tx] = A[bx, tx] + S[31 - tx]\n", "shared S: f32[32]"));
  EXPECT_EQ(count(twice, "ld.global"), 1) << twice;
  const std::string rows = ptx_of(one_launch("(A: f32[4, 96]) -> (B: f32[4, 96])",
                                             "B[bx, tx] = A[bx, tx] + 1.0\n"
                                             "B[bx, tx + 32] = A[bx, tx + 32] + 1.0\n"
                                             "B[bx, tx + 64] = A[bx, tx + 64] + 1.0\n"));
  EXPECT_EQ(count(rows, "ld.global"), 3) << rows;
  EXPECT_LT(rows.rfind("ld.global"), rows.find("st.global")) << rows;
  // No more than a few registers hold.
  std::string many;
  for (int i = 0; i < 40; ++i)
    many += fmt::format("B[bx, tx + {0}] = A[bx, tx + {0}] + 1.0\n", 32 * i);
  const std::string some = ptx_of(one_launch("(A: f32[4, 1280]) -> (B: f32[4, 1280])", many));
  EXPECT_EQ(count(some, "ld.global"), 40);
  EXPECT_EQ(count(some.substr(0, some.find("st.global")), "ld.global"), 33);
}

// A launch of two inputs, of which W is constant.
std::string ptx_with_constant(const std::string& body, const std::string& shared = "") {
  ir::DeviceProgram p = parse_program(
      "device p(A: f32[4, 128], W: f32[4, 128]) -> (B: f32[4, 128]) { launch k(A, W) -> (B) { "
      "grid bx in 4, by in 1, bz in 1 block tx in 32, ty in 1, tz in 1 " +
      shared + "\n" + body + "} }");
  p.constants = {p.params[1]};
  return ptx_of(p);
}

TEST(Ptx, KernelsThatWaitReadConstantsAtAnyTime) {
  const std::string ptx = ptx_with_constant("B[bx, tx] = A[bx, tx] * W[bx, tx]\n");
  EXPECT_EQ(count(ptx, "ld.global.nc"), 1) << ptx;
  EXPECT_EQ(count(ptx, "ld.global"), 2) << ptx;
  EXPECT_LT(ptx.find("griddepcontrol.wait;"), ptx.find("ld.global.f32")) << ptx;
}

TEST(Ptx, KernelsThatWaitStartTheFirstCopiesOfConstantsBefore) {
  const auto copy = [](const std::string& to, const std::string& from) {
    return "eval async_copy(" + to + "[ramp(tx * 4, 1, 4)], " + from +
           "[bx, ramp(tx * 4, 1, 4)])\n";
  };
  const std::string commit = "eval async_commit()\n";
  const auto before = [&](const std::string& body) {
    const std::string ptx = ptx_with_constant(body + commit +
                                                  "eval async_wait(0)\nbarrier\n"
                                                  "B[bx, ramp(tx * 4, 1, 4)] = S[ramp(124 - tx * "
                                                  "4, 1, 4)] + T[ramp(124 - tx * 4, 1, 4)]\n",
                                              "shared S: f32[128] shared T: f32[128]");
    EXPECT_EQ(count(ptx, "cp.async.cg"), 2) << ptx;
    return count(ptx.substr(0, ptx.find("griddepcontrol.wait;")), "cp.async.cg");
  };
  EXPECT_EQ(before(copy("S", "A") + copy("T", "W")), 1);
  EXPECT_EQ(before("if bx < 3 {\n" + copy("S", "A") + "}\n" + copy("T", "W")), 1);
  EXPECT_EQ(before(copy("S", "A") + "if bx < 3 {\n" + copy("T", "W") + "}\n"), 1);
  EXPECT_EQ(before(copy("S", "A") + commit + copy("T", "W")), 0);
  EXPECT_EQ(before(copy("S", "A") + "barrier\n" + copy("T", "W")), 0);
  EXPECT_EQ(before("T[tx] = A[bx, tx]\n" + copy("T", "W") + copy("S", "A")), 0);
  // Rows that the kernel before this one chooses.
  EXPECT_EQ(before(copy("S", "A") + "eval async_copy(T[ramp(tx * 4, 1, 4)], "
                                    "W[cast<i64>(A[bx, 0]), ramp(tx * 4, 1, 4)])\n"),
            0);
}

TEST(Ptx, ProductsOfAWarpGoToTensorCores) {
  const std::string half = ptx_of(warp_products("f16", "f32", 8));
  EXPECT_EQ(count(half, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), 2) << half;
  EXPECT_EQ(count(half, ".minnctapersm 1"), 1) << half;
  EXPECT_EQ(count(half, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"), 1) << half;  // once for all
  EXPECT_EQ(count(ptx_of(warp_products("bf16", "f32", 8), "a100"), ".f32.bf16.bf16.f32"), 2);
  EXPECT_EQ(count(ptx_of(warp_products("i8", "i32", 16)), "m16n8k32.row.col.s32.s8.s8.s32"), 2);
  const std::string single = ptx_of(warp_products("f32", "f32", 4));
  EXPECT_EQ(count(single, "m16n8k8.row.col.f32.tf32.tf32.f32"), 2);
  EXPECT_GE(count(single, "cvt.rna.tf32.f32"), 6);
}

TEST(Ptx, WarpGroupsMultiplyTilesOfSharedMemory) {
  const std::string ptx = ptx_of(group_product("bf16", 128));
  EXPECT_EQ(count(ptx, "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"), 4) << ptx;
  EXPECT_EQ(count(ptx, ", 1, 1, 1, 0, 1;"), 4);  // the right operand lies the other way round
  EXPECT_EQ(count(ptx, "wgmma.commit_group.sync.aligned"), 1);
  EXPECT_EQ(count(ptx, "wgmma.wait_group.sync.aligned 1"), 1);
  EXPECT_EQ(count(ptx, "wgmma.wait_group.sync.aligned 0"), 1);
  EXPECT_EQ(count(ptx, "fence.proxy.async.shared::cta"), 2);
  EXPECT_NE(ptx.find(".shared .align 1024"), std::string::npos);
  EXPECT_EQ(count(ptx, ".local"), 0) << "sums are in memory";
}

TEST(Ptx, WarpGroupsMultiplyOtherTypesToo) {
  const std::string single = ptx_of(group_product("f32", 64, true));
  EXPECT_EQ(count(single, "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32"), 4) << single;
  EXPECT_EQ(count(single, ", 1, 1, 1;"), 4) << "operands are not turned";
  const std::string bytes = ptx_of(group_product("u8", 64, true, "i32"));
  EXPECT_EQ(count(bytes, "wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.u8"), 4) << bytes;
  EXPECT_EQ(count(bytes, ".local"), 0) << "sums are in memory";
  const std::string short_floats = ptx_of(group_product("f8e5m2", 64, true));
  EXPECT_EQ(count(short_floats, "wgmma.mma_async.sync.aligned.m64n64k32.f32.e5m2.e5m2"), 4);
}

TEST(Ptx, NamesALaterVersionForProductsOfBothSignsAlone) {
  const std::string same = ptx_of(group_product("u8", 64, true, "i32"));
  EXPECT_EQ(count(same, ".version 8.0\n"), 1) << same;
  const std::string mixed = ptx_of(group_product("u8", 64, true, "i32", "i8"));
  EXPECT_EQ(count(mixed, "wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.s8"), 4) << mixed;
  EXPECT_EQ(count(mixed, ".version 8.4\n"), 1);
  EXPECT_EQ(count(mixed, ".version"), 1);
}

TEST(Ptx, WaitsForProductsAloneOrForCopiesToo) {
  std::string text = ir::to_text(group_product("f16", 64));
  const std::string wait = "eval async_wait(0)";
  text.replace(text.find(wait), wait.size(), "eval products_wait()");
  const std::string ptx = ptx_of(ir::parse_device_program(text).value());
  EXPECT_EQ(count(ptx, "wgmma.wait_group.sync.aligned 0"), 1) << ptx;
  EXPECT_EQ(count(ptx, "cp.async.wait_group"), 1);
  EXPECT_EQ(count(ptx, "fence.proxy.async.shared::cta"), 1);
}

TEST(Ptx, RefusesProductsThatTheDeviceLacks) {
  const auto refused = [](const ir::DeviceProgram& program, const char* machine) {
    const Result<Binary> binary = compile(program, target::find_target(machine).value());
    return binary.ok() ? std::string() : binary.error().message;
  };
  EXPECT_EQ(refused(warp_products("bf16", "f32", 8), "t4"),
            "k: t4 has no tensor cores for products of 16 x 8 x 16 in bf16");
  EXPECT_EQ(refused(warp_products("f16", "f32", 8, 9), "h200"),
            "k: rows of S for tensor cores do not begin at multiples of 16 bytes (storage_align)");
  EXPECT_EQ(refused(group_product("f16", 64), "a100"),
            "k: a100 has no tensor cores for products of 64 x 64 x 16 in f16");
  EXPECT_EQ(refused(group_product("f16", 64), "opencl-1.2"), "k: a product of vectors in OpenCL C");
  EXPECT_EQ(refused(warp_products("f16", "f32", 8), "opencl-1.2"),
            "k: a product of vectors in OpenCL C");
}

TEST(Ptx, LargeSharedMemoryIsAskedForAtTheLaunch) {
  const ir::DeviceProgram p =
      one_launch("(A: f32[4, 32]) -> (B: f32[4, 32])",
                 "S[tx] = A[bx, tx]\nbarrier\nB[bx, tx] = S[31 - tx]\n", "shared S: f32[20000]");
  const Result<Binary> binary = compile(p, target::find_target("h200").value());
  ASSERT_TRUE(binary.ok()) << binary.error().message;
  EXPECT_EQ(binary->launches[0].shared_bytes, 80000);
}

TEST(Ptx, RefusesWhatGpusDoNotHave) {
  const auto refused = [](const std::string& value) {
    const Result<Binary> b =
        compile(one_launch("(A: f32[4, 32]) -> (B: f32[4, 32])", "B[bx, tx] = " + value + "\n"),
                target::find_target("h200").value());
    return b.ok() ? "" : b.error().message;
  };
  EXPECT_EQ(refused("exp(A[bx, tx])"), "");
  EXPECT_EQ(refused("sin(A[bx, tx])"), "k: sin on f32");
  EXPECT_EQ(refused("A[bx, tx] % 3.0"), "k: % on f32");
  const Result<Binary> loops =
      compile({micro_kernel(4, 4, 4, 8)}, target::find_target("h200").value());
  ASSERT_FALSE(loops.ok());
  EXPECT_EQ(loops.error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(compile(row_sums(32), target::host()).ok());
}

}  // namespace
}  // namespace tessera::codegen
