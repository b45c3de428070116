// One pass that turns and packs; backward is the same pass with the opposite angle.
#include "models/rotary.hpp"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "models/function_node.hpp"
#include "models/torch_dtype.hpp"

namespace troupe::models {
namespace {

/// A part of a packed tensor and its own contiguous tensor: heads side by side for every token.
struct part {
  at::Tensor own;
  int64_t first_head, heads;
  bool turned;
};

enum class direction : uint8_t { pack, unpack };

template <class T, class Wide>
void turn_heads(const T* from, T* to, int64_t heads, int64_t width, const Wide* c, const Wide* s, Wide sign) {
  const int64_t half = width / 2;
  for (int64_t h = 0; h < heads; ++h, from += width, to += width)
    for (int64_t i = 0; i < half; ++i) {
      const Wide a = static_cast<Wide>(from[i]), b = static_cast<Wide>(from[half + i]);
      to[i] = static_cast<T>(a * c[i] - b * sign * s[i]);
      to[half + i] = static_cast<T>(b * c[i] + a * sign * s[i]);
    }
}

/// The column inside its document of token `token` of a (B, T) batch.
int64_t position_of(int64_t token, int64_t columns, std::span<const uint32_t> starts) {
  return token % columns - (starts.empty() ? 0 : starts[static_cast<size_t>(token)]);
}

void move_part(const part& p, at::Tensor& packed, int64_t head_width, const rotary_angles& angles,
               std::span<const uint32_t> starts, direction way) {
  const int64_t rows = packed.size(0), columns = packed.size(1), stride = packed.size(2);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, packed.scalar_type(), "rotary", [&] {
    using wide_t = at::opmath_type<scalar_t>;
    const auto* c = angles.cosines.const_data_ptr<wide_t>();
    const auto* s = angles.sines.const_data_ptr<wide_t>();
    scalar_t* own = p.own.mutable_data_ptr<scalar_t>();
    scalar_t* inside = packed.mutable_data_ptr<scalar_t>() + p.first_head * head_width;
    for (int64_t token = 0; token < rows * columns; ++token) {
      const int64_t angle = position_of(token, columns, starts) * (head_width / 2);
      scalar_t* a = own + token * p.heads * head_width;
      scalar_t* b = inside + token * stride;
      if (way == direction::unpack) std::swap(a, b);
      if (p.turned) {
        turn_heads<scalar_t, wide_t>(a, b, p.heads, head_width, c + angle, s + angle,
                                     way == direction::pack ? wide_t{1} : wide_t{-1});
      } else {
        std::copy_n(a, p.heads * head_width, b);
      }
    }
  });
}

struct rotary_node final : function_node {
  attention_shape shape;
  const rotary_angles* angles = nullptr;  // the model's own, which outlives its segments
  std::span<const uint32_t> starts;       // the batch's, which do so too

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    at::Tensor packed = gradients[0].contiguous();
    const auto part_of = [&](int64_t first, int64_t heads, bool turned) {
      at::Tensor own = at::empty({packed.size(0), packed.size(1), heads * shape.head_width}, packed.options());
      move_part({own, first, heads, turned}, packed, shape.head_width, *angles, starts, direction::unpack);
      return own;
    };
    return {part_of(0, shape.heads, true), part_of(shape.heads, shape.kv_heads, true),
            part_of(shape.heads + shape.kv_heads, shape.kv_heads, false)};
  }
  [[nodiscard]] std::string name() const override { return "rotary"; }
};

}  // namespace

rotary_angles::rotary_angles(double theta, uint32_t head_width, uint64_t positions, core::dtype type) {
  const auto count = static_cast<int64_t>(positions), half = static_cast<int64_t>(head_width / 2);
  const at::ScalarType wide = sum_dtype(torch_dtype(type));
  cosines = at::empty({count, half}, wide);
  sines = at::empty({count, half}, wide);
  AT_DISPATCH_FLOATING_TYPES(wide, "rotary_angles", [&] {
    auto* c = cosines.mutable_data_ptr<scalar_t>();
    auto* s = sines.mutable_data_ptr<scalar_t>();
    for (int64_t t = 0; t < count; ++t)
      for (int64_t i = 0; i < half; ++i) {
        // angles are rounded to fp32 where the peer rounds them: at far positions that is visible
        const auto power = static_cast<scalar_t>(2 * i) / static_cast<scalar_t>(head_width);
        const scalar_t frequency = scalar_t{1} / std::pow(static_cast<scalar_t>(theta), power);
        const scalar_t angle = static_cast<scalar_t>(t) * frequency;
        c[t * half + i] = std::cos(angle);
        s[t * half + i] = std::sin(angle);
      }
  });
}

at::Tensor rotate_and_pack(const segment_scope& scope, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const attention_shape& shape, const rotary_angles& angles) {
  at::Tensor packed;
  {
    const below_autograd plain;
    const auto starts = scope.batch().document_start;
    packed = at::empty({q.size(0), q.size(1), q.size(2) + k.size(2) + v.size(2)}, q.options().requires_grad(false));
    move_part({q, 0, shape.heads, true}, packed, shape.head_width, angles, starts, direction::pack);
    move_part({k, shape.heads, shape.kv_heads, true}, packed, shape.head_width, angles, starts, direction::pack);
    move_part({v, shape.heads + shape.kv_heads, shape.kv_heads, false}, packed, shape.head_width, angles, starts,
              direction::pack);
  }
  if (!wants_node(q, k, v)) return packed;
  auto node = std::make_shared<rotary_node>();
  node->shape = shape;
  node->angles = &angles;
  node->starts = scope.batch().document_start;
  attach(packed, std::move(node), scope, q, k, v);
  return packed;
}

}  // namespace troupe::models
