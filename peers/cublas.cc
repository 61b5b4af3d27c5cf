// cuBLASLt: matrix products on CUDA devices, in f32 without TF32, f16 or bf16 with sums in f32. Of
// the algorithms that its heuristic offers the fastest is taken, measured outside the timed call.
#include <algorithm>
#include <limits>

#include "peers/cuda.h"
#include "tessera/support/host_tensor.h"

namespace tessera::peers {
namespace {

// The few types of the interface that are used, as cublasLt.h has them.
using Status = int;  // 0 is success
using Handle = void*;
using Descriptor = void*;
struct Heuristic {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};
constexpr int kCompute32F = 68, kReal32F = 0, kReal16F = 2, kReal16BF = 14;
constexpr int kTransA = 3, kTransB = 4, kEpilogue = 7, kBiasPointer = 8;  // of a product
constexpr int kBatchCount = 5, kBatchStride = 6;                          // of a matrix
constexpr int kWorkspaceBytes = 1;                                        // of a preference
constexpr int kReluBias = 2 | 4;
constexpr std::size_t kWorkspace = 32 << 20;
constexpr int kAlgorithms = 16;

struct Library {
  Status (*create)(Handle*) = nullptr;
  std::size_t (*version)() = nullptr;
  Status (*product_create)(Descriptor*, int compute, int scale) = nullptr;
  Status (*product_set)(Descriptor, int what, const void*, std::size_t) = nullptr;
  Status (*matrix_create)(Descriptor*, int type, std::uint64_t rows, std::uint64_t columns,
                          std::int64_t stride) = nullptr;
  Status (*matrix_set)(Descriptor, int what, const void*, std::size_t) = nullptr;
  Status (*preference_create)(Descriptor*) = nullptr;
  Status (*preference_set)(Descriptor, int what, const void*, std::size_t) = nullptr;
  Status (*heuristic)(Handle, Descriptor product, Descriptor a, Descriptor b, Descriptor c,
                      Descriptor d, Descriptor preference, int requested, Heuristic*,
                      int* returned) = nullptr;
  Status (*multiply)(Handle, Descriptor product, const void* alpha, const void* a, Descriptor,
                     const void* b, Descriptor, const void* beta, const void* c, Descriptor,
                     void* d, Descriptor, const void* algorithm, void* workspace, std::size_t,
                     runtime::cuda::Stream) = nullptr;

  Library() {
    const runtime::SharedLibrary so = open_cuda_library({"libcublasLt.so.13", "libcublasLt.so.12"});
    must(so.find("cublasLtCreate", &create));
    must(so.find("cublasLtGetVersion", &version));
    must(so.find("cublasLtMatmulDescCreate", &product_create));
    must(so.find("cublasLtMatmulDescSetAttribute", &product_set));
    must(so.find("cublasLtMatrixLayoutCreate", &matrix_create));
    must(so.find("cublasLtMatrixLayoutSetAttribute", &matrix_set));
    must(so.find("cublasLtMatmulPreferenceCreate", &preference_create));
    must(so.find("cublasLtMatmulPreferenceSetAttribute", &preference_set));
    must(so.find("cublasLtMatmulAlgoGetHeuristic", &heuristic));
    must(so.find("cublasLtMatmul", &multiply));
  }
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

void check(const char* what, Status status) {
  if (status != 0)
    throw std::runtime_error(std::string(what) + ": cuBLAS status " + std::to_string(status));
}

DType dtype_of(Element e) {
  return e == Element::kF32 ? DType::kF32 : e == Element::kF16 ? DType::kF16 : DType::kBF16;
}

int library_type(Element e) {
  return e == Element::kF32 ? kReal32F : e == Element::kF16 ? kReal16F : kReal16BF;
}

// Matrices of the library are column-major: it is asked for the transposed product, whose operands
// are ours in reverse order.
class CublasOperation final : public Operation {
 public:
  explicit CublasOperation(const Spec& spec) : spec_(spec) {
    const Library& l = library();
    check("cublasLtCreate", l.create(&handle_));
    for (const std::int64_t count : spec.input_counts) inputs_.push_back(allocate(count));
    output_ = allocate(spec.output_count);
    workspace_ = stream_.allocate(kWorkspace);
    check("the product", l.product_create(&product_, kCompute32F, kReal32F));
    const bool dense = spec.kind == OpKind::kDense;
    const int trans_a = spec.transpose_a, trans_b = dense || spec.transpose_b;
    check("the product", l.product_set(product_, kTransA, &trans_b, sizeof trans_b));
    check("the product", l.product_set(product_, kTransB, &trans_a, sizeof trans_a));
    if (dense) {
      check("the bias", l.product_set(product_, kEpilogue, &kReluBias, sizeof kReluBias));
      check("the bias", l.product_set(product_, kBiasPointer, &inputs_[2], sizeof(void*)));
    }
    a_ = matrix(spec.m, spec.k, trans_a != 0);
    b_ = matrix(spec.k, spec.n, trans_b != 0);
    c_ = matrix(spec.m, spec.n, false);
  }

