#include "models/segment/sequence_parts.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "models/segment/function_node.hpp"

namespace troupe::models {
namespace {

int64_t number(uint64_t n) { return static_cast<int64_t>(n); }

/// A rectangular block of elements that a whole tensor and one of its parts have in common: some columns (tokens), and
/// in each a run of elements.
struct moved_block {
  int64_t part = 0;
  int64_t columns = 0, column = 0, part_column = 0;
  int64_t width = 0, element = 0, part_element = 0;

  [[nodiscard]] at::Tensor in_parts(const at::Tensor& parts) const {
    return parts.select(0, part).narrow(1, part_column, columns).narrow(2, part_element, width);
  }
  [[nodiscard]] at::Tensor in_whole(const at::Tensor& whole) const {
    return whole.narrow(1, column, columns).narrow(2, element, width);
  }
};

enum class direction : uint8_t { give, take };

/// How a tensor (B, T, width) is divided into parts (ranks, B, columns, part width), one for each rank. An element of
/// the tensor may be in several parts.
struct partition {
  std::vector<moved_block> blocks;
  std::vector<int64_t> whole, parts;  // shapes of the whole tensor and of the parts
  bool repeats = false;               // true: some element of the tensor is in several parts

  /// Returns the parts of the tensor `x` (direction give) or the tensor that the parts `x` make (take). Elements that
  /// no block fills are zero; an element that several parts have is their sum, in the order of blocks.
  [[nodiscard]] at::Tensor moved(const at::Tensor& x, direction way) const {
    const bool gives = way == direction::give;
    const auto options = x.options().requires_grad(false);
    int64_t filled = 0, all = 1;
    for (const moved_block& b : blocks) filled += b.columns * b.width * whole[0];
    for (const int64_t n : gives ? parts : whole) all *= n;
    const bool adds = repeats && !gives;
    at::Tensor out =
        adds || filled != all ? at::zeros(gives ? parts : whole, options) : at::empty(gives ? parts : whole, options);
    for (const moved_block& b : blocks) {
      if (gives)
        b.in_parts(out).copy_(b.in_whole(x));
      else if (adds)
        b.in_whole(out).add_(b.in_parts(x));
      else
        b.in_whole(out).copy_(b.in_parts(x));
    }
    return out;
  }
};

/// Autograd node of dividing a tensor into parts or joining them; its backward does the opposite with the gradient.
struct partition_node final : function_node {
  partition of;
  direction way = direction::give;

