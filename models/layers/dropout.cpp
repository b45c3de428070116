#include "models/layers/dropout.hpp"

#include "models/layers/bytes.hpp"
#include "models/layers/function_node.hpp"
#include "models/layers/operations.hpp"
#include "models/layers/torch_dtype.hpp"

namespace troupe::models {
namespace {

struct add_dropped_node final : function_node {
  dropout_masks masks;
  bool adds = true;  // x, which is the first input then

  gradient_list apply(gradient_list&& gradients) override {
    at::Tensor dropped = gradients[0].clone(at::MemoryFormat::Contiguous);
    masks.apply_rows(dropped);
    if (!adds) return {std::move(dropped)};
    return {gradients[0], std::move(dropped)};
  }
  [[nodiscard]] std::string name() const override { return "add_dropped"; }
};

/// Whether a segment that trains took `y`, and did not compute it.
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
  const auto width = static_cast<uint64_t>(x.size(-1));
  const core::dtype type = core_dtype(x.scalar_type());
  std::byte* next = bytes_in(x);
  for (uint64_t row = 0; row < static_cast<uint64_t>(x.size(0)); ++row)
    for (const core::column_run& run : columns_.runs) {
      const uint64_t count = static_cast<uint64_t>(run.count) * width;
      kernels_for(x).drop(next, type, count, key(row), static_cast<uint64_t>(run.first) * width);
      next += count * core::size_of(type);
    }
}

at::Tensor add_dropped(const segment_scope& scope, const at::Tensor& x, at::Tensor&& y, dropout_site site,
                       float probability) {
  const dropout_masks masks(scope, site, probability);
  if (!masks.active()) return add_past(scope, x, std::move(y));
  at::Tensor sum;
  {
    const below_autograd plain;
    if (scope.batch().wants_output) {
      // What the segment took, a recompute may read again.
      sum = is_input(y) ? y.clone(at::MemoryFormat::Contiguous) : y.detach();
      masks.apply_rows(sum);
      if (scope.leads()) sum.add_(x);
    } else {
      sum = scope.leads() ? x.add(y) : y.detach();
    }
  }
  if (!wants_node(x, y)) return sum;
  auto node = std::make_shared<add_dropped_node>();
  node->masks = masks;
  node->adds = scope.leads();
  if (scope.leads())
    attach({&sum}, std::move(node), scope, {x, y});
  else
    attach({&sum}, std::move(node), scope, {y});
  return sum;
}

at::Tensor add_past(const segment_scope& scope, const at::Tensor& x, at::Tensor&& y) {
  if (!scope.leads()) return std::move(y);
  return !scope.batch().wants_output || is_input(y) ? y.add(x) : y.add_(x);
}

}  // namespace troupe::models
