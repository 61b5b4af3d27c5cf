// Do bulk tensor copies of Hopper (cp.async.bulk.tensor with mbarriers) feed wgmma faster than
// cp.async? The same tiles of the same products of f16, three ways:
//   async     every thread copies 16 bytes at a time, one barrier a step (as the kernels of Tessera
//   do) bulk      one thread asks for whole tiles and all wait for their mbarrier, one barrier a
//   step producer  a warp of its own asks, tiles are handed back through mbarriers, no barrier of
//   the block
//
//   nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a bench/studies/bulk_copies.cu -lcuda
//   -o bulk_copies && ./bulk_copies
//
// C[M][N] = A[M][K] * B[N][K], sums in f32, stored as f16. Times are of a CUDA graph of 20
// launches, the least of 9 replays.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define CHECK(call)                                                             \
  do {                                                                          \
    const int status = static_cast<int>(call);                                  \
    if (status != 0) {                                                          \
      std::printf("%s:%d: %s failed: %d\n", __FILE__, __LINE__, #call, status); \
      std::exit(1);                                                             \
    }                                                                           \
  } while (0)

namespace {

constexpr int kDepth = 64;  // of a tile: rows of 128 bytes, swizzled

enum Way { kAsync, kBulk, kProducer };

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// K lies side by side, 128 bytes a row, swizzled, 1024 bytes from 8 rows to the next 8.
__device__ __forceinline__ uint64_t matrix(uint32_t address) {
  return (uint64_t{1} << 62) | (uint64_t{64} << 32) | (uint64_t{1} << 16) |
         ((address & 0x3FFFF) >> 4);
}

template <int N>
__device__ void multiply(float* d, uint64_t a, uint64_t b);

template <>
__device__ __forceinline__ void multiply<64>(float* d, uint64_t a, uint64_t b) {
  asm volatile(
      "{ .reg .pred p; setp.eq.u32 p, 0, 0; "
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p, 1, 1, 0, 0; }\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b));
}

template <>
__device__ __forceinline__ void multiply<128>(float* d, uint64_t a, uint64_t b) {
  asm volatile(
      "{ .reg .pred p; setp.eq.u32 p, 0, 0; "
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
      "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0; }\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "l"(a), "l"(b));
}

__device__ __forceinline__ void barrier_init(uint32_t bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count));
}
__device__ __forceinline__ void barrier_expect(uint32_t bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t bar, uint32_t parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again; }" ::"r"(bar),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void bulk_copy(uint32_t to, const CUtensorMap* map, int column, int row,
                                          uint32_t bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(bar)
      : "memory");
}

// Rows [row, row + ROWS) and columns [k, k + 64) of a matrix, 16 bytes a thread, swizzled by hand.
template <int ROWS, int THREADS>
__device__ __forceinline__ void copy_rows(uint32_t to, const half* from, int row, int k,
                                          int depth) {
#pragma unroll
  for (int i = 0; i < ROWS * 8 / THREADS; ++i) {
    const int piece = i * THREADS + static_cast<int>(threadIdx.x), r = piece / 8, c = piece % 8;
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + r * 128 + ((c ^ (r % 8)) * 16)),
        "l"(from + static_cast<size_t>(row + r) * depth + k + c * 8)
        : "memory");
  }
}

