// Arm Compute Library, NEON functions, NHWC inside. Every function is configured before its tensors
// are allocated, because configuring decides their padding; all copies therefore honour strides.
#include <algorithm>

#include <arm_compute/runtime/NEON/functions/NEConvolutionLayer.h>
#include <arm_compute/runtime/NEON/functions/NEDepthwiseConvolutionLayer.h>
#include <arm_compute/runtime/NEON/functions/NEFullyConnectedLayer.h>
#include <arm_compute/runtime/NEON/functions/NEGEMM.h>
#include <arm_compute/runtime/NEON/functions/NESoftmaxLayer.h>
#include <arm_compute/runtime/Scheduler.h>
#include <arm_compute/runtime/Tensor.h>

#include "peers/operation.h"

namespace tessera::peers {
namespace {

namespace acl = arm_compute;

acl::TensorInfo info(const acl::TensorShape& shape) {
  acl::TensorInfo result(shape, 1, acl::DataType::F32);
  result.set_data_layout(acl::DataLayout::NHWC);
  return result;
}

// Calls visit(row pointer in the tensor, offset of that row in dense memory).
template <typename Visit>
void for_each_row(acl::Tensor& tensor, Visit visit) {
  const acl::TensorShape& shape = tensor.info()->tensor_shape();
  std::int64_t offset = 0;
  for (std::size_t n = 0; n < shape[3]; ++n) {
    for (std::size_t z = 0; z < shape[2]; ++z) {
      for (std::size_t y = 0; y < shape[1]; ++y) {
        const acl::Coordinates at(0, static_cast<int>(y), static_cast<int>(z), static_cast<int>(n));
        visit(reinterpret_cast<float*>(tensor.ptr_to_element(at)), offset);
        offset += static_cast<std::int64_t>(shape[0]);
      }
    }
  }
}

void fill(acl::Tensor& tensor, const float* data) {
  const std::size_t row = tensor.info()->tensor_shape()[0];
  for_each_row(tensor, [&](float* p, std::int64_t offset) { std::copy_n(data + offset, row, p); });
}

// One function with its tensors; x, w and bias are inputs, y the output.
struct Bound {
  acl::Tensor x, w, bias, y;
  std::unique_ptr<acl::IFunction> function;
};

class AclOperation final : public Operation {
 public:
  AclOperation(const Spec& spec, int threads)
      : spec_(spec), threads_(static_cast<unsigned>(threads)) {
    const acl::Status status = validate();
    if (!status) throw Unsupported("Arm Compute Library: " + status.error_description());
  }

  void bind(const std::vector<Buffer>& in) override {
    use_threads();
    // A function packs its weights once in its life, so new inputs need a new one.
    bound_ = std::make_unique<Bound>();
    bound_->x.allocator()->init(x_info());
    bound_->y.allocator()->init(y_info());
    if (has_weights()) bound_->w.allocator()->init(w_info());
    if (has_bias()) bound_->bias.allocator()->init(bias_info());
    bound_->function = configure();
    for (acl::Tensor* tensor : {&bound_->x, &bound_->y, &bound_->w, &bound_->bias}) {
      if (tensor->info()->total_size() != 0) tensor->allocator()->allocate();
    }
    fill_inputs(in);
    bound_->function->prepare();
  }

  void run() override {
    use_threads();
    bound_->function->run();
  }

  void get_output(float* data) override {
    const ConvShape& c = spec_.conv;
    Buffer dense(spec_.output_count);
    const std::size_t row = bound_->y.info()->tensor_shape()[0];
    for_each_row(bound_->y, [&](const float* p, std::int64_t offset) {
      std::copy_n(p, row, dense.data() + offset);
    });
    if (is_conv()) {
      copy_image(dense.data(), Layout::kNhwc, data, c.layout, c.n, c.oh, c.ow, c.co);
    } else {
      std::copy_n(dense.data(), dense.count(), data);
    }
  }

 private:
  static std::size_t size(std::int64_t s) { return static_cast<std::size_t>(s); }

  bool is_conv() const { return spec_.kind == OpKind::kConv2d || is_depthwise(); }
  bool is_depthwise() const {
    const ConvShape& c = spec_.conv;
    return spec_.kind == OpKind::kDepthwise ||
           (spec_.kind == OpKind::kConv2d && c.groups > 1 && c.groups == c.ci && c.ci == c.co);
  }
  bool has_weights() const { return spec_.kind != OpKind::kSoftmax; }
  bool has_bias() const { return spec_.kind == OpKind::kDense; }

  acl::TensorInfo x_info() const {
    const ConvShape& c = spec_.conv;
    if (is_conv()) return info({size(c.ci), size(c.w), size(c.h), size(c.n)});
    if (spec_.kind == OpKind::kSoftmax) return info({size(spec_.columns), size(spec_.rows)});
    return info({size(spec_.k), size(spec_.m)});
  }
  acl::TensorInfo y_info() const {
    const ConvShape& c = spec_.conv;
    if (is_conv()) return info({size(c.co), size(c.ow), size(c.oh), size(c.n)});
    if (spec_.kind == OpKind::kSoftmax) return x_info();
    return info({size(spec_.n), size(spec_.m)});
  }
  acl::TensorInfo w_info() const {
    const ConvShape& c = spec_.conv;
    if (is_depthwise()) return info({size(c.ci), size(c.kw), size(c.kh)});
    if (is_conv()) return info({size(c.ci / c.groups), size(c.kw), size(c.kh), size(c.co)});
    if (spec_.kind == OpKind::kDense) return info({size(spec_.k), size(spec_.n)});
    return info({size(spec_.n), size(spec_.k)});
  }
  acl::TensorInfo bias_info() const { return info(acl::TensorShape(size(spec_.n))); }

