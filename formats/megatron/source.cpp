#include "formats/megatron/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/tensor_view.hpp"
#include "formats/tensors/tensor_shares.hpp"

namespace troupe::formats {
namespace {

using tensor_key = std::tuple<std::string, tensor_kind, std::string>;
tensor_key key_of(const tensor_entry& t) { return {t.name, t.kind, t.moment}; }

/// Appends a piece of zeros to `to`, for its elements [at, at + count). `zeros` is the number of a file of zero bytes.
core::result<void> append_zeros(tensor_entry& to, std::optional<uint32_t> zeros, uint64_t count, uint64_t at) {
  if (!zeros)
    return fail(error_kind::bad_input,
                fmt::format("tensor {} is a vocabulary that must be padded with {} zeros to be cut", shown(to), count));
  to.pieces.push_back({.file = *zeros, .first = at, .count = count, .offset_bytes = 0, .digest = {}});
  return {};
}

core::result<void> check_piece_count(const tensor_entry& t) {
  if (t.pieces.size() > max_pieces)
    return fail(error_kind::limit, fmt::format("tensor {}: more than {} pieces", shown(t), max_pieces));
  return {};
}

tensor_entry like(const tensor_entry& t, std::vector<int64_t> shape) {
  return {t.name, t.kind, t.moment, t.type, std::move(shape), {}};
}

/// Joins the files of all sources in one list: file f of source s becomes result[s][f]. Files with equal paths become
/// one.
std::vector<std::vector<uint32_t>> join_files(std::span<const tensor_source> from, std::vector<source_file>& into) {
  std::vector<std::vector<uint32_t>> out;
  std::map<std::filesystem::path, uint32_t> known;
  for (const auto& s : from) {
    out.emplace_back();
    for (const auto& f : s.files) {
      const auto [at, is_new] = known.emplace(f.path, static_cast<uint32_t>(into.size()));
      if (is_new) into.push_back(f);
      out.back().push_back(at->second);
    }
  }
  return out;
}

void drop_digests(tensor_source& s) {
  s.has_digests = false;
  for (auto& t : s.tensors)
    for (auto& p : t.pieces) p.digest = {};
}

}  // namespace

rule_chooser megatron_rules_of(qkv_version version) {
  return [version](std::string_view name) -> core::result<cut_rule> { return megatron_rule(name, version); };
}

void append_elements(std::vector<piece>& to, const tensor_entry& from, uint64_t first, uint64_t count, uint64_t at) {
  const uint64_t element_bytes = core::size_of(from.type);
  auto p = std::upper_bound(from.pieces.begin(), from.pieces.end(), first,
                            [](uint64_t element, const piece& q) { return element < q.first; });
  if (p != from.pieces.begin()) --p;
  for (; p != from.pieces.end() && count > 0; ++p) {
    const uint64_t skip = first - p->first, n = std::min(count, p->count - skip);
    const uint64_t offset = p->offset_bytes + skip * element_bytes;
    auto* last = to.empty() ? nullptr : &to.back();
    if (last != nullptr && last->file == p->file && last->first + last->count == at &&
        last->offset_bytes + last->count * element_bytes == offset) {
      last->count += n;
      last->digest = {};
    } else {
      to.push_back({p->file, at, n, offset, n == p->count ? p->digest : storage::digest128{}});
    }
    first += n;
    at += n;
    count -= n;
  }
}

core::result<tensor_entry> merged_entry(const cut_rule& rule, std::span<const tensor_entry* const> ranks) {
  if (ranks.empty()) return fail(error_kind::bad_input, "no ranks to join");
  std::vector<std::vector<int64_t>> shapes;
  for (const auto* t : ranks) {
    if (t->type != ranks[0]->type || t->kind != ranks[0]->kind || t->moment != ranks[0]->moment)
      return fail(error_kind::mismatch,
                  fmt::format("tensor {} is {} on one rank and {} as {} on another", shown(*ranks[0]),
                              name_of(ranks[0]->type), shown(*t), name_of(t->type)));
    shapes.push_back(t->shape);
  }
  TROUPE_ASSIGN(auto cut, cut_to_merge(ranks[0]->name, rule, shapes));
  if (rule.kind == cut_kind::averaged && ranks.size() > 1)
    return fail(
        error_kind::bad_input,
        fmt::format("tensor {} is the mean of its ranks' values, which the files do not store", shown(*ranks[0])));
  auto out = like(*ranks[0], cut.whole);
  for (const auto& r : cut.runs) {
    if (cut.kind != cut_kind::along && r.rank > 0) break;
    append_elements(out.pieces, *ranks[r.rank], r.slice_first, r.count, r.whole_first);
  }
  TROUPE_TRY(check_piece_count(out));
  return out;
}

core::result<tensor_entry> slice_entry(const tensor_cut& cut, const tensor_entry& whole, uint32_t rank,
                                       std::optional<uint32_t> zeros) {
  if (whole.cut.cuts()) {
    const bool all = cut.kind != cut_kind::along || cut.slices.size() == 1;
    if (all && cut.slices[rank] == whole.shape) return whole;
    return slice_entry(cut, without_shares(whole), rank, zeros);
  }
  auto out = like(whole, cut.slices[rank]);
  uint64_t reached = 0;
  const auto pad = [&](uint64_t to) -> core::result<void> {
    if (to == reached) return {};
    return append_zeros(out, zeros, to - reached, reached);
  };
  for (const auto& r : cut.runs) {
    if (r.rank != rank) continue;
    TROUPE_TRY(pad(r.slice_first));
    append_elements(out.pieces, whole, r.whole_first, r.count, r.slice_first);
    reached = r.slice_first + r.count;
  }
  TROUPE_TRY(pad(core::numel_of(out.shape)));
  TROUPE_TRY(check_piece_count(out));
  return out;
}

core::result<std::vector<tensor_entry>> split_entry(const cut_rule& rule, const tensor_entry& whole, uint32_t ranks,
                                                    std::optional<uint32_t> zeros) {
  TROUPE_ASSIGN(const auto cut, cut_to_split(whole.name, rule, whole.shape, ranks));
  std::vector<tensor_entry> out;
  for (uint32_t r = 0; r < ranks; ++r) {
    TROUPE_ASSIGN(auto slice, slice_entry(cut, whole, r, zeros));
    out.push_back(std::move(slice));
  }
  return out;
}

core::result<merged_source> merge_ranks(std::vector<tensor_source> ranks, const rule_chooser& rules) {
  if (ranks.empty()) return fail(error_kind::bad_input, "no ranks to join");
  std::vector<source_file> files;
  const auto numbers = join_files(ranks, files);
  std::map<tensor_key, std::vector<tensor_entry*>> by_key;
  for (size_t r = 0; r < ranks.size(); ++r) {
    drop_digests(ranks[r]);
    for (auto& t : ranks[r].tensors) {
      for (auto& p : t.pieces) p.file = numbers[r][p.file];
      auto& held = by_key[key_of(t)];
      if (held.size() != r)
        return fail(error_kind::mismatch, fmt::format("'{}': tensor {} is on rank {} but not on rank {}",
                                                      shown_place(ranks[0]), shown(t), r, held.size()));
      held.push_back(&t);
    }
  }
  merged_source out;
  out.whole.format = ranks[0].format;
  for (const auto& [key, held] : by_key) {
    if (held.size() != ranks.size())
      return fail(error_kind::mismatch, fmt::format("'{}': tensor {} is not on rank {} of {}", shown_place(ranks[0]),
                                                    shown(*held[0]), held.size(), ranks.size()));
    TROUPE_ASSIGN(auto rule, rules(held[0]->name));
    if (rule.kind == cut_kind::averaged && ranks.size() > 1) {
      averaged_tensor mean{out.whole.tensors.size(), {}};
      for (const auto* t : held) mean.values.push_back(*t);
      out.averaged.push_back(std::move(mean));
      rule.kind = cut_kind::replicated;
    }
    auto whole = merged_entry(rule, {held.data(), held.size()});
    if (!whole) return fail(whole.error().in(fmt::format("'{}'", shown_place(ranks[0]))));
    out.whole.tensors.push_back(std::move(*whole));
  }
  auto& first = ranks[0];
  out.whole.tied = std::move(first.tied);
  out.whole.folder = std::move(first.folder);
  out.whole.files = std::move(files);
  out.whole.run = std::move(first.run);
  out.whole.parameter_order = std::move(first.parameter_order);
  TROUPE_TRY(complete(out.whole));
  return out;
}

core::result<split_sources> split_ranks(const tensor_source& whole, uint32_t ranks, const rule_chooser& rules,
                                        std::optional<uint32_t> zeros) {
  split_sources out;
  tensor_source empty = whole;
  empty.tensors.clear();
  empty.has_digests = false;
  empty.save_id.reset();
  if (ranks == 0 || ranks > max_tensor_ranks)
    return fail(error_kind::limit,
                fmt::format("wanted 1 to {} tensor-parallel ranks, got {}", max_tensor_ranks, ranks));
  out.ranks.assign(ranks, empty);
  for (const auto& t : whole.tensors) {
    TROUPE_ASSIGN(auto rule, rules(t.name));
    if (rule.kind == cut_kind::along) ++out.cut;
    auto slices = split_entry(rule, t, ranks, zeros);
    if (!slices) return fail(slices.error().in(fmt::format("'{}'", shown_place(whole))));
    for (uint32_t r = 0; r < ranks; ++r) out.ranks[r].tensors.push_back(std::move((*slices)[r]));
  }
  for (auto& s : out.ranks) {
    drop_digests(s);
    TROUPE_TRY(complete(s));
  }
  return out;
}

core::result<tensor_entry> reordered_qkv(const tensor_entry& whole, qkv_version from, qkv_version to, uint32_t heads) {
  if (from == to) return whole;
  if (whole.cut.cuts()) return reordered_qkv(without_shares(whole), from, to, heads);
  const int64_t rows = whole.shape.empty() ? 0 : whole.shape[0];
  if (heads == 0 || rows <= 0 || rows > UINT32_MAX || rows % (int64_t{3} * heads) != 0)
    return fail(error_kind::bad_input, fmt::format("tensor {}: {} rows are not queries, keys and values of {} heads",
                                                   shown(whole), rows, heads));
  auto out = like(whole, whole.shape);
  const uint64_t row_elements = core::numel_of(whole.shape) / static_cast<uint64_t>(rows);
  uint64_t at = 0;
  for (const uint32_t row : qkv_rows(from, to, heads, static_cast<uint32_t>(rows / 3 / heads))) {
    append_elements(out.pieces, whole, row * row_elements, row_elements, at);
    at += row_elements;
  }
  return out;
}

}  // namespace troupe::formats