  gradient_list apply(gradient_list&& gradients) override {
    return {of.moved(gradients[0], way == direction::give ? direction::take : direction::give)};
  }
  [[nodiscard]] std::string name() const override { return "sequence_parts"; }
};

at::Tensor moved(const segment_scope& scope, const at::Tensor& x, partition of, direction way) {
  at::Tensor out;
  {
    const below_autograd plain;
    out = of.moved(x.detach(), way);
  }
  if (!wants_node(x)) return out;
  auto node = std::make_shared<partition_node>();
  node->of = std::move(of);
  node->way = way;
  attach({&out}, std::move(node), scope, {x});
  return out;
}

/// Returns the division of a tensor with the columns (tokens) of all ranks into each rank's columns; a column's
/// elements stay together.
partition by_columns(const sequence_parts& parts, int64_t rows, int64_t width) {
  partition out{{}, {rows, number(parts.columns), width}, {parts.ranks(), rows, parts.most_columns(), width}};
  for (int64_t r = 0; r < parts.ranks(); ++r) {
    int64_t own = 0;
    for (const core::column_run& run : parts.columns_of(r).runs) {
      out.blocks.push_back({r, run.count, run.first, own, width, 0, 0});
      own += run.count;
    }
  }
  return out;
}

}  // namespace

at::Tensor give_heads(const segment_scope& scope, const at::Tensor& qkv, const sequence_parts& parts) {
  const dealt_heads& h = parts.heads;
  const int64_t width = h.head_width, repeats = h.repeats, group = h.group, widest = number(h.widest());
  const int64_t heads = number(core::sum_of(h.kv)) * group, kv_heads = number(core::sum_of(h.kv)) / repeats;
  partition out{
      {}, qkv.sizes().vec(), {parts.ranks(), qkv.size(0), parts.most_columns(), number(h.packed_width())}, repeats > 1};
  int64_t first = 0;
  for (int64_t r = 0; r < parts.ranks(); ++r) {
    const int64_t count = number(h.kv[static_cast<size_t>(r)]);
    const auto add = [&](int64_t head, int64_t part_head, int64_t n) {
      out.blocks.push_back({r, qkv.size(1), 0, 0, n * width, head * width, part_head * width});
    };
    add(first * group, 0, count * group);
    for (const auto& [from, to] : {std::pair(heads, widest * group), {heads + kv_heads, widest * (group + 1)}})
      if (repeats == 1)
        add(from + first, to, count);
      else
        for (int64_t j = 0; j < count; ++j) add(from + (first + j) / repeats, to + j, 1);
    first += count;
  }
  return moved(scope, qkv, std::move(out), direction::give);
}

at::Tensor take_columns(const segment_scope& scope, const at::Tensor& got, const sequence_parts& parts) {
  return moved(scope, got, by_columns(parts, got.size(1), got.size(3)), direction::take);
}

at::Tensor give_columns(const segment_scope& scope, const at::Tensor& mixed, const sequence_parts& parts) {
  return moved(scope, mixed, by_columns(parts, mixed.size(0), mixed.size(2)), direction::give);
}

at::Tensor take_heads(const segment_scope& scope, const at::Tensor& got, const sequence_parts& parts) {
  const int64_t columns = parts.columns_of(parts.own).count();
  partition out{{}, {got.size(1), columns, 0}, got.sizes().vec()};
  for (int64_t r = 0; r < parts.ranks(); ++r) {
    const int64_t width = number(parts.heads.kv[static_cast<size_t>(r)]) * parts.heads.group * parts.heads.head_width;
    out.blocks.push_back({r, columns, 0, 0, width, out.whole[2], 0});
    out.whole[2] += width;
  }
  return moved(scope, got, std::move(out), direction::take);
}

at::Tensor give_own(const segment_scope& scope, const at::Tensor& own, const sequence_parts& parts) {
  if (own.size(1) == parts.most_columns()) return own;
  partition out{{{0, own.size(1), 0, 0, own.size(2), 0, 0}},
                own.sizes().vec(),
                {1, own.size(0), parts.most_columns(), own.size(2)}};
  return moved(scope, own, std::move(out), direction::give).squeeze(0);
}

at::Tensor take_own(const segment_scope& scope, const at::Tensor& got, const sequence_parts& parts) {
  const int64_t columns = parts.columns_of(parts.own).count();
  if (got.size(1) == columns) return got;
  partition out{{{0, columns, 0, 0, got.size(2), 0, 0}},
                {got.size(0), columns, got.size(2)},
                {1, got.size(0), got.size(1), got.size(2)}};
  return moved(scope, got.unsqueeze(0), std::move(out), direction::take);
}

namespace {

class giving_columns_run final : public segment_run {
 public:
  giving_columns_run(std::unique_ptr<segment_run> whole, const sequence_parts& parts)
      : whole_(std::move(whole)),
        of_(by_columns(parts, whole_->output().size(0), whole_->output().size(2))),
        output_(of_.moved(whole_->output(), direction::give)) {
    whole_->release_outputs();
  }

  [[nodiscard]] const values& outputs() const override { return output_; }
  void release_outputs() override { output_ = {}; }
  values backward(const values& gradients, gradient_sink& sink) override {
    return whole_->backward(of_whole(gradients), sink);
  }
  values backward_input(const values& gradients) override { return whole_->backward_input(of_whole(gradients)); }
  void backward_weight(gradient_sink& sink) override { whole_->backward_weight(sink); }

 private:
  [[nodiscard]] values of_whole(const values& gradients) const { return of_.moved(gradients.first(), direction::take); }

  std::unique_ptr<segment_run> whole_;
  partition of_;
  values output_;
};

}  // namespace

std::unique_ptr<segment_run> giving_columns(std::unique_ptr<segment_run> whole, const sequence_parts& parts) {
  const at::NoGradGuard no_grad;
  return std::make_unique<giving_columns_run>(std::move(whole), parts);
}

}  // namespace troupe::models
