// cuDNN: convolutions and softmax on CUDA devices, in f32 without TF32, f16 or bf16 with sums in
// f32. Of all algorithms in both layouts the fastest by its own search is taken; layouts are
// converted outside the timed call.
#include <algorithm>
#include <array>
#include <limits>

#include "peers/cuda.h"
#include "tessera/support/host_tensor.h"

namespace tessera::peers {
namespace {

// The few types of the interface that are used, as cudnn.h has them.
using Status = int;  // 0 is success
using Handle = void*;
using Descriptor = void*;
struct Found {
  int algorithm;
  Status status;
  float ms;
  std::size_t workspace_bytes;
  int determinism;
  int math;
  int reserved[3];
};
constexpr int kFloat = 0, kHalf = 2, kBfloat16 = 9;
constexpr int kNchw = 0, kNhwc = 1, kCrossCorrelation = 1;
constexpr int kDefaultMath = 0, kTensorMath = 1, kFma = 3;
constexpr int kAccurate = 1, kInstance = 0;  // of softmax
constexpr int kAlgorithms = 16;
constexpr std::size_t kWorkspace = 256 << 20;

struct Library {
  std::size_t (*version)() = nullptr;
  Status (*create)(Handle*) = nullptr;
  Status (*set_stream)(Handle, runtime::cuda::Stream) = nullptr;
  Status (*tensor_create)(Descriptor*) = nullptr;
  Status (*tensor_set)(Descriptor, int format, int type, int n, int c, int h, int w) = nullptr;
  Status (*filter_create)(Descriptor*) = nullptr;
  Status (*filter_set)(Descriptor, int type, int format, int k, int c, int h, int w) = nullptr;
  Status (*conv_create)(Descriptor*) = nullptr;
  Status (*conv_set)(Descriptor, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                     int dilation_w, int mode, int type) = nullptr;
  Status (*conv_groups)(Descriptor, int) = nullptr;
  Status (*conv_math)(Descriptor, int) = nullptr;
  Status (*find)(Handle, Descriptor, const void* x, Descriptor, const void* w, Descriptor conv,
                 Descriptor, void* y, int requested, int* returned, Found*, void* workspace,
                 std::size_t) = nullptr;
  Status (*forward)(Handle, const void* alpha, Descriptor, const void* x, Descriptor, const void* w,
                    Descriptor conv, int algorithm, void* workspace, std::size_t, const void* beta,
                    Descriptor, void* y) = nullptr;
  Status (*softmax)(Handle, int algorithm, int mode, const void* alpha, Descriptor, const void* x,
                    const void* beta, Descriptor, void* y) = nullptr;

  Library() {
    const runtime::SharedLibrary so = open_cuda_library({"libcudnn.so.9", "libcudnn.so.8"});
    must(so.find("cudnnGetVersion", &version));
    must(so.find("cudnnCreate", &create));
    must(so.find("cudnnSetStream", &set_stream));
    must(so.find("cudnnCreateTensorDescriptor", &tensor_create));
    must(so.find("cudnnSetTensor4dDescriptor", &tensor_set));
    must(so.find("cudnnCreateFilterDescriptor", &filter_create));
    must(so.find("cudnnSetFilter4dDescriptor", &filter_set));
    must(so.find("cudnnCreateConvolutionDescriptor", &conv_create));
    must(so.find("cudnnSetConvolution2dDescriptor", &conv_set));
    must(so.find("cudnnSetConvolutionGroupCount", &conv_groups));
    must(so.find("cudnnSetConvolutionMathType", &conv_math));
    must(so.find("cudnnFindConvolutionForwardAlgorithmEx", &find));
    must(so.find("cudnnConvolutionForward", &forward));
    must(so.find("cudnnSoftmaxForward", &softmax));
  }
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

void check(const char* what, Status status) {
  if (status != 0)
    throw std::runtime_error(std::string(what) + ": cuDNN status " + std::to_string(status));
}

constexpr float kOne = 1, kZero = 0;

DType dtype_of(Element e) {
  return e == Element::kF32 ? DType::kF32 : e == Element::kF16 ? DType::kF16 : DType::kBF16;
}
int library_type(Element e) {
  return e == Element::kF32 ? kFloat : e == Element::kF16 ? kHalf : kBfloat16;
}

class OnDevice : public Operation {
 public:
  explicit OnDevice(const Spec& spec) : spec_(spec) {
    check("cudnnCreate", library().create(&handle_));
    check("cudnnSetStream", library().set_stream(handle_, stream_.get()));
    for (const std::int64_t count : spec.input_counts) inputs_.push_back(allocate(count));
    output_ = allocate(spec.output_count);
  }

