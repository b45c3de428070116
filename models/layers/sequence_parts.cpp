#include "models/layers/sequence_parts.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::models {
namespace {

/// Zeros behind the last two dimensions, up to these sizes.
at::Tensor padded(const at::Tensor& x, int64_t columns, int64_t width) {
  const int64_t more_columns = columns - x.size(1), more_width = width - x.size(2);
  if (more_columns == 0 && more_width == 0) return x;
  return at::constant_pad_nd(x, {0, more_width, 0, more_columns});
}

int64_t number(uint64_t n) { return static_cast<int64_t>(n); }

}  // namespace

at::Tensor give_heads(const at::Tensor& qkv, const sequence_parts& parts) {
  const dealt_heads& h = parts.heads;
  const int64_t width = h.head_width, repeats = h.repeats, group = h.group;
  const int64_t all_kv = number(core::sum_of(h.kv)), own_kv = all_kv / repeats;
  const at::Tensor q = qkv.narrow(2, 0, all_kv * group * width);
  // Heads of keys or values, each as often as it is worked with.
  const auto repeated = [&](int64_t first) {
    at::Tensor x = qkv.narrow(2, first, own_kv * width);
    if (repeats == 1) return x;
    return x.view({x.size(0), x.size(1), own_kv, 1, width})
        .expand({x.size(0), x.size(1), own_kv, repeats, width})
        .reshape({x.size(0), x.size(1), all_kv * width});
  };
  const at::Tensor k = repeated(q.size(2)), v = repeated(q.size(2) + own_kv * width);
  std::vector<at::Tensor> out;
  int64_t first = 0;
  const int64_t columns = parts.most_columns(), widest = number(h.widest());
  for (const uint64_t kv : h.kv) {
    const int64_t count = number(kv);
    out.push_back(
        at::cat({padded(q.narrow(2, first * group * width, count * group * width), columns, widest * group * width),
                 padded(k.narrow(2, first * width, count * width), columns, widest * width),
                 padded(v.narrow(2, first * width, count * width), columns, widest * width)},
                2));
    first += count;
  }
  return at::stack(out);
}

at::Tensor take_columns(const at::Tensor& got, const sequence_parts& parts) {
  std::vector<at::Tensor> out;
  for (int64_t r = 0; r < parts.ranks(); ++r) out.push_back(got.select(0, r).narrow(1, 0, parts.columns_of(r).count()));
  return at::cat(out, 1);
}

at::Tensor give_columns(const at::Tensor& mixed, const sequence_parts& parts) {
  std::vector<at::Tensor> out;
  int64_t first = 0;
  for (int64_t r = 0; r < parts.ranks(); ++r) {
    out.push_back(padded(mixed.narrow(1, first, parts.columns_of(r).count()), parts.most_columns(), mixed.size(2)));
    first += parts.columns_of(r).count();
  }
  return at::stack(out);
}

at::Tensor take_heads(const at::Tensor& got, const sequence_parts& parts) {
  std::vector<at::Tensor> out;
  for (int64_t r = 0; r < parts.ranks(); ++r) {
    const int64_t heads = number(parts.heads.kv[static_cast<size_t>(r)]) * parts.heads.group;
    out.push_back(got.select(0, r)
                      .narrow(1, 0, parts.columns_of(parts.own).count())
                      .narrow(2, 0, heads * parts.heads.head_width));
  }
  return at::cat(out, 2);
}

at::Tensor give_keys(const at::Tensor& keys, const sequence_parts& parts) {
  return padded(keys, parts.most_columns(), keys.size(2)).contiguous();
}

at::Tensor take_keys(const at::Tensor& got, const sequence_parts& parts) {
  std::vector<std::pair<int64_t, at::Tensor>> runs;  // by their first columns
  for (int64_t r = 0; r < parts.ranks(); ++r) {
    int64_t own = 0;
    for (const core::column_run& run : parts.columns_of(r).runs) {
      runs.emplace_back(run.first, got.select(0, r).narrow(1, own, run.count));
      own += run.count;
    }
  }
  std::ranges::stable_sort(runs, {}, [](const auto& x) { return x.first; });
  std::vector<at::Tensor> out;
  for (auto& [first, run] : runs) out.push_back(std::move(run));
  return at::cat(out, 1);
}

}  // namespace troupe::models
