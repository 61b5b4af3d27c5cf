// OpenBLAS: matrix products. A batch is a loop of calls, as the CBLAS of this age has no batched
// one.
#include <algorithm>

#include <cblas.h>

#include "peers/operation.h"

namespace tessera::peers {
namespace {

class OpenBlasOperation final : public Operation {
 public:
  OpenBlasOperation(const Spec& spec, int threads)
      : spec_(spec), threads_(threads), output_(spec.output_count) {
    for (const std::int64_t size : {spec.m, spec.n, spec.k}) to_int(size);
  }

  void bind(const std::vector<Buffer>& inputs) override {
    inputs_ = &inputs;
    // Packing inside the product reads [k, n] faster than [n, k].
    if (spec_.kind == OpKind::kDense) weights_ = transposed(inputs[1].data(), spec_.n, spec_.k);
  }

  void run() override {
    // Per call: the count is global to the process, and another operation may have changed it.
    openblas_set_num_threads(threads_);
    const std::vector<Buffer>& in = *inputs_;
    const float* b_data = spec_.kind == OpKind::kDense ? weights_.data() : in[1].data();
    for (std::int64_t b = 0; b < spec_.batch; ++b) {
      multiply(in[0].data() + b * spec_.m * spec_.k, b_data + b * spec_.k * spec_.n,
               output_.data() + b * spec_.m * spec_.n);
    }
    if (spec_.kind == OpKind::kDense) {
      add_bias_relu(output_.data(), in[2].data(), spec_.m, spec_.n);
    }
  }

  void get_output(float* data) override { std::copy_n(output_.data(), output_.count(), data); }

 private:
  void multiply(const float* a, const float* b, float* c) const {
    const bool tb = spec_.transpose_b;
    const int m = static_cast<int>(spec_.m);
    const int n = static_cast<int>(spec_.n);
    const int k = static_cast<int>(spec_.k);
    cblas_sgemm(CblasRowMajor, spec_.transpose_a ? CblasTrans : CblasNoTrans,
                tb ? CblasTrans : CblasNoTrans, m, n, k, 1.0f, a, spec_.transpose_a ? m : k, b,
                tb ? k : n, 0.0f, c, n);
  }

  const Spec spec_;
  const int threads_;
  const std::vector<Buffer>* inputs_ = nullptr;
  Buffer weights_;  // of dense, [k, n]
  Buffer output_;
};

}  // namespace

std::string version() {
  // "OpenBLAS 0.3.21 NO_LAPACKE ... ": the options after the number are of no interest.
  const std::string config = openblas_get_config();
  const std::size_t end = config.find(' ', config.find(' ') + 1);
  return config.substr(0, end) + " " + openblas_get_corename();
}

std::unique_ptr<Operation> make_operation(const Spec& spec, int threads) {
  switch (spec.kind) {
    case OpKind::kMatmul:
    case OpKind::kBmm:
    case OpKind::kDense:
      return std::make_unique<OpenBlasOperation>(spec, threads);
    default:
      throw Unsupported(std::string("OpenBLAS has no ") + to_text(spec.kind));
  }
}

}  // namespace tessera::peers
