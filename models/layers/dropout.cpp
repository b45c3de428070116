// Masks drawn in blocks that stay in the cache, applied in place.
#include "models/layers/dropout.hpp"

#include <algorithm>
#include <array>

#include "kernels/elementwise.hpp"
#include "kernels/random.hpp"
#include "models/layers/bytes.hpp"
#include "models/layers/function_node.hpp"
#include "models/layers/torch_dtype.hpp"

namespace troupe::models {
namespace {

/// Elements masked at once; a multiple of kernels::random_chunk.
constexpr uint64_t block_numel = 4096;
static_assert(block_numel % kernels::random_chunk == 0);

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

void dropout_masks::draw(std::span<uint8_t> keep, uint64_t row, uint64_t first_position) const {
  kernels::dropout_mask(keep, probability_, seed_, step_, samples_[row], layer_, static_cast<uint32_t>(site_),
                        first_position);
}

void dropout_masks::apply(const at::Tensor& x, std::span<const uint8_t> keep) const {
  TORCH_CHECK(x.is_contiguous() && static_cast<uint64_t>(x.numel()) == keep.size(), "a mask of ", keep.size(),
              " elements for ", x.numel());
  scale(bytes_in(x), core_dtype(x.scalar_type()), keep);
}

void dropout_masks::scale(std::byte* x, core::dtype type, std::span<const uint8_t> keep) const {
  kernels::scale_kept(x, type, keep.data(), factor(), keep.size());
}

void dropout_masks::apply_rows(const at::Tensor& x) const {
  if (!active()) return;
  TORCH_CHECK(x.is_contiguous(), "dropout wants contiguous elements");
  const auto rows = static_cast<uint64_t>(x.size(0)), count = static_cast<uint64_t>(x.numel()) / rows;
  const core::dtype type = core_dtype(x.scalar_type());
  auto* elements = bytes_in(x);
  std::array<uint8_t, block_numel> keep;
  for (uint64_t row = 0; row < rows; ++row)
    for (uint64_t first = 0; first < count; first += block_numel) {
      const std::span<uint8_t> block(keep.data(), std::min(block_numel, count - first));
      draw(block, row, first);
      scale(elements + (row * count + first) * core::size_of(type), type, block);
    }
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
