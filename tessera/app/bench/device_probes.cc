#include "tessera/app/bench/device_probes.h"

#include <algorithm>

#include <fmt/format.h>

namespace tessera::app {
namespace {

constexpr std::int64_t kThreads = 256;           // of a block
constexpr std::int64_t kVector = 4;              // elements of an access: 16 bytes
constexpr std::int64_t kUnrolled = 4;            // accesses of a round
constexpr std::int64_t kMostElements = 1 << 30;  // indices stay below 32 bits

std::int64_t block_threads(const target::Target& t) {
  return std::min<std::int64_t>(kThreads, t.gpu.block_threads);
}

std::string launch(std::int64_t blocks, std::int64_t threads, const std::string& shared,
                   const std::string& body) {
  return fmt::format(
      "launch probe(A) -> (B) {{\ngrid bx in {}, by in 1, bz in 1\n"
      "block tx in {}, ty in 1, tz in 1\n{}{}}}\n",
      blocks, threads, shared, body);
}

std::string program(const std::string& a, const std::string& b, const std::string& launched) {
  return fmt::format("device probe(A: {}) -> (B: {}) {{\n{}}}\n", a, b, launched);
}

// Lines of `text(i)` for each i below `count`.
template <class Text>
std::string lines(std::int64_t count, const Text& text) {
  std::string out;
  for (std::int64_t i = 0; i < count; ++i) out += text(i) + "\n";
  return out;
}

std::string vector_at(const std::string& buffer, std::int64_t i) {
  return fmt::format("{}[ramp({}, 1, {})]", buffer, kVector * i, kVector);
}

// What the threads of all blocks touch in one step: `rounds` of kUnrolled vectors each.
struct Walk {
  std::int64_t blocks = 1, threads = 1, rounds = 1;
  std::int64_t elements() const { return blocks * threads * rounds * kUnrolled * kVector; }
};
Walk walk_of(const target::Target& t, Walkers walkers, std::int64_t bytes) {
  Walk out{.blocks = 4 * t.cores, .threads = block_threads(t)};
  if (walkers == Walkers::kOne) out = {.blocks = 1, .threads = t.gpu.block_threads};
  const std::int64_t round = 4 * out.elements();
  out.rounds = std::clamp<std::int64_t>(bytes / round, 1, kMostElements / out.elements());
  return out;
}
// The block that a step takes the place of: nothing is left of the step before in an L1.
std::string walk_at(const Walk& w, std::int64_t i) {
  return fmt::format("((((bx + s * 37) %% {}) * {} + r) * {} + {}) * {} + tx * {}", w.blocks,
                     w.rounds, kUnrolled, i, w.threads * kVector, kVector);
}

}  // namespace

std::string tiny_kernel() {
  return program("f32[32]", "f32[32]", launch(1, 32, "", "B[tx] = A[tx]\n"));
}

std::string waves_of_blocks(const target::Target& t, std::int64_t blocks) {
  // More than half of a multiprocessor's: one block at a time.
  const std::int64_t elements = t.gpu.block_shared_bytes / 4 - 512;
  const std::string array = fmt::format("f32[{}, 128]", blocks);
  return program(array, array,
                 launch(blocks, 128, fmt::format("shared S: f32[{}]\n", elements),
                        "S[tx] = A[bx, tx]\nbarrier\nB[bx, tx] = S[127 - tx]\n"));
}

std::string barriers(const target::Target& t, std::int64_t steps) {
  const std::int64_t threads = block_threads(t);
  const std::string array = fmt::format("f32[{}, {}]", t.cores, threads);
  return program(array, array,
                 launch(t.cores, threads, fmt::format("shared S: f32[{}]\n", threads),
                        fmt::format("S[tx] = A[bx, tx]\nfor s in {} {{ barrier }}\n"
                                    "B[bx, tx] = S[{} - tx]\n",
                                    steps, threads - 1)));
}

std::string chase(std::int64_t elements, std::int64_t steps) {
  return program(
      fmt::format("i32[{}]", elements), "i32[1]",
      launch(1, 1, "",
             fmt::format("alloc at: i32[1] stack {{\nat[0] = B[0]\n"
                         "for s in {} {{ at[0] = A[cast<i64>(at[0])] }}\nB[0] = at[0]\n}}\n",
                         steps)));
}

std::string multiply_adds(const target::Target& t, std::int64_t warps, std::int64_t sums,
                          std::int64_t steps) {
  const std::int64_t threads = std::min(32 * warps, block_threads(t));
  const std::int64_t blocks = t.cores * 32 * warps / threads;
  const std::string body =
      fmt::format("alloc acc: f32[{}] stack {{\n", sums) +
      lines(sums, [](std::int64_t i) { return fmt::format("acc[{}] = A[bx, tx] + {}.0", i, i); }) +
      fmt::format("for s in {} {{\n", steps) +
      lines(kUnrolledSums * sums,
            [&](std::int64_t i) {
              return fmt::format("acc[{0}] = fma(acc[{0}], A[0, tx], A[bx, 0])", i % sums);
            }) +
      "}\nB[bx, tx] = acc[0]\n" +
      lines(sums - 1,
            [](std::int64_t i) { return fmt::format("B[bx, tx] = B[bx, tx] + acc[{}]", i + 1); }) +
      "}\n";
  const std::string array = fmt::format("f32[{}, {}]", blocks, threads);
  return program(array, array, launch(blocks, threads, "", body));
}

std::string warp_products(const target::Target& t, std::int64_t steps) {
  // Of eight warps: what each thread holds of 16 x 8 outputs, 16 x 16 and 16 x 8 operands of f16.
  const std::string body =
      "alloc acc: f32[32] stack {\n" +
      lines(8, [](std::int64_t i) { return vector_at("acc", i) + " = broadcast(0.0, 4)"; }) +
      fmt::format("for s in {} {{\n", steps) +
      lines(8,
            [](std::int64_t i) {
              return fmt::format(
                  "{0} = mma({0}, A[bx, ramp(tx * 8, 1, 8)], A[bx, ramp(tx * 4, 1, 4)])",
                  vector_at("acc", i));
            }) +
      "}\n" +
      lines(8,
            [](std::int64_t i) {
              return fmt::format("B[bx, ramp(tx * 32 + {}, 1, 4)] = {}", 4 * i,
                                 vector_at("acc", i));
            }) +
      "}\n";
  return program(fmt::format("f16[{}, 2048]", t.cores), fmt::format("f32[{}, 8192]", t.cores),
                 launch(t.cores, 256, "", body));
}

std::string group_products(const target::Target& t, std::int64_t steps) {
  const std::string body = fmt::format(
      "alloc C: f32[128] stack {{\nC[ramp(0, 1, 128)] = broadcast(0.0, 128)\n"
      "for s in {} {{\neval async_copy(S[ramp(tx * 8, 1, 8)], A[ramp(tx * 8, 1, 8)])\n"
      "eval async_commit()\neval async_wait(1)\nbarrier\n"
      "C[ramp(0, 1, 128)] = mma(C[ramp(0, 1, 128)], matrix_rows(S[0]), matrix_columns(T[0]))\n}}\n"
      "eval async_wait(0)\nB[bx, ramp(tx * 128, 1, 128)] = C[ramp(0, 1, 128)]\n}}\n",
      steps);
  return program("f16[4096]", fmt::format("f32[{}, 16384]", 2 * t.cores),
                 launch(2 * t.cores, 128, "shared S: f16[4096]\nshared T: f16[16384]\n", body));
}

std::string shared_reads(const target::Target& t, std::int64_t steps) {
  constexpr std::int64_t kReads = 8;
  const std::int64_t threads = block_threads(t), blocks = t.cores * 32 * kBusyWarps / threads;
  const std::int64_t row = threads * kVector;
  const std::string body =
      "alloc acc: f32[32] stack {\n" +
      lines(kReads, [](std::int64_t i) { return vector_at("acc", i) + " = broadcast(0.0, 4)"; }) +
      lines(2,
            [&](std::int64_t i) {
              return fmt::format("S[ramp(tx * 4 + {}, 1, 4)] = A[ramp(tx * 4, 1, 4)]", i * row);
            }) +
      fmt::format("barrier\nfor s in {} {{\n", steps) +
      lines(kReads,
            [&](std::int64_t i) {
              return fmt::format("{0} = {0} + S[ramp((tx + s * 32 + {1}) %% {2} * 4, 1, 4)]",
                                 vector_at("acc", i), i * 32, 2 * threads);
            }) +
      "}\n" +
      lines(kReads,
            [](std::int64_t i) {
              return fmt::format("B[bx, ramp(tx * 32 + {}, 1, 4)] = {}", 4 * i,
                                 vector_at("acc", i));
            }) +
      "}\n";
  return program(fmt::format("f32[{}]", row), fmt::format("f32[{}, {}]", blocks, threads * 32),
                 launch(blocks, threads, fmt::format("shared S: f32[{}]\n", 2 * row), body));
}

double walked_bytes(const target::Target& t, Walkers walkers, std::int64_t bytes) {
  return 4.0 * static_cast<double>(walk_of(t, walkers, bytes).elements());
}

std::string reads(const target::Target& t, Walkers walkers, std::int64_t bytes,
                  std::int64_t steps) {
  const Walk w = walk_of(t, walkers, bytes);
  const std::string body =
      "alloc acc: f32[16] stack {\n" +
      lines(kUnrolled,
            [](std::int64_t i) { return vector_at("acc", i) + " = broadcast(0.0, 4)"; }) +
      fmt::format("for s in {} {{ for r in {} {{\n", steps, w.rounds) +
      lines(kUnrolled,
            [&](std::int64_t i) {
              return fmt::format("{0} = {0} + A[ramp({1}, 1, 4)]", vector_at("acc", i),
                                 walk_at(w, i));
            }) +
      "} }\n" +
      lines(kUnrolled,
            [](std::int64_t i) {
              return fmt::format("B[bx, ramp(tx * 16 + {}, 1, 4)] = {}", 4 * i,
                                 vector_at("acc", i));
            }) +
      "}\n";
  return program(fmt::format("f32[{}]", w.elements()),
                 fmt::format("f32[{}, {}]", w.blocks, w.threads * 16),
                 launch(w.blocks, w.threads, "", body));
}

std::string writes(const target::Target& t, std::int64_t bytes, std::int64_t steps) {
  const Walk w = walk_of(t, Walkers::kAll, bytes);
  const std::string body =
      fmt::format("for s in {} {{ for r in {} {{\n", steps, w.rounds) +
      lines(kUnrolled,
            [&](std::int64_t i) {
              return fmt::format("B[ramp({}, 1, 4)] = A[ramp(0, 1, 4)]", walk_at(w, i));
            }) +
      "} }\n";
  return program("f32[4]", fmt::format("f32[{}]", w.elements()),
                 launch(w.blocks, w.threads, "", body));
}

}  // namespace tessera::app
