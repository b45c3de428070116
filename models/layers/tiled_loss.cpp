// The model's head in row tiles: norm, product and cross-entropy of some rows (tokens) at a time, so that not all
// logits exist at once. In training, all of that runs in backward, where each tile's logits are replaced by their
// gradient and are used at once, so no product is computed twice. Owns the order of the tiles; row_panels.hpp
// determines which rows are multiplied together.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/layers/cross_entropy.hpp"
#include "models/layers/functions.hpp"
#include "models/layers/gradient_sums.hpp"
#include "models/segment/function_node.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// Computes a teacher's logits for the rows of its student, tile by tile, and the student's loss of each row.
class tiled_teacher {
 public:
  tiled_teacher(const taught_head& head, int64_t tile_rows, int64_t vocabulary)
      : layer_(head.layer), form_(head.form), terms_(head.terms) {
    const at::Tensor rows = as_rows(head.hidden);
    y_ = head.norm.forward(rows).y;
    layer_.panels = panel_sums::wide;
    room_ = at::empty({tile_rows, vocabulary}, y_.options().requires_grad(false));
    losses_ = at::empty({rows.size(0)}, y_.options().dtype(at::kDouble).requires_grad(false));
  }
  /// Replaces the logits of the tile whose first row is `first` by the gradient of the loss with respect to them.
  /// `gradient` is the gradient of the mean loss over all rows.
  void go_back(int64_t first, const at::Tensor& logits, const int64_t* targets, const at::Tensor& gradient) {
    const int64_t count = logits.size(0);
    at::Tensor taught = room_.narrow(0, 0, count);
    layer_.forward_out(taught, y_.narrow(0, first, count));
    (void)form_logits(form_, taught, /*keeps=*/false);
    kernels_for(logits).distil(bytes_in(logits), bytes_of(taught), core_dtype(logits.scalar_type()),
                               static_cast<uint64_t>(count), static_cast<uint64_t>(logits.size(1)), targets, terms_,
                               bytes_of(gradient), static_cast<uint64_t>(losses_.size(0)),
                               bytes_in(losses_.narrow(0, first, count)));
  }
  /// Returns the mean loss over all rows, whose losses are added in the order of rows.
  [[nodiscard]] at::Tensor mean(const at::TensorOptions& as) const {
    const auto* each = losses_.const_data_ptr<double>();
    double sum = 0;
    for (int64_t r = 0; r < losses_.size(0); ++r) sum += each[r];
    return at::full({}, sum / static_cast<double>(losses_.size(0)), as);
  }

 private:
  projection layer_;
  logit_form form_;
  kernels::distillation_terms terms_;
  at::Tensor y_, room_, losses_;
};

/// Computes the head for rows (N, C), tile by tile, and stores for each row the statistics from which its loss is
/// computed.
class tiled_head {
 public:
  tiled_head(const at::Tensor& x, const projection& layer, const logit_form& form, const kernels::loss_form& of_loss,
             const at::Tensor& targets, const at::Tensor& weights, uint64_t tile_rows)
      : layer_(layer),
        form_(form),
        of_loss_(of_loss),
        targets_(targets),
        weights_(weights),
        tile_rows_(std::min<int64_t>(static_cast<int64_t>(tile_rows), x.size(0))),
        vocabulary_(layer.w.tensor.size(layer.layout == weight_layout::in_out ? 1 : 0)),
        type_(core_dtype(x.scalar_type())),
        room_(at::empty({tile_rows_, vocabulary_}, x.options().requires_grad(false))),
        statistics_(at::empty({x.size(0), static_cast<int64_t>(kernels::row_statistics)}, wide(x))),
        log_sums_(at::empty({x.size(0)}, wide(x))) {}

  /// Computes the logits tile by tile for `y`, the input rows of the head's linear layer, and calls f(first, count,
  /// logits, kept) for each tile; f may overwrite the logits. `kept` is the result of form_logits, undefined unless
  /// `keeps`.
  void for_each_tile(const at::Tensor& y, bool keeps, auto f) {
    for (int64_t first = 0; first < y.size(0); first += tile_rows_) {
      const int64_t count = std::min(tile_rows_, y.size(0) - first);
      at::Tensor logits = room_.narrow(0, 0, count);
      layer_.forward_out(logits, y.narrow(0, first, count));
      const at::Tensor kept = form_logits(form_, logits, keeps);
      kernels_for(logits).cross_entropy_part(of_loss_, bytes_of(logits), type_, static_cast<uint64_t>(count), width(),
                                             width(), targets_at(first), bytes_in(statistics_.narrow(0, first, count)));
      f(first, count, logits, kept);
    }
  }

  /// Replaces the logits of the tile whose first row is `first` by the gradient of the loss with respect to them.
  /// `gradient` is the gradient of the mean loss over all rows.
  void go_back(int64_t first, const at::Tensor& logits, const at::Tensor& gradient) {
    const int64_t count = logits.size(0);
    (void)mean_of(first, count);
    kernels_for(logits).cross_entropy_backward(of_loss_, weights_at(first), bytes_in(logits), type_,
                                               static_cast<uint64_t>(count), width(), width(), targets_at(first),
                                               bytes_of(log_sums_.narrow(0, first, count)), bytes_of(gradient),
                                               static_cast<uint64_t>(targets_.size(0)));
  }

