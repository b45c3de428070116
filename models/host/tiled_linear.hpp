// A linear layer as a grid of small ones, DeepSpeed's TiledLinear: each tile has some inputs and some outputs, and as a
// unit of its own ZeRO-3 gathers one tile at a time instead of the whole layer. Owns the grid and the sums over it; the
// tiles' weights are views of the layer's, so both see every update.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "models/host/module_model.hpp"

namespace torch::nn {
class LinearImpl;
}

namespace troupe::models {

struct tiling {  ///< the grid of a tiled linear layer, by DeepSpeed's names
  int64_t in_splits = 1, out_splits = 1;
  bool input_is_already_split = false;  ///< true: inputs come as one tensor for each of in_splits
  bool combine_out_splits = true;       ///< false: outputs stay one tensor for each of out_splits
};

/// Returns the edges of `parts` neighbouring parts of `count` elements. The parts are equal; if `count` does not
/// divide, the first ones have one element more. Source: DeepSpeed's partition_uniform.
std::vector<int64_t> even_edges(int64_t count, int64_t parts);

/// A linear layer that consists of tiles, which are torch's Linears named "linears.OUT.IN". The output is the sum over
/// input tiles, in order, of each output tile; the bias belongs to the last input tile.
class tiled_linear : public torch::nn::Module {
 public:
  /// Makes the tiles of `of`, which share its memory: an update of a tile's weight changes the layer's weight. Each
  /// tile has a gradient of its own. Errors (bad_input): fewer splits than 1, or more than inputs or outputs.
  static core::result<std::shared_ptr<tiled_linear>> make(const std::shared_ptr<torch::nn::LinearImpl>& of,
                                                          const tiling& grid);

  /// Computes the layer for x (.., in), for a tiling with combined outputs and an input that is not split.
  at::Tensor forward(const at::Tensor& x);
  /// Computes the layer for any tiling. `x` has one tensor, or one for each of in_splits; the result has one tensor, or
  /// one for each of out_splits.
  std::vector<at::Tensor> forward_split(const std::vector<at::Tensor>& x);
  /// Copies the weights of a linear layer of the same widths into the tiles. Throws if the widths differ.
  void copy_params_from(const torch::nn::LinearImpl& of);

  [[nodiscard]] const tiling& grid() const { return grid_; }
  [[nodiscard]] const std::vector<int64_t>& in_edges() const { return in_edges_; }
  [[nodiscard]] const std::vector<int64_t>& out_edges() const { return out_edges_; }
  [[nodiscard]] const std::shared_ptr<torch::nn::LinearImpl>& tile(int64_t out, int64_t in) const {
    return tiles_.at(static_cast<size_t>(out)).at(static_cast<size_t>(in));
  }

 private:
  explicit tiled_linear(const tiling& grid) : grid_(grid) {}

  tiling grid_;
  std::vector<int64_t> in_edges_, out_edges_;
  std::vector<std::vector<std::shared_ptr<torch::nn::LinearImpl>>> tiles_;  // [out][in]
};

/// Returns units that compute the linear layer `of` together, one unit for each tile, named "NAME.OUT.IN": the first
/// takes one tensor, the last returns one. A unit in between also passes on the input and the outputs so far. Errors
/// (bad_input): as for tiled_linear::make, and a tiling with split inputs or outputs.
core::result<std::vector<module_unit>> tiled_units(const std::string& name,
                                                   const std::shared_ptr<torch::nn::LinearImpl>& of,
                                                   const tiling& grid);

}  // namespace troupe::models
