// cuDNN: convolutions and softmax on CUDA devices, in f32 without TF32. Of all algorithms in both
// layouts the fastest by its own search is taken; layouts are converted outside the timed call.
#include <algorithm>
#include <array>
#include <limits>

#include "peers/cuda.h"

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
constexpr int kFloat = 0, kNchw = 0, kNhwc = 1, kCrossCorrelation = 1, kFma = 3;
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

class OnDevice : public Operation {
 public:
  explicit OnDevice(const Spec& spec) : spec_(spec) {
    check("cudnnCreate", library().create(&handle_));
    check("cudnnSetStream", library().set_stream(handle_, stream_.get()));
    for (const std::int64_t count : spec.input_counts)
      inputs_.push_back(stream_.allocate(static_cast<std::size_t>(count) * sizeof(float)));
    output_ = stream_.allocate(static_cast<std::size_t>(spec.output_count) * sizeof(float));
  }

  void run() override {
    start();
    stream_.wait();
  }
  std::optional<double> time(int calls) override {
    return stream_.time([&] { start(); }, calls);
  }

 protected:
  virtual void start() = 0;

  Descriptor tensor(int format, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    Descriptor out = nullptr;
    check("a tensor", library().tensor_create(&out));
    check("a tensor",
          library().tensor_set(out, format, kFloat, to_int(n), to_int(c), to_int(h), to_int(w)));
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
    check("the convolution", library().conv_math(conv_, kFma));
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
    run();
  }

  void get_output(float* data) override {
    Buffer own(spec_.output_count);
    stream_.download(own.data(), output_, own.bytes());
    copy_image(own.data(), form_.layout, data, c_.layout, c_.n, c_.oh, c_.ow, c_.co);
  }

 private:
  struct Form {
    Layout layout = Layout::kNhwc;
    int algorithm = -1;
    double ms = std::numeric_limits<double>::infinity();
  };

  void use(Layout layout, const std::vector<Buffer>& inputs) {
    form_ = {.layout = layout};
    const int format = layout == Layout::kNhwc ? kNhwc : kNchw;
    Buffer image(inputs[0].count());
    copy_image(inputs[0].data(), c_.layout, image.data(), layout, c_.n, c_.h, c_.w, c_.ci);
    stream_.upload(inputs_[0], image.data(), image.bytes());
    if (layout == Layout::kNhwc) {
      const Buffer weights = channels_last_weights(c_, inputs[1].data());
      stream_.upload(inputs_[1], weights.data(), weights.bytes());
    } else {
      stream_.upload(inputs_[1], inputs[1].data(), inputs[1].bytes());
    }
    x_ = tensor(format, c_.n, c_.ci, c_.h, c_.w);
    y_ = tensor(format, c_.n, c_.co, c_.oh, c_.ow);
    check("the weights", library().filter_create(&w_));
    check("the weights",
          library().filter_set(w_, kFloat, format, to_int(c_.co), to_int(c_.ci / c_.groups),
                               to_int(c_.kh), to_int(c_.kw)));
  }

  // Its own search first; the two fastest are timed again as they will be.
  Form search() {
    std::array<Found, kAlgorithms> found{};
    int count = 0;
    const Status status =
        library().find(handle_, x_, inputs_[0], w_, inputs_[1], conv_, y_, output_, kAlgorithms,
                       &count, found.data(), workspace_, kWorkspace);
    Form best = form_;
    for (int i = 0, tried = 0; status == 0 && i < count && tried < 3; ++i) {
      const Found& f = found[static_cast<std::size_t>(i)];
      if (f.status != 0 || f.workspace_bytes > kWorkspace || (f.math != kFma && f.math != 0))
        continue;
      ++tried;
      form_.algorithm = f.algorithm;
      run();
      stream_.time([&] { start(); }, 4);
      const double ms = 1e3 * stream_.time([&] { start(); }, 8) / 8;
      if (ms < best.ms) best = {form_.layout, f.algorithm, ms};
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

  void bind(const std::vector<Buffer>& inputs) override {
    stream_.upload(inputs_[0], inputs[0].data(), inputs[0].bytes());
  }
  void get_output(float* data) override {
    stream_.download(data, output_, static_cast<std::size_t>(spec_.output_count) * sizeof(float));
  }

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
