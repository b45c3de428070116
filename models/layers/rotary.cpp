// Rotates queries and keys by their positions and packs them with the values, in one pass; backward is the same pass in
// the other direction, with the opposite angle.
#include "models/layers/rotary.hpp"

#include <ATen/Dispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "models/segment/batch_numbers.hpp"
#include "models/segment/columns.hpp"
#include "models/segment/function_node.hpp"
#include "models/segment/kept_tensor.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// The queries, keys or values as a tensor of their own, and which heads of the packed tensor they are.
struct part {
  at::Tensor own;
  int64_t first_head, heads;
  bool turned;
};

enum class direction : uint8_t { pack, unpack };

/// Returns the numbers `starts` of kernels::rotary_table: for each token, its index among this rank's columns of the
/// row minus its position in its document. Undefined if each row is one document and all its columns are on this rank.
at::Tensor starts_of(const segment_scope& scope, at::Device where) {
  const micro_batch& b = scope.batch();
  const core::column_set& own = scope.columns();
  const at::Tensor documents = document_start_on(b, where);
  if (!scope.shares_columns()) return documents;
  const auto columns = static_cast<int64_t>(b.columns);
  at::Tensor out = at::arange(own.count(), at::dtype(at::kInt).device(where))
                       .sub(columns_of(at::arange(columns, at::dtype(at::kInt).device(where)), 0, own));
  out = out.expand({static_cast<int64_t>(b.rows), own.count()});
  if (documents.defined()) out = out.add(columns_of(documents, 1, own));
  return out.contiguous();
}

/// Moves heads between `p.own` and the packed tensor, and rotates queries and keys.
class part_mover {
 public:
  part_mover(const part& p, at::Tensor& packed, int64_t head_width, const head_rotation& by, const at::Tensor& starts,
             direction way)
      : p_(p), packed_(packed), width_(static_cast<uint64_t>(head_width)), by_(by), starts_(starts), way_(way) {}

  void run() const {
    const auto heads = static_cast<uint64_t>(p_.heads), rotated = static_cast<uint64_t>(by_.width);
    const bool turns = p_.turned && by_.angles != nullptr;
    if (!turns || rotated == width_) return move(0, heads, width_, turns);
    for (uint64_t h = 0; h < heads; ++h) {
      move(h * width_, 1, rotated, true);
      move(h * width_ + rotated, 1, width_ - rotated, false);
    }
  }

 private:
  /// Moves `heads` heads of `width` elements, from element `first` of each token on.
  void move(uint64_t first, uint64_t heads, uint64_t width, bool turns) const {
    const core::dtype type = core_dtype(packed_.scalar_type());
    const uint64_t bytes = core::size_of(type), in_packed = static_cast<uint64_t>(p_.first_head) * width_ + first;
    const uint64_t own_stride = static_cast<uint64_t>(p_.heads) * width_ * bytes;
    const uint64_t stride = static_cast<uint64_t>(packed_.size(2)) * bytes;
    const bool pack = way_ == direction::pack;
    auto* own = bytes_in(p_.own) + first * bytes;
    auto* inside = bytes_in(packed_) + in_packed * bytes;
    const kernels::token_heads moved{.from = pack ? own : inside,
                                     .to = pack ? inside : own,
                                     .from_stride = pack ? own_stride : stride,
                                     .to_stride = pack ? stride : own_stride,
                                     .type = type,
                                     .tokens = static_cast<uint64_t>(packed_.size(0) * packed_.size(1)),
                                     .heads = heads,
                                     .width = width};
    kernels::rotary_table table{.starts = starts_.defined() ? starts_.const_data_ptr<int32_t>() : nullptr,
                                .columns = static_cast<uint64_t>(packed_.size(1)),
                                .back = !pack};
    if (turns) {
      table.cosines = bytes_of(by_.angles->cosines);
      table.sines = bytes_of(by_.angles->sines);
    }
    kernels_for(packed_).turn_tokens(moved, table);
  }

  const part& p_;
  at::Tensor& packed_;
  uint64_t width_;
  const head_rotation& by_;
  const at::Tensor& starts_;
  direction way_;
};

void move_part(const part& p, at::Tensor& packed, int64_t head_width, const head_rotation& by, const at::Tensor& starts,
               direction way) {
  part_mover(p, packed, head_width, by, starts, way).run();
}

