// ONNX Runtime: a one-operator model per operation, NCHW inside. The library is opened at run time:
// it comes from a package without headers and must not be a condition of the build.
#include <algorithm>

#include "peers/onnx_model.h"
#include "peers/operation.h"
#include "peers/ort_library.h"

namespace tessera::peers {
namespace {

using ort::Handle;
using ort::Library;
using ort::make_session_options;

class OrtOperation final : public Operation {
 public:
  OrtOperation(const Spec& spec, int threads) : spec_(spec), output_(spec.output_count) {
    options_ = make_session_options(threads);
    memory_ = ort::make_memory_info();
  }

  void bind(const std::vector<Buffer>& in) override {
    describe(in);
    const std::string model = write_onnx_model(nodes_, tensors_, result_);
    ort::Session* session = nullptr;
    Library::get().call(ort::kCreateSessionFromArray,
                        static_cast<const ort::Env*>(Library::get().env()),
                        static_cast<const void*>(model.data()), model.size(),
                        static_cast<const ort::SessionOptions*>(options_.get()), &session);
    session_.reset(session);
    values_.clear();
    names_.clear();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].data != nullptr) continue;
      const Buffer& data = is_conv() ? image_ : in[i];
      names_.push_back(tensors_[i].name.c_str());
      values_.push_back(make_value(tensors_[i], const_cast<float*>(data.data()), data.bytes()));
    }
    result_value_ = make_value(result_, output_.data(), output_.bytes());
  }

  void run() override {
    const ort::Value* inputs[2] = {};
    for (std::size_t i = 0; i < values_.size(); ++i) inputs[i] = values_[i].get();
    const char* output_name = result_.name.c_str();
    ort::Value* output = result_value_.get();
    Library::get().call(ort::kRun, session_.get(), static_cast<const ort::RunOptions*>(nullptr),
                        static_cast<const char* const*>(names_.data()),
                        static_cast<const ort::Value* const*>(inputs), values_.size(),
                        static_cast<const char* const*>(&output_name), std::size_t{1}, &output);
  }

  void get_output(float* data) override {
    const ConvShape& c = spec_.conv;
    if (is_conv()) {
      copy_image(output_.data(), Layout::kNchw, data, c.layout, c.n, c.oh, c.ow, c.co);
    } else {
      std::copy_n(output_.data(), output_.count(), data);
    }
  }

 private:
  bool is_conv() const { return spec_.kind == OpKind::kConv2d || spec_.kind == OpKind::kDepthwise; }

  // Sets nodes_, tensors_ and result_; a tensor with data is a constant of the model.
  void describe(const std::vector<Buffer>& in) {
    const Spec& s = spec_;
    const std::vector<std::string> two = {"x", "w"};
    switch (s.kind) {
      case OpKind::kMatmul:
        describe_matmul();
        break;
      case OpKind::kBmm:
        nodes_ = {{"MatMul", two, "y", {}}};
        tensors_ = {{"x", {s.batch, s.m, s.k}}, {"w", {s.batch, s.k, s.n}}};
        result_ = {"y", {s.batch, s.m, s.n}};
        break;
      case OpKind::kDense:
        nodes_ = {{"Gemm", {"x", "w", "b"}, "z", {{"transB", std::int64_t{1}}}},
                  {"Relu", {"z"}, "y", {}}};
        tensors_ = {{"x", {s.m, s.k}}, {"w", {s.n, s.k}, in[1].data()}, {"b", {s.n}, in[2].data()}};
        result_ = {"y", {s.m, s.n}};
        break;
      case OpKind::kConv2d:
      case OpKind::kDepthwise:
        describe_conv(in);
        break;
      case OpKind::kSoftmax:
        nodes_ = {{"Softmax", {"x"}, "y", {{"axis", std::int64_t{-1}}}}};
        tensors_ = {{"x", {s.rows, s.columns}}};
        result_ = {"y", {s.rows, s.columns}};
        break;
      case OpKind::kLayernorm:
        nodes_ = {{"LayerNormalization",
                   {"x", "w", "b"},
                   "y",
                   {{"axis", std::int64_t{-1}}, {"epsilon", 1e-5f}}}};
        tensors_ = {{"x", {s.rows, s.columns}},
                    {"w", {s.columns}, in[1].data()},
                    {"b", {s.columns}, in[2].data()}};
        result_ = {"y", {s.rows, s.columns}};
        break;
    }
  }

  void describe_matmul() {
    const Spec& s = spec_;
    const auto shape = [](std::int64_t rows, std::int64_t columns, bool transpose) {
      return transpose ? std::vector<std::int64_t>{columns, rows}
                       : std::vector<std::int64_t>{rows, columns};
    };
    if (s.transpose_a || s.transpose_b) {
      nodes_ = {
          {"Gemm",
           {"x", "w"},
           "y",
           {{"transA", std::int64_t{s.transpose_a}}, {"transB", std::int64_t{s.transpose_b}}}}};
    } else {
      nodes_ = {{"MatMul", {"x", "w"}, "y", {}}};
    }
    tensors_ = {{"x", shape(s.m, s.k, s.transpose_a)}, {"w", shape(s.k, s.n, s.transpose_b)}};
    result_ = {"y", {s.m, s.n}};
  }

  void describe_conv(const std::vector<Buffer>& in) {
    const ConvShape& c = spec_.conv;
    using Sizes = std::vector<std::int64_t>;
    nodes_ = {{"Conv",
               {"x", "w"},
               "y",
               {{"dilations", Sizes{c.dilation, c.dilation}},
                {"group", c.groups},
                {"kernel_shape", Sizes{c.kh, c.kw}},
                {"pads", Sizes{c.pad, c.pad, c.pad, c.pad}},
                {"strides", Sizes{c.stride, c.stride}}}}};
    tensors_ = {{"x", {c.n, c.ci, c.h, c.w}},
                {"w", {c.co, c.ci / c.groups, c.kh, c.kw}, in[1].data()}};
    result_ = {"y", {c.n, c.co, c.oh, c.ow}};
    image_ = Buffer(in[0].count());
    copy_image(in[0].data(), c.layout, image_.data(), Layout::kNchw, c.n, c.h, c.w, c.ci);
  }

  Handle<ort::Value> make_value(const OnnxTensor& tensor, float* data, std::size_t bytes) const {
    ort::Value* value = nullptr;
    Library::get().call(ort::kCreateTensorWithDataAsOrtValue,
                        static_cast<const ort::MemoryInfo*>(memory_.get()),
                        static_cast<void*>(data), bytes, tensor.dims.data(), tensor.dims.size(),
                        ort::kElementFloat, &value);
    return Handle<ort::Value>(value);
  }

  const Spec spec_;
  Handle<ort::SessionOptions> options_;
  Handle<ort::MemoryInfo> memory_;
  std::vector<OnnxNode> nodes_;
  std::vector<OnnxTensor> tensors_;
  OnnxTensor result_;
  Buffer image_;
  Buffer output_;
  Handle<ort::Session> session_;
  std::vector<const char*> names_;
  std::vector<Handle<ort::Value>> values_;
  Handle<ort::Value> result_value_;
};

}  // namespace

std::string version() {
  const Library& library = Library::get();
  return library.is_open() ? "ONNX Runtime " + library.version() : "";
}

std::unique_ptr<Operation> make_operation(const Spec& spec, int threads) {
  const Library& library = Library::get();
  if (!library.is_open()) {
    throw Unsupported("ONNX Runtime not found at " + library.places() + "; see peers/fetch_ort.sh");
  }
  return std::make_unique<OrtOperation>(spec, threads);
}

}  // namespace tessera::peers
