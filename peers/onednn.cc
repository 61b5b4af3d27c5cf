// oneDNN 2.x: memory formats of constant weights and of images are the library's choice; the
// reorders happen outside the timed call.
#include <algorithm>
#include <unordered_map>

#include <dnnl.hpp>
#include <omp.h>

#include "peers/operation.h"

namespace tessera::peers {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Desc = memory::desc;

constexpr auto kForward = dnnl::prop_kind::forward_inference;

Desc desc(const memory::dims& dims, Tag tag) { return Desc(dims, memory::data_type::f32, tag); }

class OneDnnOperation final : public Operation {
 public:
  OneDnnOperation(const Spec& spec, int threads)
      : spec_(spec), threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    omp_set_num_threads(
        threads_);  // a primitive splits its work for the count it was created under
    switch (spec_.kind) {
      case OpKind::kMatmul:
      case OpKind::kBmm:
        make_matmul();
        break;
      case OpKind::kDense:
        make_dense();
        break;
      case OpKind::kConv2d:
      case OpKind::kDepthwise:
        make_conv();
        break;
      case OpKind::kSoftmax:
        make_softmax();
        break;
      case OpKind::kLayernorm:
        make_layernorm();
        break;
    }
  }

  void bind(const std::vector<Buffer>& inputs) override {
    omp_set_num_threads(threads_);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      memory source(inputs_[i].canonical, engine_, const_cast<float*>(inputs[i].data()));
      memory target(inputs_[i].own, engine_);
      dnnl::reorder(source, target).execute(stream_, source, target);
      arguments_.insert_or_assign(inputs_[i].argument, target);
    }
    arguments_.insert_or_assign(DNNL_ARG_DST, memory(own_output_, engine_));
    stream_.wait();
  }

  void run() override {
    omp_set_num_threads(threads_);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

  void get_output(float* data) override {
    memory target(canonical_output_, engine_, data);
    memory& source = arguments_.at(DNNL_ARG_DST);
    dnnl::reorder(source, target).execute(stream_, source, target);
    stream_.wait();
  }

 private:
  struct Input {
    int argument;    // DNNL_ARG_*
    Desc canonical;  // as it crosses the C border
    Desc own;        // as the primitive wants it
  };

  void make_matmul() {
    const bool batched = spec_.kind == OpKind::kBmm;
    const auto dims = [&](std::int64_t rows, std::int64_t columns) {
      return batched ? memory::dims{spec_.batch, rows, columns} : memory::dims{rows, columns};
    };
    const auto tag = [&](bool transpose) {
      return batched ? Tag::abc : transpose ? Tag::ba : Tag::ab;
    };
    const Desc a = desc(dims(spec_.m, spec_.k), tag(spec_.transpose_a));
    const Desc b = desc(dims(spec_.k, spec_.n), tag(spec_.transpose_b));
    const Desc c = desc(dims(spec_.m, spec_.n), tag(false));
    const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a, b, c), engine_);
    primitive_ = dnnl::matmul(pd);
    inputs_ = {{DNNL_ARG_SRC, a, a}, {DNNL_ARG_WEIGHTS, b, b}};
    canonical_output_ = own_output_ = c;
  }

  void make_dense() {
    const Desc x = desc({spec_.m, spec_.k}, Tag::ab);
    const Desc w = desc({spec_.n, spec_.k}, Tag::ab);
    const Desc bias = desc({spec_.n}, Tag::a);
    const Desc y = desc({spec_.m, spec_.n}, Tag::ab);
    dnnl::post_ops relu;
    relu.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    dnnl::primitive_attr attr;
    attr.set_post_ops(relu);
    const dnnl::inner_product_forward::primitive_desc pd(
        dnnl::inner_product_forward::desc(kForward, x, desc({spec_.n, spec_.k}, Tag::any), bias, y),
        attr, engine_);
    primitive_ = dnnl::inner_product_forward(pd);
    inputs_ = {{DNNL_ARG_SRC, x, x},
               {DNNL_ARG_WEIGHTS, w, pd.weights_desc()},
               {DNNL_ARG_BIAS, bias, bias}};
    canonical_output_ = own_output_ = y;
  }

  void make_conv() {
    const ConvShape& c = spec_.conv;
    const Tag image = c.layout == Layout::kNhwc ? Tag::nhwc : Tag::nchw;
    const bool grouped = c.groups > 1;
    const memory::dims x_dims = {c.n, c.ci, c.h, c.w};
    const memory::dims y_dims = {c.n, c.co, c.oh, c.ow};
    const memory::dims w_dims =
        grouped ? memory::dims{c.groups, c.co / c.groups, c.ci / c.groups, c.kh, c.kw}
                : memory::dims{c.co, c.ci, c.kh, c.kw};
    const dnnl::convolution_forward::primitive_desc pd(
        dnnl::convolution_forward::desc(
            kForward, dnnl::algorithm::convolution_auto, desc(x_dims, Tag::any),
            desc(w_dims, Tag::any), desc(y_dims, Tag::any), {c.stride, c.stride},
            {c.dilation - 1, c.dilation - 1}, {c.pad, c.pad}, far_padding()),
        engine_);
    primitive_ = dnnl::convolution_forward(pd);
    inputs_ = {
        {DNNL_ARG_SRC, desc(x_dims, image), pd.src_desc()},
        {DNNL_ARG_WEIGHTS, desc(w_dims, grouped ? Tag::goihw : Tag::oihw), pd.weights_desc()}};
    canonical_output_ = desc(y_dims, image);
    own_output_ = pd.dst_desc();
  }

  // oneDNN wants the padding behind the last row and column to fit the output size exactly.
  memory::dims far_padding() const {
    const ConvShape& c = spec_.conv;
    const auto far = [&](std::int64_t in, std::int64_t out, std::int64_t kernel) {
      return (out - 1) * c.stride + (kernel - 1) * c.dilation + 1 - in - c.pad;
    };
    return {far(c.h, c.oh, c.kh), far(c.w, c.ow, c.kw)};
  }

  void make_softmax() {
    const Desc x = desc({spec_.rows, spec_.columns}, Tag::ab);
    primitive_ = dnnl::softmax_forward(dnnl::softmax_forward::primitive_desc(
        dnnl::softmax_forward::desc(kForward, x, 1), engine_));
    inputs_ = {{DNNL_ARG_SRC, x, x}};
    canonical_output_ = own_output_ = x;
  }

  void make_layernorm() {
    const Desc x = desc({spec_.rows, spec_.columns}, Tag::ab);
    const Desc scale = desc({spec_.columns}, Tag::a);
    const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
    primitive_ =
        dnnl::layer_normalization_forward(dnnl::layer_normalization_forward::primitive_desc(
            dnnl::layer_normalization_forward::desc(kForward, x, 1e-5f, flags), engine_));
    inputs_ = {
        {DNNL_ARG_SRC, x, x}, {DNNL_ARG_SCALE, scale, scale}, {DNNL_ARG_SHIFT, scale, scale}};
    canonical_output_ = own_output_ = x;
  }

  const Spec spec_;
  const int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::vector<Input> inputs_;
  Desc canonical_output_;
  Desc own_output_;
  std::unordered_map<int, memory> arguments_;
};

}  // namespace

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch);
}

std::unique_ptr<Operation> make_operation(const Spec& spec, int threads) {
  return std::make_unique<OneDnnOperation>(spec, threads);
}

}  // namespace tessera::peers