  void bind(const std::vector<Buffer>& inputs) override {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      HostTensor t(dtype_of(spec_.element), {inputs[i].count()});
      for (std::int64_t e = 0; e < t.size(); ++e) t.set_float(e, inputs[i].data()[e]);
      stream_.upload(inputs_[i], t.data(), t.bytes());
    }
    choose();
  }

  void run() override {
    start();
    stream_.wait();
  }

  std::optional<double> time(int calls) override {
    return stream_.time([&] { start(); }, calls);
  }

  void get_output(float* data) override {
    HostTensor t(dtype_of(spec_.element), {spec_.output_count});
    stream_.download(t.data(), output_, t.bytes());
    for (std::int64_t e = 0; e < t.size(); ++e) data[e] = static_cast<float>(t.get_float(e));
  }

  bool takes(Element) const override { return true; }

 private:
  void* allocate(std::int64_t count) {
    const int bytes = size_bytes(dtype_of(spec_.element));
    return stream_.allocate(static_cast<std::size_t>(count * bytes));
  }

  Descriptor matrix(std::int64_t rows, std::int64_t columns, bool transposed) {
    if (transposed) std::swap(rows, columns);
    Descriptor out = nullptr;
    check("a matrix", library().matrix_create(&out, library_type(spec_.element),
                                              static_cast<std::uint64_t>(columns),
                                              static_cast<std::uint64_t>(rows), columns));
    const int batch = to_int(spec_.batch);
    const std::int64_t stride = rows * columns;
    check("a batch", library().matrix_set(out, kBatchCount, &batch, sizeof batch));
    check("a batch", library().matrix_set(out, kBatchStride, &stride, sizeof stride));
    return out;
  }

  void choose() {
    const Library& l = library();
    Descriptor preference = nullptr;
    check("a preference", l.preference_create(&preference));
    check("a preference",
          l.preference_set(preference, kWorkspaceBytes, &kWorkspace, sizeof kWorkspace));
    std::vector<Heuristic> found(kAlgorithms);
    int count = 0;
    check("the heuristic", l.heuristic(handle_, product_, b_, a_, c_, c_, preference, kAlgorithms,
                                       found.data(), &count));
    if (count == 0) throw Unsupported("cuBLAS has no algorithm for it");
    double best_s = std::numeric_limits<double>::infinity();
    for (int i = 0; i < count; ++i) {
      const Heuristic before = chosen_;
      chosen_ = found[static_cast<std::size_t>(i)];
      run();
      double seconds = stream_.time([&] { start(); }, 8);
      seconds = std::min(seconds, stream_.time([&] { start(); }, 8));
      if (seconds < best_s) {
        best_s = seconds;
      } else {
        chosen_ = before;
      }
    }
    run();
  }

  void start() {
    constexpr float kOne = 1, kZero = 0;
    check("cublasLtMatmul",
          library().multiply(handle_, product_, &kOne, inputs_[1], b_, inputs_[0], a_, &kZero,
                             output_, c_, output_, c_, chosen_.algorithm, workspace_, kWorkspace,
                             stream_.get()));
  }

  const Spec spec_;
  CudaStream stream_;
  Handle handle_ = nullptr;
  Descriptor product_ = nullptr, a_ = nullptr, b_ = nullptr, c_ = nullptr;
  std::vector<void*> inputs_;
  void* output_ = nullptr;
  void* workspace_ = nullptr;
  Heuristic chosen_{};
};

}  // namespace

std::string version() {
  try {
    must(runtime::cuda::driver());
    const std::size_t number = library().version();
    return "cuBLAS " + std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) +
           "." + std::to_string(number % 100) + " (fastest of its algorithms)";
  } catch (const std::exception&) {
    return "";
  }
}

std::unique_ptr<Operation> make_operation(const Spec& spec, int /*threads*/) {
  switch (spec.kind) {
    case OpKind::kMatmul:
    case OpKind::kBmm:
    case OpKind::kDense:
      return std::make_unique<CublasOperation>(spec);
    default:
      throw Unsupported(std::string("cuBLAS has no ") + to_text(spec.kind));
  }
}

}  // namespace tessera::peers
