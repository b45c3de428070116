// Masks drawn in blocks that stay in the cache, applied in place.
#include "models/dropout.hpp"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <array>

#include "kernels/random.hpp"
#include "models/function_node.hpp"

namespace troupe::models {
namespace {

/// Elements masked at once; a multiple of kernels::random_chunk.
constexpr uint64_t block_numel = 4096;
static_assert(block_numel % kernels::random_chunk == 0);

template <class T>
void scale_kept(T* x, const uint8_t* keep, uint64_t count, at::opmath_type<T> factor) {
  using wide_t = at::opmath_type<T>;
  for (uint64_t i = 0; i < count; ++i)
    x[i] = keep[i] != 0 ? static_cast<T>(static_cast<wide_t>(x[i]) * factor) : static_cast<T>(0);
}

struct add_dropped_node final : function_node {
  dropout_masks masks;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    at::Tensor dropped = gradients[0].clone(at::MemoryFormat::Contiguous);
    masks.apply_rows(dropped);
    return {gradients[0], std::move(dropped)};
  }
  [[nodiscard]] std::string name() const override { return "add_dropped"; }
};

}  // namespace

dropout_masks::dropout_masks(const segment_scope& scope, dropout_site site, float probability)
    : probability_(scope.batch().training ? probability : 0),
      site_(site),
      seed_(scope.batch().seed),
      step_(scope.batch().step),
      layer_(scope.unit()),
      samples_(scope.batch().samples) {
  TORCH_CHECK(!active() || samples_.size() == scope.batch().rows, "dropout wants a global sample number for each of ",
              scope.batch().rows, " rows, got ", samples_.size());
}

void dropout_masks::apply(const at::Tensor& x, uint64_t row, uint64_t first_position) const {
  if (!active()) return;
  TORCH_CHECK(x.is_contiguous(), "dropout wants contiguous elements");
  const auto count = static_cast<uint64_t>(x.numel());
  std::array<uint8_t, block_numel> keep;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "dropout", [&] {
    using wide_t = at::opmath_type<scalar_t>;
    const wide_t factor = wide_t{1} / (wide_t{1} - static_cast<wide_t>(probability_));
    scalar_t* elements = x.mutable_data_ptr<scalar_t>();
    for (uint64_t i = 0; i < count; i += block_numel) {
      const uint64_t n = std::min(block_numel, count - i);
      kernels::dropout_mask({keep.data(), n}, probability_, seed_, step_, samples_[row], layer_,
                            static_cast<uint32_t>(site_), first_position + i);
      scale_kept<scalar_t>(elements + i, keep.data(), n, factor);
    }
  });
}

void dropout_masks::apply_rows(const at::Tensor& x) const {
  if (!active()) return;
  for (int64_t row = 0; row < x.size(0); ++row) apply(x.select(0, row), static_cast<uint64_t>(row), 0);
}

at::Tensor add_dropped(const segment_scope& scope, const at::Tensor& x, at::Tensor&& y, dropout_site site,
                       float probability) {
  const dropout_masks masks(scope, site, probability);
  if (!masks.active()) return y.add_(x);
  at::Tensor sum;
  {
    const below_autograd plain;
    masks.apply_rows(y);
    sum = x.add(y);
  }
  if (!wants_node(x, y)) return sum;
  auto node = std::make_shared<add_dropped_node>();
  node->masks = masks;
  attach(sum, std::move(node), scope, x, y);
  return sum;
}

}  // namespace troupe::models
