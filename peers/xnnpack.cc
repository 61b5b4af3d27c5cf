// XNNPACK: operators with constant weights, NHWC inside.
#include <algorithm>
#include <limits>

#include <pthreadpool.h>
#include <xnnpack.h>

#include "peers/operation.h"

namespace tessera::peers {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void check(xnn_status status, const char* what) {
  if (status == xnn_status_success) return;
  throw std::runtime_error(std::string(what) + ": xnn_status " + std::to_string(status));
}

struct PoolDeleter {
  void operator()(pthreadpool* pool) const { pthreadpool_destroy(pool); }
};
struct OperatorDeleter {
  void operator()(xnn_operator* op) const { xnn_delete_operator(op); }
};

class XnnpackOperation final : public Operation {
 public:
  XnnpackOperation(const Spec& spec, int threads) : spec_(spec), output_(spec.output_count) {
    check(xnn_initialize(nullptr), "xnn_initialize");
    // A null pool means the calling thread alone.
    if (threads > 1) pool_.reset(pthreadpool_create(static_cast<std::size_t>(threads)));
    if (threads > 1 &&
        pthreadpool_get_threads_count(pool_.get()) != static_cast<std::size_t>(threads)) {
      throw std::runtime_error("pthreadpool_create did not give the threads asked for");
    }
  }

  void bind(const std::vector<Buffer>& inputs) override {
    operator_.reset();
    switch (spec_.kind) {
      case OpKind::kMatmul:
      case OpKind::kDense:
        bind_matrix(inputs);
        break;
      case OpKind::kConv2d:
      case OpKind::kDepthwise:
        bind_conv(inputs);
        break;
      default:
        bind_softmax(inputs);
        break;
    }
  }

  void run() override { check(xnn_run_operator(operator_.get(), pool_.get()), "xnn_run_operator"); }

  void get_output(float* data) override {
    if (spec_.kind == OpKind::kConv2d) {
      const ConvShape& c = spec_.conv;
      copy_image(output_.data(), Layout::kNhwc, data, c.layout, c.n, c.oh, c.ow, c.co);
    } else {
      std::copy_n(output_.data(), output_.count(), data);
    }
  }

 private:
  void bind_matrix(const std::vector<Buffer>& in) {
    const bool dense = spec_.kind == OpKind::kDense;
    const bool rows_are_outputs = dense || spec_.transpose_b;
    const auto n = static_cast<std::size_t>(spec_.n);
    const auto k = static_cast<std::size_t>(spec_.k);
    xnn_operator_t op = nullptr;
    check(xnn_create_fully_connected_nc_f32(
              k, n, k, n, in[1].data(), dense ? in[2].data() : nullptr, dense ? 0.0f : -kInfinity,
              kInfinity, rows_are_outputs ? 0 : XNN_FLAG_TRANSPOSE_WEIGHTS, &op),
          "xnn_create_fully_connected_nc_f32");
    operator_.reset(op);
    check(xnn_setup_fully_connected_nc_f32(op, static_cast<std::size_t>(spec_.m), in[0].data(),
                                           output_.data(), pool_.get()),
          "xnn_setup_fully_connected_nc_f32");
  }

  void bind_conv(const std::vector<Buffer>& in) {
    const ConvShape& c = spec_.conv;
    const auto u32 = [](std::int64_t size) { return static_cast<std::uint32_t>(size); };
    const auto size = [](std::int64_t s) { return static_cast<std::size_t>(s); };
    input_ = Buffer(in[0].count());
    copy_image(in[0].data(), c.layout, input_.data(), Layout::kNhwc, c.n, c.h, c.w, c.ci);
    const Buffer weights = channels_last_weights(c, in[1].data());
    xnn_operator_t op = nullptr;
    check(xnn_create_convolution2d_nhwc_f32(
              u32(c.pad), u32(c.pad), u32(c.pad), u32(c.pad), u32(c.kh), u32(c.kw), u32(c.stride),
              u32(c.stride), u32(c.dilation), u32(c.dilation), u32(c.groups), size(c.ci / c.groups),
              size(c.co / c.groups), size(c.ci), size(c.co), weights.data(), nullptr, -kInfinity,
              kInfinity, 0, &op),
          "xnn_create_convolution2d_nhwc_f32");
    operator_.reset(op);
    check(xnn_setup_convolution2d_nhwc_f32(op, size(c.n), size(c.h), size(c.w), input_.data(),
                                           output_.data(), pool_.get()),
          "xnn_setup_convolution2d_nhwc_f32");
  }

  void bind_softmax(const std::vector<Buffer>& in) {
    const auto columns = static_cast<std::size_t>(spec_.columns);
    xnn_operator_t op = nullptr;
    check(xnn_create_softmax_nc_f32(columns, columns, columns, 0, &op),
          "xnn_create_softmax_nc_f32");
    operator_.reset(op);
    check(xnn_setup_softmax_nc_f32(op, static_cast<std::size_t>(spec_.rows), in[0].data(),
                                   output_.data(), pool_.get()),
          "xnn_setup_softmax_nc_f32");
  }

  const Spec spec_;
  std::unique_ptr<pthreadpool, PoolDeleter> pool_;
  std::unique_ptr<xnn_operator, OperatorDeleter> operator_;
  Buffer input_;
  Buffer output_;
};

}  // namespace

// The library has no version number; the header of this API generation is the one of early 2022.
std::string version() { return "XNNPACK 2022 (matmul: B packed once)"; }

std::unique_ptr<Operation> make_operation(const Spec& spec, int threads) {
  if (spec.kind == OpKind::kBmm || spec.kind == OpKind::kLayernorm) {
    throw Unsupported(std::string("XNNPACK has no ") + to_text(spec.kind));
  }
  if (spec.transpose_a) throw Unsupported("XNNPACK has no matmul with a transposed A");
  return std::make_unique<XnnpackOperation>(spec, threads);
}

}  // namespace tessera::peers
