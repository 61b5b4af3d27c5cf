#include <algorithm>
#include <iterator>

#include "tessera/frontend/zoo/nets/nets.h"
#include "tessera/frontend/zoo/zoo.h"

namespace tessera::zoo {
namespace {

constexpr std::vector<ZooEntry> (*kFamilies[])() = {
    bert_entries,          dcgan_entries,      densenet_entries,  efficientnet_entries,
    googlenet_entries,     gpt2_entries,       inception_entries, llama_entries,
    lstm_entries,          mlp_entries,        mnasnet_entries,   mobilenet_v2_entries,
    mobilenet_v3_entries,  resnet_entries,     resnet3d_entries,  shufflenet_entries,
    small_convnet_entries, squeezenet_entries, vgg_entries,       vit_entries,
};

}  // namespace

const std::vector<ZooEntry>& zoo_table() {
  static const std::vector<ZooEntry> table = [] {
    std::vector<ZooEntry> rows;
    for (const auto family : kFamilies) std::ranges::move(family(), std::back_inserter(rows));
    std::ranges::sort(rows, {}, &ZooEntry::name);
    return rows;
  }();
  return table;
}

}  // namespace tessera::zoo
