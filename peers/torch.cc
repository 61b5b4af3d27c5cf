// libtorch, eager mode. Two traps of the distribution's build are handled here: its oneDNN path is
// often the slower one, so each operation takes the faster of both; and the BLAS it calls has a
// thread pool of its own that torch does not know of.
#include <algorithm>
#include <chrono>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <dlfcn.h>
#include <torch/csrc/api/include/torch/version.h>

#include "peers/operation.h"

namespace tessera::peers {
namespace {

void set_blas_threads(int threads) {
  for (const char* library : {"libblas.so.3", "libopenblas.so.0"}) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    if (void* f = dlsym(handle, "openblas_set_num_threads")) {
      reinterpret_cast<void (*)(int)>(f)(threads);
    } else if (void* g = dlsym(handle, "bli_thread_set_num_threads")) {
      reinterpret_cast<void (*)(std::int64_t)>(g)(threads);
    }
    dlclose(handle);
  }
}

class TorchOperation final : public Operation {
 public:
  TorchOperation(const Spec& spec, int threads) : spec_(spec), threads_(threads) {}

  void bind(const std::vector<Buffer>& in) override {
    set_blas_threads(threads_);
    const Spec& s = spec_;
    switch (s.kind) {
      case OpKind::kMatmul:
        inputs_ = {matrix(in[0], s.m, s.k, s.transpose_a), matrix(in[1], s.k, s.n, s.transpose_b)};
        break;
      case OpKind::kBmm:
        inputs_ = {view(in[0], {s.batch, s.m, s.k}), view(in[1], {s.batch, s.k, s.n})};
        break;
      case OpKind::kDense:
        inputs_ = {view(in[0], {s.m, s.k}), view(in[1], {s.n, s.k}), view(in[2], {s.n})};
        break;
      case OpKind::kConv2d:
      case OpKind::kDepthwise:
        bind_conv(in);
        break;
      case OpKind::kSoftmax:
        inputs_ = {view(in[0], {s.rows, s.columns})};
        break;
      case OpKind::kLayernorm:
        inputs_ = {view(in[0], {s.rows, s.columns}), view(in[1], {s.columns}),
                   view(in[2], {s.columns})};
        break;
    }
    use_mkldnn_ = seconds_per_run(true) < seconds_per_run(false);
  }

  void run() override {
    const c10::InferenceMode no_gradients;
    // Only on change: setting the count rebuilds a pool.
    if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
    at::globalContext().setUserEnabledMkldnn(use_mkldnn_);
    result_ = compute();
  }

  void get_output(float* data) override {
    const c10::InferenceMode no_gradients;
    const ConvShape& c = spec_.conv;
    const at::Tensor dense = result_.contiguous();
    if (is_conv()) {
      copy_image(dense.data_ptr<float>(), Layout::kNchw, data, c.layout, c.n, c.oh, c.ow, c.co);
    } else {
      std::copy_n(dense.data_ptr<float>(), spec_.output_count, data);
    }
  }

 private:
  bool is_conv() const { return spec_.kind == OpKind::kConv2d || spec_.kind == OpKind::kDepthwise; }

  static at::Tensor view(const Buffer& buffer, std::vector<std::int64_t> dims) {
    return at::from_blob(const_cast<float*>(buffer.data()), dims, at::kFloat);
  }
  static at::Tensor matrix(const Buffer& buffer, std::int64_t rows, std::int64_t columns,
                           bool transpose) {
    return transpose ? view(buffer, {columns, rows}).t() : view(buffer, {rows, columns});
  }

  void bind_conv(const std::vector<Buffer>& in) {
    const ConvShape& c = spec_.conv;
    image_ = Buffer(in[0].count());
    copy_image(in[0].data(), c.layout, image_.data(), Layout::kNchw, c.n, c.h, c.w, c.ci);
    inputs_ = {view(image_, {c.n, c.ci, c.h, c.w}),
               view(in[1], {c.co, c.ci / c.groups, c.kh, c.kw})};
  }

  at::Tensor compute() const {
    const ConvShape& c = spec_.conv;
    switch (spec_.kind) {
      case OpKind::kDense:
        return at::linear(inputs_[0], inputs_[1], inputs_[2]).relu_();
      case OpKind::kConv2d:
      case OpKind::kDepthwise:
        return at::conv2d(inputs_[0], inputs_[1], {}, {c.stride, c.stride}, {c.pad, c.pad},
                          {c.dilation, c.dilation}, c.groups);
      case OpKind::kSoftmax:
        return at::softmax(inputs_[0], -1);
      case OpKind::kLayernorm:
        return at::layer_norm(inputs_[0], {spec_.columns}, inputs_[1], inputs_[2], 1e-5);
      default:
        return at::matmul(inputs_[0], inputs_[1]);
    }
  }

  double seconds_per_run(bool use_mkldnn) {
    using Clock = std::chrono::steady_clock;
    use_mkldnn_ = use_mkldnn;
    run();
    double best = 1e30;
    for (int i = 0; i < 5; ++i) {
      const Clock::time_point start = Clock::now();
      run();
      best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return best;
  }

  const Spec spec_;
  const int threads_;
  bool use_mkldnn_ = false;
  Buffer image_;
  std::vector<at::Tensor> inputs_;
  at::Tensor result_;
};

}  // namespace

std::string version() { return "libtorch " TORCH_VERSION; }

std::unique_ptr<Operation> make_operation(const Spec& spec, int threads) {
  return std::make_unique<TorchOperation>(spec, threads);
}

}  // namespace tessera::peers
