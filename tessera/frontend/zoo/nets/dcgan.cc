// DCGAN generators: transposed convolutions from a latent vector to an image.
#include "tessera/frontend/zoo/layers.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

Value up(ModelBuilder& b, const Value& x, int layer, std::int64_t out, const Window& window) {
  const Value y = conv_transpose(b, x, fmt::format("main.{}", layer), {out, window});
  return relu(b, batch_norm(b, y, fmt::format("main.{}", layer + 1)));
}

// Side of the first feature map: four doublings lead to the image.
std::int64_t first_side(ModelBuilder& b, const Settings& s) {
  const std::int64_t size = s.at("size");
  if (size % 16 != 0) b.refuse("size={} is not a multiple of 16", size);
  return size / 16;
}

void finish(ModelBuilder& b, Value x, int layer, std::int64_t channels) {
  const Window twice = square(4, 2, 1);
  for (; x.dim(1) > channels; layer += 3) x = up(b, x, layer, x.dim(1) / 2, twice);
  x = conv_transpose(b, x, fmt::format("main.{}", layer), {3, twice});
  b.output(tanh(b, x), "output");
}

void dcgan(ModelBuilder& b, const Settings& s) {
  const std::int64_t side = first_side(b, s);
  Value x = b.input("input", b.dtype(), {s.at("batch"), s.at("latent"), 1, 1});
  x = up(b, x, 0, 512, square(side, 1, 0));
  finish(b, x, 3, 64);
}

void dcgan_tenset(ModelBuilder& b, const Settings& s) {
  const std::int64_t side = first_side(b, s);
  Value x = b.input("input", b.dtype(), {s.at("batch"), s.at("latent")});
  x = relu(b, dense(b, x, "main.0", 1024 * side * side, /*bias=*/false));
  x = reshape(b, x, {s.at("batch"), 1024, side, side});
  finish(b, x, 3, 128);
}

std::vector<ZooParam> params() {
  return {{"size", 64, "height and width of the image, a multiple of 16", 16, 4096},
          {"latent", 100, "length of the latent vector"}};
}

}  // namespace

std::vector<ZooEntry> dcgan_entries() {
  return {
      plain_entry("dcgan", "DCGAN generator of the PyTorch examples, 64 features", dcgan, params()),
      plain_entry("dcgan_tenset", "DCGAN generator of TenSet: a linear layer first, 128 features",
                  dcgan_tenset, params())};
}

}  // namespace tessera::zoo