  bool takes(Element) const override { return true; }

  void run() override {
    start();
    stream_.wait();
  }
  std::optional<double> time(int calls) override {
    return stream_.time([&] { start(); }, calls);
  }

 protected:
  virtual void start() = 0;

  void* allocate(std::int64_t count) {
    const int bytes = size_bytes(dtype_of(spec_.element));
    return stream_.allocate(static_cast<std::size_t>(count * bytes));
  }
  void upload(void* to, const Buffer& from) {
    HostTensor t(dtype_of(spec_.element), {from.count()});
    for (std::int64_t e = 0; e < t.size(); ++e) t.set_float(e, from.data()[e]);
    stream_.upload(to, t.data(), t.bytes());
  }
  void download(float* to) {
    HostTensor t(dtype_of(spec_.element), {spec_.output_count});
    stream_.download(t.data(), output_, t.bytes());
    for (std::int64_t e = 0; e < t.size(); ++e) to[e] = static_cast<float>(t.get_float(e));
  }

  Descriptor tensor(int format, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    Descriptor out = nullptr;
    check("a tensor", library().tensor_create(&out));
    check("a tensor", library().tensor_set(out, format, library_type(spec_.element), to_int(n),
                                           to_int(c), to_int(h), to_int(w)));
    return out;
  }

  const Spec spec_;
  CudaStream stream_;
  Handle handle_ = nullptr;
  std::vector<void*> inputs_;
  void* output_ = nullptr;
};

class Convolution final : public OnDevice {
 public:
  explicit Convolution(const Spec& spec) : OnDevice(spec), c_(spec.conv) {
    workspace_ = stream_.allocate(kWorkspace);
    check("the convolution", library().conv_create(&conv_));
    const int pad = to_int(c_.pad), stride = to_int(c_.stride), dilation = to_int(c_.dilation);
    check("the convolution", library().conv_set(conv_, pad, pad, stride, stride, dilation, dilation,
                                                kCrossCorrelation, kFloat));
    check("the convolution", library().conv_groups(conv_, to_int(c_.groups)));
    set_math(spec.element == Element::kF32 ? kFma : kTensorMath);
  }

  void bind(const std::vector<Buffer>& inputs) override {
    double best_ms = std::numeric_limits<double>::infinity();
    Form best;
    for (const Layout layout : {Layout::kNhwc, Layout::kNchw}) {
      use(layout, inputs);
      const Form form = search();
      if (form.ms >= best_ms) continue;
      best_ms = form.ms;
      best = form;
    }
    if (best.algorithm < 0) throw Unsupported("cuDNN has no algorithm for it");
    use(best.layout, inputs);
    form_ = best;
    set_math(best.math);
    run();
  }

  void get_output(float* data) override {
    Buffer own(spec_.output_count);
    download(own.data());
    copy_image(own.data(), form_.layout, data, c_.layout, c_.n, c_.oh, c_.ow, c_.co);
  }

 private:
  struct Form {
    Layout layout = Layout::kNhwc;
    int algorithm = -1;
    int math = kDefaultMath;
    double ms = std::numeric_limits<double>::infinity();
  };

  void set_math(int math) { check("the convolution", library().conv_math(conv_, math)); }