  acl::PadStrideInfo padding() const {
    const auto stride = static_cast<unsigned>(spec_.conv.stride);
    const auto pad = static_cast<unsigned>(spec_.conv.pad);
    return acl::PadStrideInfo(stride, stride, pad, pad);
  }
  acl::Size2D dilation() const {
    return acl::Size2D(size(spec_.conv.dilation), size(spec_.conv.dilation));
  }
  unsigned groups() const { return static_cast<unsigned>(spec_.conv.groups); }

  static acl::FullyConnectedLayerInfo relu() {
    acl::FullyConnectedLayerInfo result;
    result.activation_info =
        acl::ActivationLayerInfo(acl::ActivationLayerInfo::ActivationFunction::RELU);
    return result;
  }

  acl::Status validate() const {
    const acl::TensorInfo x = x_info();
    const acl::TensorInfo y = y_info();
    if (spec_.kind == OpKind::kSoftmax) return acl::NESoftmaxLayer::validate(&x, &y);
    const acl::TensorInfo w = w_info();
    const acl::TensorInfo bias = bias_info();
    if (spec_.kind == OpKind::kDense) {
      return acl::NEFullyConnectedLayer::validate(&x, &w, &bias, &y, relu());
    }
    if (spec_.kind == OpKind::kMatmul)
      return acl::NEGEMM::validate(&x, &w, nullptr, &y, 1.0f, 0.0f);
    if (is_depthwise()) {
      return acl::NEDepthwiseConvolutionLayer::validate(&x, &w, nullptr, &y, padding(), 1, {},
                                                        dilation());
    }
    return acl::NEConvolutionLayer::validate(&x, &w, nullptr, &y, padding(), {}, dilation(), {},
                                             false, groups());
  }

  template <typename Function, typename... Arguments>
  static std::unique_ptr<acl::IFunction> configured(Arguments&&... arguments) {
    auto function = std::make_unique<Function>();
    function->configure(std::forward<Arguments>(arguments)...);
    return function;
  }

  std::unique_ptr<acl::IFunction> configure() {
    Bound& b = *bound_;
    const acl::ActivationLayerInfo none;
    if (spec_.kind == OpKind::kSoftmax) return configured<acl::NESoftmaxLayer>(&b.x, &b.y);
    if (spec_.kind == OpKind::kDense) {
      return configured<acl::NEFullyConnectedLayer>(&b.x, &b.w, &b.bias, &b.y, relu());
    }
    if (spec_.kind == OpKind::kMatmul) {
      return configured<acl::NEGEMM>(&b.x, &b.w, nullptr, &b.y, 1.0f, 0.0f);
    }
    if (is_depthwise()) {
      return configured<acl::NEDepthwiseConvolutionLayer>(&b.x, &b.w, nullptr, &b.y, padding(), 1u,
                                                          none, dilation());
    }
    return configured<acl::NEConvolutionLayer>(&b.x, &b.w, nullptr, &b.y, padding(),
                                               acl::WeightsInfo(), dilation(), none, false,
                                               groups());
  }

  void fill_inputs(const std::vector<Buffer>& in) {
    const ConvShape& c = spec_.conv;
    if (!is_conv()) {
      fill(bound_->x, in[0].data());
      if (spec_.transpose_b) {
        fill(bound_->w, transposed(in[1].data(), spec_.n, spec_.k).data());
      } else if (has_weights()) {
        fill(bound_->w, in[1].data());
      }
      if (has_bias()) fill(bound_->bias, in[2].data());
      return;
    }
    Buffer image(in[0].count());
    copy_image(in[0].data(), c.layout, image.data(), Layout::kNhwc, c.n, c.h, c.w, c.ci);
    fill(bound_->x, image.data());
    if (is_depthwise()) {
      fill(bound_->w, transposed(in[1].data(), c.ci, c.kh * c.kw).data());
    } else {
      fill(bound_->w, channels_last_weights(c, in[1].data()).data());
    }
  }

  void use_threads() const {
    acl::IScheduler& scheduler = acl::Scheduler::get();
    if (scheduler.num_threads() != threads_) scheduler.set_num_threads(threads_);
  }

  const Spec spec_;
  const unsigned threads_;
  std::unique_ptr<Bound> bound_;
};

}  // namespace

// The library cannot report its number through these headers; the NEON functions are those
// of 20.08. A B that changes between calls takes another, unpacked path at 40% of the speed
// (512x512x512), so matmul keeps the strong one and the version says so.
std::string version() { return "Arm Compute Library 20.08 (matmul: B packed once)"; }

std::unique_ptr<Operation> make_operation(const Spec& spec, int threads) {
  if (spec.kind == OpKind::kBmm || spec.kind == OpKind::kLayernorm) {
    throw Unsupported(std::string("Arm Compute Library has no f32 ") + to_text(spec.kind));
  }
  if (spec.transpose_a) throw Unsupported("Arm Compute Library has no matmul with a transposed A");
  return std::make_unique<AclOperation>(spec, threads);
}

}  // namespace tessera::peers
