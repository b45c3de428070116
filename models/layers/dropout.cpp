#include "models/layers/dropout.hpp"

#include <algorithm>

#include "models/segment/function_node.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/projection.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

struct add_dropped_node final : function_node {
  dropout_masks masks;
  bool adds = true;  // true: the residual path x was added, and is the node's first input
  double scale = 1;  // factor of y

  gradient_list apply(gradient_list&& gradients) override {
    at::Tensor dropped = gradients[0];
    if (masks.active()) {
      dropped = dropped.clone(at::MemoryFormat::Contiguous);
      masks.apply_rows(dropped);
    }
    if (scale != 1) dropped = dropped.mul(scale);
    if (!adds) return {std::move(dropped)};
    return {gradients[0], std::move(dropped)};
  }
  [[nodiscard]] std::string name() const override { return "add_dropped"; }
};

/// A sum x + scale * dropout(y); without x if this rank does not add it.
struct dropped_sum {
  dropout_masks masks = {};
  double scale = 1;
  bool adds = true;
};

bool adds_here(const segment_scope& scope, added_by who) { return who == added_by::all || scope.leads(); }

/// Returns `sum` after making it the output of an autograd node with inputs x and y.
at::Tensor with_history(const segment_scope& scope, const at::Tensor& x, const at::Tensor& y, at::Tensor sum,
                        const dropped_sum& of) {
  if (!wants_node(x, y)) return sum;
  auto node = std::make_shared<add_dropped_node>();
  node->masks = of.masks;
  node->adds = of.adds;
  node->scale = of.scale;
  if (of.adds)
    attach({&sum}, std::move(node), scope, {x, y});
  else
    attach({&sum}, std::move(node), scope, {y});
  return sum;
}

/// True if `y` is an input of a segment that trains; its memory then must not be overwritten.
bool is_input(const at::Tensor& y) { return y.requires_grad() && y.is_leaf(); }

}  // namespace

dropout_masks::dropout_masks(const segment_scope& scope, dropout_site site, float probability)
    : probability_(scope.batch().training ? probability : 0),
      site_(site),
      seed_(scope.batch().seed),
      step_(scope.batch().step),
      layer_(scope.unit()),
      samples_(scope.batch().samples),
      columns_(scope.columns()) {
  TORCH_CHECK(!active() || samples_.size() == scope.batch().rows, "dropout wants a global sample number for each of ",
              scope.batch().rows, " rows, got ", samples_.size());
}

kernels::dropout_key dropout_masks::key(uint64_t row) const {
  if (!active()) return {};
  return {probability_, seed_, step_, samples_[row], layer_, static_cast<uint32_t>(site_)};
}

void dropout_masks::apply(const at::Tensor& x, const at::Tensor& keep) const {
  TORCH_CHECK(x.is_contiguous() && x.numel() == keep.numel(), "a mask of ", keep.numel(), " elements for ", x.numel());
  kernels_for(x).scale_kept(bytes_in(x), core_dtype(x.scalar_type()), keep.const_data_ptr<uint8_t>(), factor(),
                            count_of(x));
}

void dropout_masks::apply_rows(const at::Tensor& x) const {
  if (!active()) return;
  TORCH_CHECK(x.is_contiguous() && x.size(1) == columns_.count(), "dropout wants ", columns_.count(),
              " columns of contiguous elements, got ", x.sizes());
  apply_rows(as_rows(x), 0);
}

void dropout_masks::apply_rows(const at::Tensor& rows, int64_t first) const {
  if (!active()) return;
  const auto width = static_cast<uint64_t>(rows.size(-1));
  const core::dtype type = core_dtype(rows.scalar_type());
  std::byte* next = bytes_in(rows);
  const int64_t end = first + rows.size(0);
  int64_t begins = 0;  // number of rows before the current run of columns
  for (uint64_t sample = 0; sample < samples_.size(); ++sample)
    for (const core::column_run& run : columns_.runs) {
      const int64_t from = std::max(first, begins), to = std::min<int64_t>(end, begins + run.count);
      if (from < to) {
        const uint64_t count = static_cast<uint64_t>(to - from) * width;
        kernels_for(rows).drop(next, type, count, key(sample),
                               static_cast<uint64_t>(run.first + from - begins) * width);
        next += count * core::size_of(type);
      }
      begins += run.count;
    }
}

namespace {

/// Computes the sum in y's memory, where the segment's output is computed in pieces of rows: stores a function for
/// later pieces, because y does not have all of its rows yet.
at::Tensor add_by_rows(const segment_scope& scope, const at::Tensor& x, at::Tensor&& y, const dropped_sum& of) {
  if (!of.adds && !of.masks.active() && of.scale == 1) return std::move(y);
  at::Tensor sum;
  {
    const below_autograd plain;
    sum = y.detach();
    const at::Tensor rows = as_rows(sum), past = of.adds ? as_rows(x.detach()) : at::Tensor();
    TORCH_CHECK(rows.is_alias_of(sum), "rows of an output that do not lie side by side");
    scope.by_rows(rows.size(0), [rows, past, of](int64_t first, int64_t count) {
      const below_autograd without_history;
      at::Tensor part = rows.narrow(0, first, count);
      of.masks.apply_rows(part, first);
      if (of.scale != 1) part.mul_(of.scale);
      if (past.defined()) part.add_(past.narrow(0, first, count));
    });
  }
  return with_history(scope, x, y, std::move(sum), of);
}

}  // namespace

at::Tensor add_dropped(const segment_scope& scope, const at::Tensor& x, at::Tensor&& y, dropout_site site,
                       float probability, added_by who) {
  const dropped_sum of{dropout_masks(scope, site, probability), 1, adds_here(scope, who)};
  if (scope.gives_pieces()) return add_by_rows(scope, x, std::move(y), of);
  if (!of.masks.active()) return add_past(scope, x, std::move(y), 1, who);
  at::Tensor sum;
  {
    const below_autograd plain;
    if (scope.batch().wants_output) {
      // If y is the segment's input, it is copied instead of overwritten, because a recomputation may read it again.
      sum = is_input(y) ? y.clone(at::MemoryFormat::Contiguous) : y.detach();
      of.masks.apply_rows(sum);
      if (of.adds) sum.add_(x);
    } else {
      sum = of.adds ? x.add(y) : y.detach();
    }
  }
  return with_history(scope, x, y, std::move(sum), of);
}

at::Tensor dropped(const segment_scope& scope, at::Tensor&& y, dropout_site site, float probability) {
  const dropped_sum of{dropout_masks(scope, site, probability), 1, /*adds=*/false};
  if (!of.masks.active()) return std::move(y);
  at::Tensor out;
  {
    const below_autograd plain;
    out = y.detach();
    of.masks.apply_rows(out);
  }
  return with_history(scope, {}, y, std::move(out), of);
}

at::Tensor add_past(const segment_scope& scope, const at::Tensor& x, at::Tensor&& y, double scale, added_by who) {
  const bool adds = adds_here(scope, who);
  if (scope.gives_pieces()) return add_by_rows(scope, x, std::move(y), {{}, scale, adds});
  const bool stays = !scope.batch().wants_output || is_input(y);
  if (scale != 1) {
    at::Tensor scaled = stays ? y.mul(scale) : y.mul_(scale);
    return adds ? scaled.add_(x) : scaled;
  }
  if (!adds) return std::move(y);
  return stays ? y.add(x) : y.add_(x);
}

}  // namespace troupe::models
