// Computes the runs of a cut in one walk over (dimensions before the cut dimension, parts, ranks); the positions in the
// whole tensor and in the slice advance by the same run.
#include "formats/megatron/cut.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/tensor_view.hpp"
#include "formats/safetensors/header.hpp"

namespace troupe::formats {
namespace {

using shape_type = std::vector<int64_t>;
using width_table = std::vector<std::vector<int64_t>>;  // width of each part's slice on each rank: [part][rank]

tl::unexpected<core::error> bad(std::string_view name, const std::string& what) {
  return fail(error_kind::bad_input, fmt::format("parameter '{}': {}", shown(name), what));
}

/// Returns the number of elements of a tensor of shape `shape`; refuses negative sizes and products that overflow.
core::result<uint64_t> elements_of(std::string_view name, const shape_type& shape) {
  const auto bytes = bytes_of(core::dtype::u8, shape);
  if (!bytes)
    return bad(name, fmt::format("the shape ({}) is negative or too large for any file", fmt::join(shape, ", ")));
  return *bytes;
}

core::result<void> check_widths(std::string_view name, const width_table& widths, size_t ranks) {
  if (widths.size() > max_sub_parameters)
    return fail(error_kind::limit, fmt::format("parameter '{}': {} parts, at most {} are cut", shown(name),
                                               widths.size(), max_sub_parameters));
  for (const auto& part : widths) {
    if (part.size() != ranks)
      return bad(name, fmt::format("wanted the widths of {} ranks, got {}", ranks, part.size()));
    for (const int64_t w : part)
      if (w < 0 || w > INT64_MAX / int64_t{max_tensor_ranks} / int64_t{max_sub_parameters})
        return bad(name, fmt::format("a width of {} is out of range", w));
  }
  return {};
}

int64_t width_of(const width_table& widths, size_t rank) {
  int64_t sum = 0;
  for (const auto& part : widths) sum += part[rank];
  return sum;
}

int64_t width_of(const width_table& widths) {
  int64_t sum = 0;
  for (const auto& part : widths) sum += std::accumulate(part.begin(), part.end(), int64_t{0});
  return sum;
}

/// Returns `rule.view` with `size` as the cut dimension; an entry -1 is computed from the number of elements.
core::result<shape_type> viewed(std::string_view name, const cut_rule& rule, int64_t size, uint64_t elements) {
  shape_type out = rule.view;
  out[rule.dimension] = size;
  std::optional<size_t> open;
  uint64_t known = 1;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == -1 && i != rule.dimension && !open) {
      open = i;
      continue;
    }
    if (out[i] < 0 || (out[i] > 0 && known > uint64_t{INT64_MAX} / static_cast<uint64_t>(out[i])))
      return bad(name, fmt::format("cannot be viewed as ({})", fmt::join(rule.view, ", ")));
    known *= static_cast<uint64_t>(out[i]);
  }
  if (open && (known == 0 || elements % known != 0))
    return bad(name, fmt::format("{} elements cannot be viewed as ({}) with {} in dimension {}", elements,
                                 fmt::join(rule.view, ", "), size, rule.dimension));
  if (open) out[*open] = static_cast<int64_t>(elements / known);
  if (!open && known != elements)
    return bad(name, fmt::format("{} elements cannot be viewed as ({})", elements, fmt::join(out, ", ")));
  return out;
}

/// Returns the size of the cut dimension of a tensor of `elements` elements that is reshaped to `rule.view`.
core::result<int64_t> viewed_size(std::string_view name, const cut_rule& rule, uint64_t elements) {
  uint64_t rest = 1;
  for (size_t i = 0; i < rule.view.size(); ++i) {
    if (i == rule.dimension) continue;
    if (rule.view[i] <= 0) return bad(name, "a view with an open or empty dimension needs the widths of its parts");
    if (rest > uint64_t{INT64_MAX} / static_cast<uint64_t>(rule.view[i])) return bad(name, "its view overflows");
    rest *= static_cast<uint64_t>(rule.view[i]);
  }
  if (elements % rest != 0)
    return bad(name, fmt::format("{} elements cannot be viewed as ({})", elements, fmt::join(rule.view, ", ")));
  return static_cast<int64_t>(elements / rest);
}