// A block has GROUPS warp groups of 64 rows, each with TILES tiles of COLUMNS.
template <Way WAY, int GROUPS, int COLUMNS, int TILES, int PLACES>
__global__ void __launch_bounds__(GROUPS * 128 + (WAY == kProducer ? 32 : 0))
    product(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
            const half* a, const half* b, half* c, int n, int depth) {
  constexpr int kRows = 64 * GROUPS, kAll = COLUMNS * TILES, kThreads = 128 * GROUPS;
  constexpr int kBytesA = kRows * 128, kBytes = kBytesA + kAll * 128;
  extern __shared__ unsigned char memory[];
  __shared__ uint64_t full[PLACES], empty[PLACES];
  const uint32_t base = (shared_address(memory) + 1023) & ~1023u;
  const int row = static_cast<int>(blockIdx.x) * kRows,
            column = static_cast<int>(blockIdx.y) * kAll;
  const int group = static_cast<int>(threadIdx.x) / 128, steps = depth / kDepth;
  if (WAY != kAsync) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < PLACES; ++i) {
        barrier_init(shared_address(&full[i]), 1);
        barrier_init(shared_address(&empty[i]), GROUPS * 4);
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
  }
  const auto ask = [&](int step) {  // one thread
    const int place = step % PLACES;
    const uint32_t to = base + place * kBytes, bar = shared_address(&full[place]);
    barrier_expect(bar, kBytes);
    bulk_copy(to, &a_map, step * kDepth, row, bar);
    bulk_copy(to + kBytesA, &b_map, step * kDepth, column, bar);
  };
  const auto copy = [&](int step) {  // all threads
    if (step < steps) {
      const uint32_t to = base + step % PLACES * kBytes;
      copy_rows<kRows, kThreads>(to, a, row, step * kDepth, depth);
      copy_rows<kAll, kThreads>(to + kBytesA, b, column, step * kDepth, depth);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  if (WAY == kProducer && group == GROUPS) {
    if (threadIdx.x % 32 == 0) {
      for (int step = 0; step < steps; ++step) {
        const int place = step % PLACES, round = step / PLACES;
        if (round > 0) barrier_wait(shared_address(&empty[place]), (round - 1) & 1);
        ask(step);
      }
    }
    return;
  }
  // Two steps behind the products, so that the product before this one may still run.
  constexpr int kAhead = PLACES - 2;
  if (WAY == kAsync)
    for (int step = 0; step < kAhead; ++step) copy(step);
  if (WAY == kBulk && threadIdx.x == 0)
    for (int step = 0; step < kAhead && step < steps; ++step) ask(step);
  float sums[TILES][COLUMNS / 2];
  for (int t = 0; t < TILES; ++t)
    for (int i = 0; i < COLUMNS / 2; ++i) sums[t][i] = 0;
  for (int step = 0; step < steps; ++step) {
    const int place = step % PLACES;
    if (WAY == kAsync) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kAhead - 1) : "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    } else {
      barrier_wait(shared_address(&full[place]), (step / PLACES) & 1);
    }
    if (WAY != kProducer) __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    const uint32_t at = base + place * kBytes;
#pragma unroll
    for (int k = 0; k < kDepth / 16; ++k)
#pragma unroll
      for (int t = 0; t < TILES; ++t)
        multiply<COLUMNS>(sums[t], matrix(at + group * 64 * 128) + 2 * k,
                          matrix(at + kBytesA + t * COLUMNS * 128) + 2 * k);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (WAY == kAsync) copy(step + kAhead);
    if (WAY == kBulk && threadIdx.x == 0 && step + kAhead < steps) ask(step + kAhead);
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    // The product before this one has ended: its place is free.
    if (WAY == kProducer && step > 0 && threadIdx.x % 32 == 0)
      barrier_arrive(shared_address(&empty[(step - 1) % PLACES]));
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  const int lane = static_cast<int>(threadIdx.x) % 32,
            warp = static_cast<int>(threadIdx.x) % 128 / 32;
  for (int t = 0; t < TILES; ++t) {
    for (int i = 0; i < COLUMNS / 8; ++i) {
      for (int h = 0; h < 2; ++h) {
        const int r = row + group * 64 + warp * 16 + lane / 4 + 8 * h,
                  at = column + t * COLUMNS + i * 8 + lane % 4 * 2;
        *reinterpret_cast<half2*>(c + static_cast<size_t>(r) * n + at) =
            __floats2half2_rn(sums[t][4 * i + 2 * h], sums[t][4 * i + 2 * h + 1]);
      }
    }
  }
}

__global__ void fill(half* x, size_t count, uint32_t seed) {
  for (size_t i = blockIdx.x * size_t{256} + threadIdx.x; i < count; i += gridDim.x * size_t{256}) {
    uint32_t v = static_cast<uint32_t>(i) * 2654435761u + seed;
    v ^= v >> 15, v *= 0x2c1b3c6du, v ^= v >> 12;
    x[i] = __float2half(static_cast<float>(v % 2001) / 1000.0f - 1.0f);
  }
}

