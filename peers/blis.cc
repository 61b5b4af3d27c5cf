// BLIS: matrix products through the typed interface, which takes the thread count per call.
#include <algorithm>

#include <blis.h>
#include <omp.h>

#include "peers/operation.h"

namespace tessera::peers {
namespace {

class BlisOperation final : public Operation {
 public:
  BlisOperation(const Spec& spec, int threads)
      : spec_(spec), threads_(threads), output_(spec.output_count) {}

  void bind(const std::vector<Buffer>& inputs) override {
    inputs_ = &inputs;
    // Packing inside the product reads [k, n] faster than [n, k].
    if (spec_.kind == OpKind::kDense) weights_ = transposed(inputs[1].data(), spec_.n, spec_.k);
  }

  void run() override {
    // A batch of small products scales far better over the batch than inside each product.
    if (spec_.batch >= threads_ && threads_ > 1) {
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
      for (std::int64_t b = 0; b < spec_.batch; ++b) multiply(b, 1);
    } else {
      for (std::int64_t b = 0; b < spec_.batch; ++b) multiply(b, threads_);
    }
    if (spec_.kind == OpKind::kDense) {
      add_bias_relu(output_.data(), (*inputs_)[2].data(), spec_.m, spec_.n);
    }
  }

  void get_output(float* data) override { std::copy_n(output_.data(), output_.count(), data); }

 private:
  void multiply(std::int64_t batch, int threads) {
    const bool ta = spec_.transpose_a;
    const bool tb = spec_.transpose_b;
    rntm_t runtime;
    bli_rntm_init(&runtime);
    bli_rntm_set_num_threads(threads, &runtime);
    float one = 1.0f;
    float zero = 0.0f;
    // The interface is not const-correct; a and b are only read.
    auto* a = const_cast<float*>((*inputs_)[0].data()) + batch * spec_.m * spec_.k;
    const Buffer& right = spec_.kind == OpKind::kDense ? weights_ : (*inputs_)[1];
    auto* b = const_cast<float*>(right.data()) + batch * spec_.k * spec_.n;
    bli_sgemm_ex(ta ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE, tb ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE,
                 spec_.m, spec_.n, spec_.k, &one, a, ta ? spec_.m : spec_.k, 1, b,
                 tb ? spec_.k : spec_.n, 1, &zero, output_.data() + batch * spec_.m * spec_.n,
                 spec_.n, 1, nullptr, &runtime);
  }

  const Spec spec_;
  const int threads_;
  const std::vector<Buffer>* inputs_ = nullptr;
  Buffer weights_;  // of dense, [k, n]
  Buffer output_;
};

}  // namespace

std::string version() {
  return std::string("BLIS ") + bli_info_get_version_str() + " " +
         bli_arch_string(bli_arch_query_id());
}

std::unique_ptr<Operation> make_operation(const Spec& spec, int threads) {
  switch (spec.kind) {
    case OpKind::kMatmul:
    case OpKind::kBmm:
    case OpKind::kDense:
      return std::make_unique<BlisOperation>(spec, threads);
    default:
      throw Unsupported(std::string("BLIS has no ") + to_text(spec.kind));
  }
}

}  // namespace tessera::peers