/// Returns the runs of the cut of a tensor of shape `shape`. Elements whose row-major index is `keep` or more are left
/// out.
core::result<std::vector<cut_run>> runs_of(std::string_view name, const shape_type& shape, size_t dimension,
                                           const width_table& widths, uint64_t keep) {
  uint64_t outer = 1, inner = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i < dimension) outer *= static_cast<uint64_t>(shape[i]);
    if (i > dimension) inner *= static_cast<uint64_t>(shape[i]);
  }
  const size_t ranks = widths.front().size();
  if (outer > max_cut_runs / (widths.size() * ranks))
    return fail(error_kind::limit, fmt::format("parameter '{}': {} rows over {} ranks are more than {} runs",
                                               shown(name), outer, ranks, max_cut_runs));
  std::vector<cut_run> out;
  std::vector<uint64_t> reached(ranks, 0);
  uint64_t at = 0;
  for (uint64_t o = 0; o < outer; ++o)
    for (const auto& part : widths)
      for (uint32_t r = 0; r < ranks; ++r) {
        const uint64_t count = static_cast<uint64_t>(part[r]) * inner;
        const uint64_t kept = at >= keep ? 0 : std::min(count, keep - at);
        if (kept > 0 && !out.empty() && out.back().rank == r && out.back().slice_first + out.back().count == reached[r])
          out.back().count += kept;
        else if (kept > 0)
          out.push_back({r, reached[r], at, kept});
        reached[r] += count;
        at += count;
      }
  return out;
}

tensor_cut copies(cut_kind kind, const shape_type& shape, size_t ranks) {
  tensor_cut out{.kind = kind, .whole = shape, .slices = std::vector(ranks, shape), .runs = {}};
  const uint64_t count = core::numel_of(shape);
  for (uint32_t r = 0; count > 0 && r < ranks; ++r) out.runs.push_back({r, 0, 0, count});
  return out;
}

core::result<void> check_ranks(std::string_view name, size_t ranks) {
  if (ranks == 0 || ranks > max_tensor_ranks)
    return fail(error_kind::limit,
                fmt::format("parameter '{}': wanted 1 to {} ranks, got {}", shown(name), max_tensor_ranks, ranks));
  return {};
}

core::result<void> check_dimension(std::string_view name, const cut_rule& rule, const shape_type& shape) {
  const size_t rank = rule.view.empty() ? shape.size() : rule.view.size();
  if (rule.dimension >= rank)
    return bad(name, fmt::format("it is cut along dimension {}, but has only {} dimensions", rule.dimension, rank));
  if (rule.sub_parameters == 0) return bad(name, "the cut has no parts");
  return {};
}

/// Returns how many elements of the joined tensor are kept: all, or, for a vocabulary, only those before its padding
/// rows. For a vocabulary also sets the number of rows in `cut.whole` to `rule.original_rows`.
core::result<uint64_t> keep_rows(std::string_view name, const cut_rule& rule, tensor_cut& cut) {
  if (rule.original_rows == 0) return core::numel_of(cut.whole);
  if (cut.whole.empty() || rule.original_rows < 0 || rule.original_rows > cut.whole[0])
    return bad(name, fmt::format("wanted a vocabulary of {} rows, but its slices together have the shape ({})",
                                 rule.original_rows, fmt::join(cut.whole, ", ")));
  cut.whole[0] = rule.original_rows;
  return core::numel_of(cut.whole);
}

}  // namespace

core::result<std::vector<int64_t>> split_widths(int64_t size, uint32_t ranks, uneven_split how) {
  const auto n = static_cast<int64_t>(ranks);
  std::vector<int64_t> out(ranks, size / n);
  if (size % n == 0) return out;
  if (how == uneven_split::refused)
    return fail(error_kind::bad_input, fmt::format("{} cannot be divided by {} ranks", size, ranks));
  for (int64_t r = 0; r < size % n; ++r) ++out[static_cast<size_t>(r)];
  return out;
}

