#include "models/host/tiled_linear.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <utility>

namespace troupe::models {
namespace {

namespace nn = torch::nn;

core::result<void> check_splits(const char* name, int64_t splits, int64_t most) {
  if (splits >= 1 && splits <= most) return {};
  return core::refused(fmt::format("tiled linear layer: {}: wanted 1 to {}, got {}", name, most, splits));
}

/// Makes a Linear whose parameters are `weight` and `bias` (undefined: none), frozen where those of `like` are.
std::shared_ptr<nn::LinearImpl> linear_of(const at::Tensor& weight, const at::Tensor& bias,
                                          const nn::LinearImpl& like) {
  const auto out = std::make_shared<nn::LinearImpl>(nn::LinearOptions(1, 1).bias(bias.defined()));
  out->options = nn::LinearOptions(weight.size(1), weight.size(0)).bias(bias.defined());
  out->weight.set_data(weight);
  out->weight.requires_grad_(like.weight.requires_grad());
  if (!bias.defined()) return out;
  out->bias.set_data(bias);
  out->bias.requires_grad_(like.bias.requires_grad());
  return out;
}

/// The unit of one tile: which inputs it reads, and how it combines its result with the sums of the tiles before it.
struct tile_step {
  int64_t first_input = 0, inputs = 0;
  bool begins = false, ends = false;  // true: the first tile of the layer; the last one
  bool begins_sum = false;            // true: the first input tile of its outputs

  named_values operator()(nn::LinearImpl& tile, const named_values& x) const {
    const at::Tensor input = begins ? x.only() : x["input"];
    at::Tensor y = tile.forward(input.narrow(-1, first_input, inputs));
    std::vector<at::Tensor> done;
    if (!begins) done.push_back(x["sums"]);
    if (!begins_sum) {
      // The last tensor holds the finished outputs, then the sum of the current outputs.
      const int64_t finished = done.back().size(-1) - y.size(-1);
      y = done.back().narrow(-1, finished, y.size(-1)) + y;
      done.back() = done.back().narrow(-1, 0, finished);
    }
    done.push_back(y);
    const at::Tensor sums = done.size() == 1 ? y : at::cat(done, -1);
    return ends ? named_values(sums) : named_values{{"input", input}, {"sums", sums}};
  }
};

}  // namespace

std::vector<int64_t> even_edges(int64_t count, int64_t parts) {
  std::vector<int64_t> out{0};
  for (int64_t i = 0; i < parts; ++i) out.push_back(out.back() + count / parts + (i < count % parts ? 1 : 0));
  return out;
}

core::result<std::shared_ptr<tiled_linear>> tiled_linear::make(const std::shared_ptr<nn::LinearImpl>& of,
                                                               const tiling& grid) {
  const int64_t in = of->options.in_features(), out = of->options.out_features();
  TROUPE_TRY(check_splits("in_splits", grid.in_splits, in));
  TROUPE_TRY(check_splits("out_splits", grid.out_splits, out));
  const at::NoGradGuard no_grad;
  std::shared_ptr<tiled_linear> made(new tiled_linear(grid));
  made->in_edges_ = even_edges(in, grid.in_splits);
  made->out_edges_ = even_edges(out, grid.out_splits);
  nn::ModuleList rows;
  for (size_t o = 0; o + 1 < made->out_edges_.size(); ++o) {
    nn::ModuleList row;
    made->tiles_.emplace_back();
    const int64_t first_out = made->out_edges_[o], outs = made->out_edges_[o + 1] - first_out;
    for (size_t i = 0; i + 1 < made->in_edges_.size(); ++i) {
      const int64_t first_in = made->in_edges_[i], ins = made->in_edges_[i + 1] - first_in;
      const bool has_bias = of->bias.defined() && i + 2 == made->in_edges_.size();
      const at::Tensor bias = has_bias ? of->bias.detach().narrow(0, first_out, outs) : at::Tensor();
      made->tiles_.back().push_back(
          linear_of(of->weight.detach().narrow(0, first_out, outs).narrow(1, first_in, ins), bias, *of));
      row->push_back(made->tiles_.back().back());
    }
    rows->push_back(row.ptr());
  }
  made->register_module("linears", rows);
  return made;
}

at::Tensor tiled_linear::forward(const at::Tensor& x) {
  TORCH_CHECK(grid_.combine_out_splits && !grid_.input_is_already_split,
              "a tiled linear layer with split inputs or outputs is computed by forward_split()");
  return forward_split({x}).front();
}

std::vector<at::Tensor> tiled_linear::forward_split(const std::vector<at::Tensor>& x) {
  const size_t wanted = grid_.input_is_already_split ? static_cast<size_t>(grid_.in_splits) : 1;
  TORCH_CHECK(x.size() == wanted, "a tiled linear layer requires ", wanted, " inputs, got ", x.size());
  std::vector<at::Tensor> out;
  for (const auto& row : tiles_) {
    at::Tensor sum;
    for (size_t i = 0; i < row.size(); ++i) {
      const at::Tensor part =
          grid_.input_is_already_split ? x[i] : x.front().narrow(-1, in_edges_[i], in_edges_[i + 1] - in_edges_[i]);
      const at::Tensor y = row[i]->forward(part);
      sum = i == 0 ? y : sum + y;
    }
    out.push_back(std::move(sum));
  }
  if (!grid_.combine_out_splits || out.size() == 1) return out;
  return {at::cat(out, -1)};
}

void tiled_linear::copy_params_from(const nn::LinearImpl& of) {
  TORCH_CHECK(of.options.in_features() == in_edges_.back() && of.options.out_features() == out_edges_.back() &&
                  of.bias.defined() == tiles_.front().back()->bias.defined(),
              "a tiled linear layer of ", in_edges_.back(), " inputs and ", out_edges_.back(),
              " outputs requires a layer with the same widths and bias, got ", of.options.in_features(), " and ",
              of.options.out_features());
  const at::NoGradGuard no_grad;
  for (size_t o = 0; o < tiles_.size(); ++o) {
    const int64_t first = out_edges_[o], outs = out_edges_[o + 1] - first;
    for (size_t i = 0; i < tiles_[o].size(); ++i)
      tiles_[o][i]->weight.copy_(
          of.weight.narrow(0, first, outs).narrow(1, in_edges_[i], in_edges_[i + 1] - in_edges_[i]));
    if (of.bias.defined()) tiles_[o].back()->bias.copy_(of.bias.narrow(0, first, outs));
  }
}

core::result<std::vector<module_unit>> tiled_units(const std::string& name, const std::shared_ptr<nn::LinearImpl>& of,
                                                   const tiling& grid) {
  if (grid.input_is_already_split || !grid.combine_out_splits)
    return core::refused(
        "tiled linear layer: units pass on one input and one output; wanted input_is_already_split "
        "false and combine_out_splits true");
  TROUPE_ASSIGN(const auto layer, tiled_linear::make(of, grid));
  const std::vector<int64_t>& edges = layer->in_edges();
  std::vector<module_unit> out;
  for (int64_t o = 0; o < grid.out_splits; ++o)
    for (int64_t i = 0; i < grid.in_splits; ++i) {
      const auto k = static_cast<size_t>(i);
      const tile_step step{edges[k], edges[k + 1] - edges[k], o == 0 && i == 0,
                           o + 1 == grid.out_splits && i + 1 == grid.in_splits, i == 0};
      out.push_back(unit(fmt::format("{}.{}.{}", name, o, i), layer->tile(o, i), step));
    }
  return out;
}

}  // namespace troupe::models
