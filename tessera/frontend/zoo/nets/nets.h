// The families of networks: each function returns the rows of one file.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/zoo/zoo.h"

namespace tessera::zoo {

std::vector<ZooEntry> bert_entries();
std::vector<ZooEntry> dcgan_entries();
std::vector<ZooEntry> densenet_entries();
std::vector<ZooEntry> efficientnet_entries();
std::vector<ZooEntry> googlenet_entries();
std::vector<ZooEntry> gpt2_entries();
std::vector<ZooEntry> inception_entries();
std::vector<ZooEntry> llama_entries();
std::vector<ZooEntry> lstm_entries();
std::vector<ZooEntry> mlp_entries();
std::vector<ZooEntry> mnasnet_entries();
std::vector<ZooEntry> mobilenet_v2_entries();
std::vector<ZooEntry> mobilenet_v3_entries();
std::vector<ZooEntry> resnet_entries();
std::vector<ZooEntry> resnet3d_entries();
std::vector<ZooEntry> shufflenet_entries();
std::vector<ZooEntry> small_convnet_entries();
std::vector<ZooEntry> squeezenet_entries();
std::vector<ZooEntry> vgg_entries();
std::vector<ZooEntry> vit_entries();

using Build = void (*)(ModelBuilder& b, const Settings& s);

// A classifier of images: parameters batch, size, classes and dtype.
ZooEntry image_entry(std::string name, std::string doc, Build build, std::int64_t size = 224);
// The input [batch, 3, size, size] of one.
struct Value;
Value image_input(ModelBuilder& b, const Settings& s);
// An entry with the parameters batch and dtype and those given.
ZooEntry plain_entry(std::string name, std::string doc, Build build, std::vector<ZooParam> params);
// Adds quant=none|qdq.
ZooEntry with_quant(ZooEntry entry);
// `x` quantised where the settings ask for it.
Value quantized_input(ModelBuilder& b, const Settings& s, const Value& x);
ZooEntry with_alias(ZooEntry entry, std::string alias);

// Rounds to a multiple of `divisor`, never more than 10% down: how mobile networks scale channels.
std::int64_t make_divisible(double channels, std::int64_t divisor);

}  // namespace tessera::zoo