namespace {

/// Returns the cut for a tensor of which each rank has an equal copy.
core::result<tensor_cut> merge_copies(std::string_view name, const cut_rule& rule, std::span<const shape_type> slices) {
  for (const auto& s : slices)
    if (s != slices[0])
      return bad(name, fmt::format("every rank has a whole copy, but the shapes are ({}) and ({})",
                                   fmt::join(slices[0], ", "), fmt::join(s, ", ")));
  auto out = copies(rule.kind, slices[0], slices.size());
  TROUPE_ASSIGN(const auto keep, keep_rows(name, rule, out));
  for (auto& r : out.runs) r.count = std::min(r.count, keep);
  return out;
}

/// Returns the width of each part on each rank: from the rule, or equal for all parts of a slice. `elements` are the
/// slices' numbers of elements.
core::result<width_table> widths_to_merge(std::string_view name, const cut_rule& rule,
                                          std::span<const shape_type> slices, std::span<const uint64_t> elements) {
  width_table widths = rule.widths;
  if (!widths.empty()) return widths;
  for (const int64_t size : rule.part_sizes) {
    auto part = split_widths(size, static_cast<uint32_t>(slices.size()), rule.uneven);
    if (!part) return bad(name, part.error().text);
    widths.push_back(std::move(*part));
  }
  if (!widths.empty()) return widths;
  const auto parts = static_cast<int64_t>(rule.sub_parameters);
  widths.resize(rule.sub_parameters);
  for (size_t r = 0; r < slices.size(); ++r) {
    int64_t size = 0;
    if (rule.view.empty()) {
      if (slices[r].size() != slices[0].size()) return bad(name, "the ranks' shapes have different dimensions");
      size = slices[r][rule.dimension];
    } else {
      TROUPE_ASSIGN(const auto as, viewed_size(name, rule, elements[r]));
      size = as;
    }
    if (size % parts != 0)
      return bad(name, fmt::format("rank {} has size {} along dimension {}, which is not divisible by {} parts", r,
                                   size, rule.dimension, parts));
    for (auto& part : widths) part.push_back(size / parts);
  }
  return widths;
}

/// Returns the shape of the tensor that the joined slices form, padding included.
core::result<shape_type> whole_of(std::string_view name, const cut_rule& rule, std::span<const shape_type> slices,
                                  std::span<const uint64_t> elements, const width_table& widths) {
  const size_t d = rule.dimension;
  shape_type whole;
  for (size_t r = 0; r < slices.size(); ++r) {
    const int64_t size = width_of(widths, r);
    shape_type shape = slices[r];
    if (!rule.view.empty()) {
      // A slice without elements does not determine the size of the dimension that is -1 in `rule.view`.
      if (elements[r] == 0 && size == 0) continue;
      TROUPE_ASSIGN(auto as, viewed(name, rule, size, elements[r]));
      shape = std::move(as);
    } else if (d >= shape.size() || shape[d] != size) {
      return bad(name,
                 fmt::format("wanted {} along dimension {} of rank {}, got ({})", size, d, r, fmt::join(shape, ", ")));
    }
    shape[d] = width_of(widths);
    if (whole.empty()) whole = shape;
    if (whole != shape)
      return bad(name, fmt::format("the slices of ranks 0 and {} differ beyond dimension {}: ({}) and ({})", r, d,
                                   fmt::join(slices[0], ", "), fmt::join(slices[r], ", ")));
  }
  if (whole.empty()) whole = slices[0];
  TROUPE_TRY(elements_of(name, whole));
  return whole;
}

}  // namespace