  /// Returns the mean loss of rows [first, first + count), whose tiles must have been computed. Uses the function for a
  /// vocabulary that is split over ranks, with one rank, because it computes from the stored statistics.
  at::Tensor mean_of(int64_t first, int64_t count) {
    at::Tensor loss = at::empty({}, log_sums_.options());
    const auto rows = static_cast<uint64_t>(count);
    kernels_for(loss).joined_cross_entropy(of_loss_, weights_at(first), bytes_of(statistics_.narrow(0, first, count)),
                                           type_, 1, rows * kernels::row_statistics, rows,
                                           bytes_in(log_sums_.narrow(0, first, count)), bytes_in(loss));
    return loss;
  }
  at::Tensor mean() { return mean_of(0, targets_.size(0)); }
  /// Stores the logarithms of the targets' probabilities where the batch wants them. Requires mean().
  void store(const segment_scope& scope) const { store_log_probabilities(scope, statistics_.select(1, 2), log_sums_); }
  [[nodiscard]] int64_t tile_rows() const { return tile_rows_; }
  [[nodiscard]] int64_t vocabulary() const { return vocabulary_; }
  [[nodiscard]] const int64_t* targets_at(int64_t first) const { return targets_.const_data_ptr<int64_t>() + first; }
  /// Returns the weights of the rows from `first` on; null if the rows have none.
  [[nodiscard]] const float* weights_at(int64_t first) const {
    return weights_.defined() ? weights_.const_data_ptr<float>() + first : nullptr;
  }

 private:
  static at::TensorOptions wide(const at::Tensor& x) {
    return x.options().dtype(sum_dtype(x.scalar_type())).requires_grad(false);
  }
  [[nodiscard]] uint64_t width() const { return static_cast<uint64_t>(vocabulary_); }

  const projection& layer_;
  logit_form form_;
  kernels::loss_form of_loss_;
  const at::Tensor &targets_, &weights_;
  int64_t tile_rows_, vocabulary_;
  core::dtype type_;
  at::Tensor room_, statistics_, log_sums_;
};

struct tiled_loss_node final : function_node {
  /// `x`: input of the head, (N, C). `targets`: (N). `weights`: factor of each row's loss (N); undefined: 1. `loss`:
  /// the tensor that forward returned, which gets its value in backward.
  at::Tensor x, targets, weights, loss;
  row_norm norm;
  projection layer;
  logit_form form;
  kernels::loss_form of_loss;
  std::optional<taught_head> teacher;
  std::vector<int64_t> shape;  // shape of the input before it was viewed as rows
  uint64_t tile_rows = 0;
  double factor = 1;

  gradient_list apply(gradient_list&& gradients) override {
    normed_rows again = norm.forward(x);
    at::Tensor dy = at::empty_like(again.y);
    const at::Tensor of_mean = times_factor(gradients[0].to(loss.scalar_type())).contiguous();
    {
      gradient_sums dw(*slot, layer, x.size(0));
      tiled_head head(x, layer, form, of_loss, targets, weights, tile_rows);
      std::optional<tiled_teacher> taught;
      if (teacher) taught.emplace(*teacher, head.tile_rows(), head.vocabulary());
      const auto go_back = [&](int64_t first, int64_t count, const at::Tensor& logits, const at::Tensor& kept) {
        if (taught)
          taught->go_back(first, logits, head.targets_at(first), of_mean);
        else
          head.go_back(first, logits, of_mean);
        form_logits_backward(form, logits, kept);
        at::Tensor to = dy.narrow(0, first, count);
        layer.input_gradient_out(to, logits);
        dw.add(again.y.narrow(0, first, count), logits);
      };
      head.for_each_tile(again.y, /*keeps=*/true, go_back);
      loss.copy_(times_factor(taught ? taught->mean(loss.options()) : head.mean()));
      dw.finish();
    }
    again.y.reset();
    return {norm.backward(*slot, x, again, std::move(dy), {}).view(shape)};
  }
  void release_variables() override {
    x.reset();
    targets.reset();
    weights.reset();
    teacher.reset();
  }
  [[nodiscard]] std::string name() const override { return "tiled_cross_entropy"; }

 private:
  [[nodiscard]] at::Tensor times_factor(const at::Tensor& t) const { return factor == 1 ? t : t.mul(factor); }
};

}  // namespace

at::Tensor tiled_cross_entropy(const segment_scope& scope, const at::Tensor& x, row_norm norm, projection layer,
                               const logit_form& form, const kernels::loss_form& of_loss, uint64_t tile_rows,
                               double factor, std::optional<taught_head> teacher) {
  layer.panels = panel_sums::wide;
  const int64_t vocabulary = layer.w.tensor.size(layer.layout == weight_layout::in_out ? 1 : 0);
  auto node = std::make_shared<tiled_loss_node>();
  {
    const below_autograd plain;
    node->x = as_rows(x.detach().contiguous());
    node->targets = targets_of(scope, vocabulary, node->x);
    node->weights = weights_of(scope, node->x);
  }
  if (!wants_node(x)) {
    const below_autograd plain;
    tiled_head head(node->x, layer, form, of_loss, node->targets, node->weights, tile_rows);
    const at::Tensor y = norm.forward(node->x).y;
    head.for_each_tile(y, /*keeps=*/false, [](int64_t, int64_t, const at::Tensor&, const at::Tensor&) {});
    const at::Tensor mean = head.mean();
    if (scope.batch().log_probabilities != nullptr) head.store(scope);
    return factor == 1 ? mean : mean.mul(factor);
  }
  at::Tensor loss = at::full({}, std::numeric_limits<double>::quiet_NaN(),
                             node->x.options().dtype(sum_dtype(node->x.scalar_type())).requires_grad(false));
  node->loss = loss.detach();
  node->shape = x.sizes().vec();
  node->norm = std::move(norm);
  node->layer = std::move(layer);
  node->form = form;
  node->of_loss = of_loss;
  node->tile_rows = tile_rows;
  node->factor = factor;
  node->teacher = std::move(teacher);
  attach({&loss}, std::move(node), scope, {x});
  return loss;
}

}  // namespace troupe::models