  void use(Layout layout, const std::vector<Buffer>& inputs) {
    form_ = {.layout = layout};
    const int format = layout == Layout::kNhwc ? kNhwc : kNchw;
    Buffer image(inputs[0].count());
    copy_image(inputs[0].data(), c_.layout, image.data(), layout, c_.n, c_.h, c_.w, c_.ci);
    upload(inputs_[0], image);
    if (layout == Layout::kNhwc) {
      upload(inputs_[1], channels_last_weights(c_, inputs[1].data()));
    } else {
      upload(inputs_[1], inputs[1]);
    }
    x_ = tensor(format, c_.n, c_.ci, c_.h, c_.w);
    y_ = tensor(format, c_.n, c_.co, c_.oh, c_.ow);
    check("the weights", library().filter_create(&w_));
    check("the weights",
          library().filter_set(w_, library_type(spec_.element), format, to_int(c_.co),
                               to_int(c_.ci / c_.groups), to_int(c_.kh), to_int(c_.kw)));
  }

  // Sums of f32 are asked for in any case; TF32 would round the operands of f32.
  bool allowed(int math) const {
    return spec_.element != Element::kF32 || math == kFma || math == kDefaultMath;
  }

  // Its own search first; the fastest few are timed again as they will be.
  Form search() {
    std::array<Found, kAlgorithms> found{};
    int count = 0;
    set_math(spec_.element == Element::kF32 ? kFma : kTensorMath);
    const Status status =
        library().find(handle_, x_, inputs_[0], w_, inputs_[1], conv_, y_, output_, kAlgorithms,
                       &count, found.data(), workspace_, kWorkspace);
    Form best = form_;
    for (int i = 0, tried = 0; status == 0 && i < count && tried < 3; ++i) {
      const Found& f = found[static_cast<std::size_t>(i)];
      if (f.status != 0 || f.workspace_bytes > kWorkspace || !allowed(f.math)) continue;
      ++tried;
      form_.algorithm = f.algorithm;
      form_.math = spec_.element == Element::kF32 ? kFma : f.math;
      set_math(form_.math);
      run();
      stream_.time([&] { start(); }, 4);
      const double ms = 1e3 * stream_.time([&] { start(); }, 8) / 8;
      if (ms < best.ms) best = {form_.layout, f.algorithm, form_.math, ms};
    }
    return best;
  }

  void start() override {
    check("cudnnConvolutionForward",
          library().forward(handle_, &kOne, x_, inputs_[0], w_, inputs_[1], conv_, form_.algorithm,
                            workspace_, kWorkspace, &kZero, y_, output_));
  }

  const ConvShape c_;
  Descriptor conv_ = nullptr, x_ = nullptr, w_ = nullptr, y_ = nullptr;
  void* workspace_ = nullptr;
  Form form_;
};

class Softmax final : public OnDevice {
 public:
  explicit Softmax(const Spec& spec)
      : OnDevice(spec), rows_(tensor(kNchw, spec.rows, spec.columns, 1, 1)) {}

  void bind(const std::vector<Buffer>& inputs) override { upload(inputs_[0], inputs[0]); }
  void get_output(float* data) override { download(data); }

 private:
  void start() override {
    check("cudnnSoftmaxForward", library().softmax(handle_, kAccurate, kInstance, &kOne, rows_,
                                                   inputs_[0], &kZero, rows_, output_));
  }

  Descriptor rows_;
};

}  // namespace

std::string version() {
  try {
    must(runtime::cuda::driver());
    const std::size_t number = library().version();
    return "cuDNN " + std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) +
           "." + std::to_string(number % 100) + " (fastest of its algorithms and layouts)";
  } catch (const std::exception&) {
    return "";
  }
}

std::unique_ptr<Operation> make_operation(const Spec& spec, int /*threads*/) {
  switch (spec.kind) {
    case OpKind::kConv2d:
    case OpKind::kDepthwise:
      return std::make_unique<Convolution>(spec);
    case OpKind::kSoftmax:
      return std::make_unique<Softmax>(spec);
    default:
      throw Unsupported(std::string("cuDNN has no ") + to_text(spec.kind));
  }
}

}  // namespace tessera::peers