struct rotary_node final : function_node {
  attention_shape shape;
  head_rotation by;   // the model owns its angles, which outlive segments
  at::Tensor starts;  // result of starts_of()
  // Queries, keys and values, if backward recomputes them; this node can then recompute the packed tensor.
  std::vector<kept_tensor> inputs;
  std::vector<int64_t> sizes;  // shape of the packed tensor

  [[nodiscard]] bool makes_again() const override { return !inputs.empty(); }
  at::Tensor made_again(uint32_t) override {
    at::Tensor packed;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const at::Tensor own = inputs[k].take();
      if (k == 0) packed = at::empty(sizes, own.options());
      const int64_t before[] = {0, shape.heads, shape.heads + shape.kv_heads};
      move_part({own, before[k], k == 0 ? shape.heads : shape.kv_heads, k < 2}, packed, shape.head_width, by, starts,
                direction::pack);
    }
    return packed;
  }
  void release_variables() override { inputs.clear(); }

  gradient_list apply(gradient_list&& gradients) override {
    at::Tensor packed = gradients[0].contiguous();
    const auto part_of = [&](int64_t first, int64_t heads, bool turned) {
      at::Tensor own = at::empty({packed.size(0), packed.size(1), heads * shape.head_width}, packed.options());
      move_part({own, first, heads, turned}, packed, shape.head_width, by, starts, direction::unpack);
      return own;
    };
    return {part_of(0, shape.heads, true), part_of(shape.heads, shape.kv_heads, true),
            part_of(shape.heads + shape.kv_heads, shape.kv_heads, false)};
  }
  [[nodiscard]] std::string name() const override { return "rotary"; }
};

angle_table table_of(const rotary_positions& rope, uint32_t width, uint64_t columns, at::ScalarType wide,
                     at::Device where) {
  const auto count = static_cast<int64_t>(columns), half = static_cast<int64_t>(width / 2);
  at::Tensor cosines = at::empty({count, half}, wide), sines = at::empty({count, half}, wide);
  AT_DISPATCH_FLOATING_TYPES(wide, "rotary_angles", [&] {
    const auto frequencies = frequencies_of<scalar_t>(rope, width, columns);
    auto* c = cosines.mutable_data_ptr<scalar_t>();
    auto* s = sines.mutable_data_ptr<scalar_t>();
    for (int64_t t = 0; t < count; ++t)
      for (int64_t i = 0; i < half; ++i) {
        const scalar_t angle = static_cast<scalar_t>(t) * frequencies.angles[static_cast<size_t>(i)];
        c[t * half + i] = std::cos(angle) * frequencies.scale;
        s[t * half + i] = std::sin(angle) * frequencies.scale;
      }
  });
  return {cosines.to(where), sines.to(where)};
}

}  // namespace

rotary_angles::rotary_angles(const rotary_positions& rope, uint32_t width, uint64_t columns, core::dtype type,
                             at::Device where)
    : usual_columns_(rope.has_two_tables(columns) ? rope.original_positions : columns) {
  const at::ScalarType wide = sum_dtype(torch_dtype(type));
  usual_ = table_of(rope, width, usual_columns_, wide, where);
  if (usual_columns_ < columns) beyond_ = table_of(rope, width, columns, wide, where);
}

at::Tensor rotate_and_pack(const segment_scope& scope, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const attention_shape& shape, const head_rotation& by) {
  at::Tensor packed;
  const at::Tensor starts = starts_of(scope, q.device());
  {
    const below_autograd plain;
    packed = at::empty({q.size(0), q.size(1), q.size(2) + k.size(2) + v.size(2)}, q.options().requires_grad(false));
    move_part({q.contiguous(), 0, shape.heads, true}, packed, shape.head_width, by, starts, direction::pack);
    move_part({k.contiguous(), shape.heads, shape.kv_heads, true}, packed, shape.head_width, by, starts,
              direction::pack);
    move_part({v.contiguous(), shape.heads + shape.kv_heads, shape.kv_heads, false}, packed, shape.head_width, by,
              starts, direction::pack);
  }
  if (!wants_node(q, k, v)) return packed;
  auto node = std::make_shared<rotary_node>();
  node->shape = shape;
  node->by = by;
  node->starts = starts;
  if (scope.batch().keeps_light) {
    node->sizes = packed.sizes().vec();
    for (const at::Tensor* x : {&q, &k, &v}) node->inputs.emplace_back(scope, *x, x->detach());
    if (!std::ranges::all_of(node->inputs, &kept_tensor::is_made_again)) node->inputs.clear();
  }
  attach({&packed}, std::move(node), scope, {q, k, v});
  return packed;
}

}  // namespace troupe::models