core::result<tensor_cut> cut_to_merge(std::string_view name, const cut_rule& rule,
                                      std::span<const std::vector<int64_t>> slices) {
  TROUPE_TRY(check_ranks(name, slices.size()));
  std::vector<uint64_t> elements;
  for (const auto& s : slices) {
    TROUPE_ASSIGN(const auto n, elements_of(name, s));
    elements.push_back(n);
  }
  if (rule.kind != cut_kind::along) return merge_copies(name, rule, slices);
  TROUPE_TRY(check_dimension(name, rule, slices[0]));
  TROUPE_ASSIGN(const auto widths, widths_to_merge(name, rule, slices, elements));
  TROUPE_TRY(check_widths(name, widths, slices.size()));
  TROUPE_ASSIGN(const auto full, whole_of(name, rule, slices, elements, widths));
  tensor_cut out{.kind = cut_kind::along, .whole = full, .slices = {slices.begin(), slices.end()}, .runs = {}};
  TROUPE_ASSIGN(const auto keep, keep_rows(name, rule, out));
  TROUPE_ASSIGN(auto runs, runs_of(name, full, rule.dimension, widths, keep));
  out.runs = std::move(runs);
  return out;
}

core::result<tensor_cut> cut_to_split(std::string_view name, const cut_rule& rule, const std::vector<int64_t>& whole,
                                      uint32_t ranks) {
  TROUPE_TRY(check_ranks(name, ranks));
  TROUPE_ASSIGN(const auto elements, elements_of(name, whole));
  if (rule.kind != cut_kind::along) return copies(rule.kind, whole, ranks);
  TROUPE_TRY(check_dimension(name, rule, whole));
  const size_t d = rule.dimension;
  tensor_cut out{.kind = cut_kind::along, .whole = whole, .slices = {}, .runs = {}};
  shape_type full = whole;
  width_table widths = rule.widths;
  auto sizes = rule.part_sizes;
  if (widths.empty() && sizes.empty()) {
    int64_t size = 0;
    if (rule.view.empty()) {
      size = whole[d];
      const auto n = static_cast<int64_t>(ranks);
      if (rule.original_rows > 0 && d == 0) size = (size + n - 1) / n * n;
    } else {
      TROUPE_ASSIGN(const auto as, viewed_size(name, rule, elements));
      size = as;
    }
    if (size % rule.sub_parameters != 0)
      return bad(name,
                 fmt::format("{} along dimension {} cannot be divided into {} parts", size, d, rule.sub_parameters));
    sizes.assign(rule.sub_parameters, size / rule.sub_parameters);
  }
  for (const int64_t size : sizes) {
    auto part = split_widths(size, ranks, rule.uneven);
    if (!part) return bad(name, fmt::format("along dimension {}, {}", d, part.error().text));
    widths.push_back(std::move(*part));
  }
  TROUPE_TRY(check_widths(name, widths, ranks));
  if (!rule.view.empty()) {
    TROUPE_ASSIGN(auto as, viewed(name, rule, width_of(widths), elements));
    full = std::move(as);
  } else if (rule.original_rows > 0 && d == 0) {
    full[0] = width_of(widths);
  }
  if (full[d] != width_of(widths) || full[d] < (rule.view.empty() ? whole[d] : 0))
    return bad(name,
               fmt::format("wanted {} along dimension {}, got ({})", width_of(widths), d, fmt::join(whole, ", ")));
  for (uint32_t r = 0; r < ranks; ++r) {
    out.slices.push_back(full);
    out.slices.back()[d] = width_of(widths, r);
  }
  TROUPE_ASSIGN(auto runs, runs_of(name, full, d, widths, elements));
  out.runs = std::move(runs);
  return out;
}

std::vector<uint32_t> qkv_rows(qkv_version from, qkv_version to, uint32_t heads, uint32_t head_size) {
  const auto row = [&](qkv_version v, uint32_t head, uint32_t which, uint32_t i) {
    switch (v) {
      case qkv_version::v0:
        return (which * heads + head) * head_size + i;
      case qkv_version::v1:
        return (head * head_size + i) * 3 + which;
      case qkv_version::v2:
        break;
    }
    return (head * 3 + which) * head_size + i;
  };
  std::vector<uint32_t> out(size_t{3} * heads * head_size);
  for (uint32_t head = 0; head < heads; ++head)
    for (uint32_t which = 0; which < 3; ++which)
      for (uint32_t i = 0; i < head_size; ++i) out[row(to, head, which, i)] = row(from, head, which, i);
  return out;
}

}  // namespace troupe::formats