CUtensorMap map_of(half* x, int rows, int depth, int box_rows) {
  CUtensorMap map;
  const cuuint64_t dims[] = {static_cast<cuuint64_t>(depth), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(depth) * 2};
  const cuuint32_t box[] = {kDepth, static_cast<cuuint32_t>(box_rows)}, ones[] = {1, 1};
  CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, x, dims, strides, box,
                               ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                               CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

double worst(const half* a, const half* b, const half* c, int m, int n, int k) {
  std::vector<half> ha(size_t(m) * k), hb(size_t(n) * k), hc(size_t(m) * n);
  CHECK(cudaMemcpy(ha.data(), a, ha.size() * 2, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(hb.data(), b, hb.size() * 2, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(hc.data(), c, hc.size() * 2, cudaMemcpyDeviceToHost));
  double out = 0;
  for (int i = 0; i < 200; ++i) {
    const int r = static_cast<int>(i * 7919ll % m), s = static_cast<int>(i * 104729ll % n);
    double sum = 0;
    for (int x = 0; x < k; ++x)
      sum += double(__half2float(ha[size_t(r) * k + x])) * __half2float(hb[size_t(s) * k + x]);
    const double error =
        std::abs(sum - __half2float(hc[size_t(r) * n + s])) / (0.02 + std::abs(sum) * 2e-3);
    if (!(error <= out)) out = error;
  }
  return out;
}

template <Way WAY, int GROUPS, int COLUMNS, int TILES, int PLACES>
void measure(const char* way, half* a, half* b, half* c, int m, int n, int k) {
  constexpr int kRows = 64 * GROUPS, kAll = COLUMNS * TILES;
  const CUtensorMap a_map = map_of(a, m, k, kRows), b_map = map_of(b, n, k, kAll);
  const auto kernel = product<WAY, GROUPS, COLUMNS, TILES, PLACES>;
  const int bytes = PLACES * (kRows + kAll) * 128 + 1024;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const dim3 grid(m / kRows, n / kAll);
  const int threads = GROUPS * 128 + (WAY == kProducer ? 32 : 0);
  CHECK(cudaMemset(c, 0xff, size_t(m) * n * 2));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 20; ++i)
    kernel<<<grid, threads, bytes, stream>>>(a_map, b_map, a, b, c, n, k);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t from, to;
  CHECK(cudaEventCreate(&from));
  CHECK(cudaEventCreate(&to));
  float least = 1e30f;
  for (int i = 0; i < 9; ++i) {
    float ms = 0;
    CHECK(cudaEventRecord(from, stream));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaEventRecord(to, stream));
    CHECK(cudaEventSynchronize(to));
    CHECK(cudaEventElapsedTime(&ms, from, to));
    if (i > 1 && ms < least) least = ms;
  }
  const double us = least * 1e3 / 20, error = worst(a, b, c, m, n, k);
  std::printf("%dx%dx%d tile %dx%d places %d %-9s %8.2f us %6.1f TFLOP/s %s\n", m, n, k, kRows,
              kAll, PLACES, way, us, 2.0 * m * n * k / us * 1e-6, error <= 1 ? "ok" : "WRONG");
  std::fflush(stdout);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
}

template <int GROUPS, int COLUMNS, int TILES, int PLACES>
void all_ways(half* a, half* b, half* c, int m, int n, int k) {
  measure<kAsync, GROUPS, COLUMNS, TILES, PLACES>("async", a, b, c, m, n, k);
  measure<kBulk, GROUPS, COLUMNS, TILES, PLACES>("bulk", a, b, c, m, n, k);
  measure<kProducer, GROUPS, COLUMNS, TILES, PLACES>("producer", a, b, c, m, n, k);
}

}  // namespace

int main() {
  CHECK(cudaSetDevice(0));
  const size_t most = size_t{4096} * 4096;
  half *a, *b, *c;
  CHECK(cudaMalloc(&a, most * 2));
  CHECK(cudaMalloc(&b, most * 2));
  CHECK(cudaMalloc(&c, most * 2));
  fill<<<1024, 256>>>(a, most, 1);
  fill<<<1024, 256>>>(b, most, 2);
  CHECK(cudaDeviceSynchronize());
  all_ways<2, 128, 2, 4>(a, b, c, 2048, 2048, 2048);
  all_ways<2, 128, 2, 4>(a, b, c, 4096, 4096, 4096);
  all_ways<2, 128, 1, 6>(a, b, c, 1024, 1024, 1024);
  all_ways<2, 128, 1, 6>(a, b, c, 2048, 768, 3072);
  all_ways<1, 64, 1, 6>(a, b, c, 128, 3072, 768);
  all_ways<1, 64, 1, 6>(a, b, c, 128, 2304, 768);
  all_ways<1, 64, 1, 6>(a, b, c, 128, 768, 3072);
  return 0;
}
