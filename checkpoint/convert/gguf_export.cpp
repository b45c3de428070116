#include "checkpoint/convert/gguf_export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "checkpoint/convert/weights_export.hpp"
#include "core/tensor_view.hpp"
#include "core/text.hpp"
#include "families/all_families.hpp"
#include "formats/gguf/writer.hpp"
#include "formats/names/name_map.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/source_reader.hpp"

namespace troupe::checkpoint {
namespace {

/// A tensor to write to the GGUF file, and its source in the checkpoint.
struct planned_tensor {
  formats::gguf_tensor tensor;
  const formats::tensor_entry* from = nullptr;  ///< null: the tensor has the values `made`
  formats::gguf_order order = formats::gguf_order::same;
  uint64_t head_rows = 0;
  std::vector<float> made = {};
};

struct plan {
  std::vector<planned_tensor> tensors;  ///< tensors in the file's order
  std::map<std::string, uint64_t, std::less<>> other_types;
};

/// True if `a` precedes `b`: embedding, positions, the blocks by number, then the rest, the usual order of such files.
bool comes_before(const formats::gguf_place& a, const formats::gguf_place& b) {
  const auto rank = [](const formats::gguf_place& p) {
    return p.block ? 1 : p.name == formats::gguf_embedding_name || p.name == formats::gguf_positions_name ? 0 : 2;
  };
  return std::tuple(rank(a), a.block.value_or(0), std::string_view(a.name)) <
         std::tuple(rank(b), b.block.value_or(0), std::string_view(b.name));
}

/// Checks the shape of a parameter against the model's sizes.
core::result<void> check_shape(const formats::gguf_place& place, const std::vector<uint64_t>& extents,
                               const formats::gguf_model& m) {
  const uint64_t queries = uint64_t{m.heads} * m.head_width, keys = uint64_t{m.kv_heads} * m.head_width;
  std::vector<uint64_t> wanted;
  const auto name =
      place.block ? std::string_view(place.name).substr(place.name.find('.', 4) + 1) : std::string_view(place.name);
  const auto is = [&](std::string_view stem, uint64_t in, uint64_t out) {
    if (!name.starts_with(stem)) return;
    wanted = name.ends_with(".bias") ? std::vector{out} : std::vector{in, out};
  };
  if (name.find("norm.") != std::string_view::npos) wanted = {m.width};
  const auto* const f = families::find_gguf(m.architecture);
  const bool by_head = f == nullptr || f->query_norms == families::query_norm_span::head;
  if (name.starts_with("attn_q_norm.")) wanted = {by_head ? m.head_width : queries};
  if (name.starts_with("attn_k_norm.")) wanted = {by_head ? m.head_width : keys};
  if (name == formats::gguf_embedding_name || name == formats::gguf_head_name) wanted = {m.width, m.vocabulary};
  if (name == formats::gguf_positions_name) wanted = {m.width, m.positions};
  is("attn_qkv.", m.width, queries + 2 * keys);
  is("attn_q.", m.width, queries);
  is("attn_k.", m.width, keys);
  is("attn_v.", m.width, keys);
  is("attn_output.", queries, m.width);
  is("ffn_gate.", m.width, m.inner);
  is("ffn_up.", m.width, f != nullptr && f->has_packed_mlp() ? uint64_t{2} * m.inner : m.inner);
  is("ffn_down.", m.inner, m.width);
  if (wanted == extents) return {};
  return fail(error_kind::mismatch, fmt::format("{} elements, wanted {} for '{}'", fmt::join(extents, " x "),
                                                fmt::join(wanted, " x "), place.name));
}

/// Checks that every parameter of the model exists.
core::result<void> check_complete(const std::vector<planned_tensor>& all, const formats::gguf_model& m) {
  const auto* const f = families::find_gguf(m.architecture);
  if (f == nullptr)
    return fail(error_kind::bug, fmt::format("no family has the architecture '{}' in GGUF files", m.architecture));
  auto wanted = formats::certain_gguf_names(*f, m.blocks);
  if (m.tied) std::erase(wanted, formats::gguf_head_name);
  std::vector<std::string> names;
  for (const auto& t : all) names.push_back(t.tensor.name);
  std::ranges::sort(names);
  for (const auto& w : wanted)
    if (!std::ranges::binary_search(names, w))
      return fail(error_kind::mismatch, fmt::format("it has no parameter that becomes '{}' in GGUF files", w));
  return {};
}

core::result<plan> plan_of(const formats::tensor_source& from, const gguf_export_options& o) {
  const auto& m = o.model;
  TROUPE_ASSIGN(const auto weights, weights_of(from, {}));
  const auto refused = [&](const core::error& e) {
    return fail(e.in(fmt::format("'{}'", formats::shown_place(from))));
  };
  std::vector<std::pair<formats::gguf_place, planned_tensor>> found;
  for (const auto& w : weights) {
    const auto bare = formats::bare_name(w.name);
    if (w.from->kind == formats::tensor_kind::buffer || formats::is_derived_buffer(bare) ||
        (m.tied && bare == formats::head_name))
      continue;
    const auto in_tensor = [&](const core::error& e) {
      return refused(e.in(fmt::format("tensor '{}'", formats::shown(w.name))));
    };
    const auto place = formats::gguf_place_of(m.architecture, bare);
    if (!place || (place->block && *place->block >= m.blocks))
      return in_tensor({error_kind::mismatch,
                        fmt::format("it is not a parameter of a {} model with {} blocks", m.architecture, m.blocks)});
    planned_tensor t{{place->name, formats::gguf_type::f32, {w.from->shape.rbegin(), w.from->shape.rend()}, 0},
                     w.from,
                     place->order,
                     place->order == formats::gguf_order::query_rotary ||
                             place->order == formats::gguf_order::key_rotary ||
                             place->order == formats::gguf_order::by_head
                         ? m.head_width
                         : 0};
    if (place->order == formats::gguf_order::transposed) std::ranges::reverse(t.tensor.extents);
    if (auto ok = check_shape(*place, t.tensor.extents, m); !ok) return in_tensor(ok.error());
    t.tensor.type = formats::type_for(o.type, *place, t.tensor.extents[0], t.tensor.extents.size(), m.blocks, m.tied);
    if (place->order == formats::gguf_order::raised && t.tensor.type != formats::gguf_type::f32)
      return in_tensor({error_kind::bug, "a norm is written in another type than F32"});
    found.emplace_back(*place, std::move(t));
  }
  std::ranges::sort(found, [](const auto& a, const auto& b) { return comes_before(a.first, b.first); });
  plan out;
  for (auto& [place, t] : found) {
    // The type that the mixture of types assigns to a tensor whose rows divide into blocks of every size, of which 256
    // is the largest.
    const auto ideal = formats::type_for(o.type, place, 256, t.tensor.extents.size(), m.blocks, m.tied);
    if (t.tensor.type != ideal) ++out.other_types[std::string(formats::name_of(t.tensor.type))];
    if (!out.tensors.empty() && out.tensors.back().tensor.name == t.tensor.name)
      return refused({error_kind::mismatch, fmt::format("two tensors would be written as '{}'", t.tensor.name)});
    out.tensors.push_back(std::move(t));
  }
  if (auto ok = check_complete(out.tensors, m); !ok) return refused(ok.error());
  for (const auto& [name, divisors] : {std::pair{formats::gguf_rope_factors_name, &m.rope_divisors},
                                       {formats::gguf_long_factors_name, &m.rope_long_divisors},
                                       {formats::gguf_short_factors_name, &m.rope_short_divisors}}) {
    if (divisors->empty()) continue;
    const formats::gguf_tensor of_rope{std::string(name), formats::gguf_type::f32, {divisors->size()}, 0};
    out.tensors.push_back({.tensor = of_rope, .made = *divisors});
  }
  return out;
}

formats::gguf_metadata metadata_for(const gguf_export_options& o) {
  auto out = formats::metadata_of(o.model);
  out.set("general.file_type", formats::gguf_value::of(formats::file_type_of(o.type)));
  constexpr uint32_t quantisation_version = 2;  // version of ggml's current block formats
  if (formats::blocks_of(o.type.type))
    out.set("general.quantization_version", formats::gguf_value::of(quantisation_version));
  for (const auto& [key, value] : o.more.entries) out.set(key, value);
  return out;
}

/// Passes rows of a tensor to the caller in the file's order, as plain elements.
class row_reader {
 public:
  using take_rows = std::function<core::result<void>(std::span<const std::byte>)>;

  row_reader(const formats::tensor_source& from, const planned_tensor& t, core::dtype type)
      : reader_(from),
        t_(t),
        type_(type),
        element_bytes_(core::size_of(type)),
        row_bytes_(t.tensor.extents[0] * element_bytes_),
        rows_(t.tensor.elements() / t.tensor.extents[0]) {
    // a bias with permuted heads is handled as rows of one element
    if (t.head_rows != 0 && t.tensor.extents.size() == 1) {
      row_bytes_ = element_bytes_;
      rows_ = t.tensor.elements();
    }
  }

  core::result<void> each(const take_rows& take) {
    if (t_.order == formats::gguf_order::transposed) return transposed(take);
    if (t_.order == formats::gguf_order::by_head) return apart(take);
    uint64_t step = std::max<uint64_t>(gguf_chunk_bytes / row_bytes_, 1);
    if (t_.head_rows != 0) step = std::max<uint64_t>(step / t_.head_rows, 1) * t_.head_rows;
    for (uint64_t row = 0; row < rows_; row += step) {
      const uint64_t n = std::min(step, rows_ - row);
      TROUPE_TRY(read(row * row_bytes_, n * row_bytes_, rows_block_));
      if (t_.order == formats::gguf_order::raised) add_one();
      if (t_.head_rows != 0) put_pairs_side_by_side(n);
      TROUPE_TRY(take(t_.head_rows != 0 ? ordered_ : rows_block_));
    }
    return {};
  }

 private:
  core::result<void> read(uint64_t begin_bytes, uint64_t bytes, std::vector<std::byte>& out) {
    out.resize(static_cast<size_t>(bytes));
    return reader_.read_as(type_, *t_.from, begin_bytes / element_bytes_, bytes / element_bytes_, out);
  }

  /// Passes the rows of all heads' queries, then of all keys, then of all values; the source stores them head by head.
  core::result<void> apart(const take_rows& take) {
    const uint64_t heads = rows_ / (3 * t_.head_rows), bytes = t_.head_rows * row_bytes_;
    for (uint64_t part = 0; part < 3; ++part)
      for (uint64_t head = 0; head < heads; ++head) {
        TROUPE_TRY(read((head * 3 + part) * bytes, bytes, rows_block_));
        TROUPE_TRY(take(rows_block_));
      }
    return {};
  }

  /// Adds 1 to each of the fp32 elements that were read.
  void add_one() {
    for (size_t at = 0; at + sizeof(float) <= rows_block_.size(); at += sizeof(float)) {
      float x = 0;
      std::memcpy(&x, &rows_block_[at], sizeof(x));
      x += 1;
      std::memcpy(&rows_block_[at], &x, sizeof(x));
    }
  }

  void put_pairs_side_by_side(uint64_t rows) {
    ordered_.resize(rows_block_.size());
    for (uint64_t r = 0; r < rows; ++r) {
      const uint64_t in_head = r % t_.head_rows;
      std::memcpy(
          &ordered_[static_cast<size_t>(r * row_bytes_)],
          &rows_block_[static_cast<size_t>((r - in_head + formats::rotary_row(in_head, t_.head_rows)) * row_bytes_)],
          static_cast<size_t>(row_bytes_));
    }
  }

  /// Passes the rows of a transposed matrix to `take`; a row of the file is a column of the source's matrix. Reads the
  /// whole matrix once for every gguf_transposed_bytes of output.
  core::result<void> transposed(const take_rows& take) {
    const uint64_t inputs = t_.tensor.extents[0], most = std::max<uint64_t>(gguf_transposed_bytes / row_bytes_, 1);
    const uint64_t our_row_bytes = rows_ * element_bytes_;
    const uint64_t step = std::max<uint64_t>(gguf_chunk_bytes / our_row_bytes, 1);
    for (uint64_t first = 0; first < rows_; first += most) {
      const uint64_t columns = std::min(most, rows_ - first);
      ordered_.resize(static_cast<size_t>(columns * row_bytes_));
      for (uint64_t i = 0; i < inputs; i += step) {
        const uint64_t n = std::min(step, inputs - i);
        TROUPE_TRY(read(i * our_row_bytes, n * our_row_bytes, rows_block_));
        scatter(i, n, first, columns);
      }
      const uint64_t at_once = std::max<uint64_t>(gguf_chunk_bytes / row_bytes_, 1);
      for (uint64_t c = 0; c < columns; c += at_once) {
        const uint64_t n = std::min(at_once, columns - c);
        TROUPE_TRY(take(
            std::span(ordered_).subspan(static_cast<size_t>(c * row_bytes_), static_cast<size_t>(n * row_bytes_))));
      }
    }
    return {};
  }

  void scatter(uint64_t input, uint64_t inputs, uint64_t first, uint64_t columns) {
    const auto move = [&]<class T>(T) {
      const auto* from = reinterpret_cast<const T*>(rows_block_.data());
      auto* to = reinterpret_cast<T*>(ordered_.data());
      const uint64_t width = t_.tensor.extents[0];
      for (uint64_t c = 0; c < columns; ++c)
        for (uint64_t i = 0; i < inputs; ++i) to[c * width + input + i] = from[i * rows_ + first + c];
    };
    if (element_bytes_ == 4)
      move(uint32_t{});
    else
      move(uint16_t{});
  }

  formats::source_reader reader_;
  const planned_tensor& t_;
  core::dtype type_;
  uint64_t element_bytes_, row_bytes_, rows_;
  std::vector<std::byte> rows_block_, ordered_;
};

/// Returns the importance of each column of the tensor, by which quantisation weights the column's errors; empty if the
/// caller supplied none or another number of values than the file's rows have elements.
std::span<const float> importance_for(const gguf_export_options& o, const planned_tensor& t) {
  if (o.prepared == nullptr) return {};
  const auto out = o.prepared->importance_of(t.from->name);
  return out.size() == t.tensor.extents[0] ? out : std::span<const float>();
}

/// Clamps a block that the format cannot hold to bounds within which it can. Returns the number of changed values; 0 if
/// a value is not finite, or none is too large.
uint64_t clamp_block(kernels::block_format format, std::span<float> block) {
  if (!std::ranges::all_of(block, [](float x) { return std::isfinite(x); })) return 0;
  std::vector<std::byte> stored(kernels::bytes_of(format));
  std::vector<float> tried(block.begin(), block.end());
  constexpr float largest_scale = 65504, most_steps = 256;
  for (float limit = largest_scale * most_steps; limit >= 1; limit /= 2) {
    std::ranges::transform(block, tried.begin(), [&](float x) { return std::clamp(x, -limit, limit); });
    if (kernels::quantise_blocks(format, tried.data(), 1, stored.data()) != kernels::no_block) continue;
    const auto changed = std::ranges::count_if(block, [&](float x) { return std::abs(x) > limit; });
    std::ranges::copy(tried, block.begin());
    return static_cast<uint64_t>(changed);
  }
  return 0;
}

/// Writes one tensor; fp32 values are quantised block by block as they are read.
core::result<void> write_tensor(const formats::tensor_source& from, const planned_tensor& t, formats::gguf_writer& out,
                                std::span<const float> importance,
                                const std::function<core::result<void>(uint64_t)>& done, rounding_error* lost) {
  const auto format = formats::blocks_of(t.tensor.type);
  std::vector<std::byte> stored;
  std::vector<float> back, held;
  uint64_t elements_done = 0;
  return row_reader(from, t, formats::dtype_of(t.tensor.type))
      .each([&](std::span<const std::byte> rows) -> core::result<void> {
        if (!format) {
          TROUPE_TRY(out.write(rows));
          return done(rows.size());
        }
        const uint64_t per_block = kernels::elements_of(*format), blocks = rows.size() / sizeof(float) / per_block;
        stored.resize(static_cast<size_t>(blocks * kernels::bytes_of(*format)));
        const auto* values = reinterpret_cast<const float*>(rows.data());
        const auto quantised = [&] {
          return importance.empty()
                     ? kernels::quantise_blocks(*format, values, blocks, stored.data())
                     : kernels::quantise_blocks_weighted(*format, values, importance.data(),
                                                         t.tensor.extents[0] / per_block, blocks, stored.data());
        };
        uint64_t bad = quantised();
        while (bad != kernels::no_block && from.clamped != nullptr) {
          if (values != held.data()) {
            held.assign(values, values + blocks * per_block);
            values = held.data();
          }
          const uint64_t clamped = clamp_block(*format, std::span(held).subspan(bad * per_block, per_block));
          if (clamped == 0) break;
          from.clamped->count += clamped;
          bad = quantised();
        }
        if (bad != kernels::no_block)
          return fail(
              error_kind::numeric,
              fmt::format("'{}': tensor '{}': {} of its rows in the file cannot be stored as {}: "
                          "a value is NaN, infinite or too large; --allow-overflow clamps values that are too large",
                          formats::shown_place(from), formats::shown(t.from->name),
                          core::range_text("element", elements_done + bad * per_block, per_block),
                          formats::name_of(t.tensor.type)));
        elements_done += blocks * per_block;
        if (lost != nullptr) {
          back.resize(blocks * per_block);
          kernels::dequantise_blocks(*format, stored.data(), blocks, back.data());
          lost->add({reinterpret_cast<const float*>(rows.data()), back.size()}, back);
        }
        TROUPE_TRY(out.write(stored));
        return done(stored.size());
      });
}

/// Writes a tensor whose blocks an earlier pass has quantised. The prepared rows are in the source's order; rows of
/// rotary heads are reordered for the file.
core::result<void> copy_prepared(const prepared_weights& all, const prepared_weight& w, const planned_tensor& t,
                                 formats::gguf_writer& out, const std::function<core::result<void>(uint64_t)>& done) {
  const uint64_t rows = t.tensor.elements() / t.tensor.extents[0], row_bytes = t.tensor.bytes() / rows;
  const uint64_t step = t.head_rows != 0 ? t.head_rows : std::max<uint64_t>(gguf_chunk_bytes / row_bytes, 1);
  std::vector<std::byte> block, ordered;
  for (uint64_t first = 0; first < rows; first += step) {
    const uint64_t n = std::min(step, rows - first);
    block.resize(n * row_bytes);
    TROUPE_TRY(all.read(w, formats::weight_part::codes, first * row_bytes, block));
    if (t.head_rows != 0) {
      ordered.resize(block.size());
      for (uint64_t r = 0; r < n; ++r)
        std::memcpy(&ordered[r * row_bytes], &block[formats::rotary_row(r, t.head_rows) * row_bytes], row_bytes);
    }
    TROUPE_TRY(out.write(t.head_rows != 0 ? ordered : block));
    TROUPE_TRY(done(block.size()));
  }
  return {};
}

}  // namespace

core::result<std::map<std::string, std::shared_ptr<const stored_form>, std::less<>>> stored_forms(
    const formats::tensor_source& from, const gguf_export_options& options) {
  TROUPE_ASSIGN(const auto planned, plan_of(from, options));
  std::map<std::string, std::shared_ptr<const stored_form>, std::less<>> out;
  for (const auto& t : planned.tensors)
    if (auto form = form_of(t.tensor.type, t.tensor.elements() / t.tensor.extents[0], t.tensor.extents[0]))
      out.emplace(t.from->name, std::move(form));
  return out;
}

core::result<uint64_t> gguf_bytes(const formats::tensor_source& from, const gguf_export_options& options) {
  TROUPE_ASSIGN(const auto planned, plan_of(from, options));
  std::vector<formats::gguf_tensor> tensors;
  for (const auto& t : planned.tensors) tensors.push_back(t.tensor);
  TROUPE_ASSIGN(const auto header, formats::format_gguf_header(metadata_for(options), tensors));
  return header.size() + (tensors.empty() ? 0 : tensors.back().offset_bytes + tensors.back().bytes());
}

core::result<gguf_export_report> export_gguf(const formats::tensor_source& from, const gguf_export_options& options) {
  TROUPE_ASSIGN(const auto planned, plan_of(from, options));
  gguf_export_report report;
  report.other_types = planned.other_types;
  std::vector<formats::gguf_tensor> tensors;
  uint64_t total = 0;
  for (const auto& t : planned.tensors) {
    tensors.push_back(t.tensor);
    total += t.tensor.bytes();
    if (t.from == nullptr) continue;
    report.weights += t.tensor.elements();
    report.source_bytes += core::numel_of(t.from->shape) * core::size_of(t.from->type);
    if (!formats::blocks_of(t.tensor.type)) continue;
    report.quantised_elements += t.tensor.elements();
    report.quantised_bytes += t.tensor.bytes();
  }
  TROUPE_ASSIGN(auto out, formats::gguf_writer::create(options.out, metadata_for(options), std::move(tensors)));
  uint64_t written = 0;
  const auto done = [&](uint64_t bytes) -> core::result<void> {
    written += bytes;
    if (options.progress && !options.progress(written, total))
      return fail(error_kind::stopped, "the export was stopped");
    return {};
  };
  for (const auto& t : planned.tensors) {
    if (t.from == nullptr) {
      const auto values = std::as_bytes(std::span(t.made));
      TROUPE_TRY(out.write(values));
      TROUPE_TRY(done(values.size()));
      continue;
    }
    rounding_error lost;
    const auto* made = options.prepared != nullptr ? options.prepared->find(t.from->name) : nullptr;
    if (made != nullptr) lost = made->lost;
    TROUPE_TRY(made != nullptr ? copy_prepared(*options.prepared, *made, t, out, done)
                               : write_tensor(from, t, out, importance_for(options, t), done,
                                              options.measures_error ? &lost : nullptr));
    if (formats::blocks_of(t.tensor.type))
      report.layers.push_back({t.tensor.name, t.tensor.elements() / t.tensor.extents[0], t.tensor.extents[0],
                               8 * static_cast<double>(t.tensor.bytes()) / static_cast<double>(t.tensor.elements()),
                               lost.relative(), lost.largest});
  }
  report.tensor_bytes = total;
  TROUPE_TRY(out.commit());
  report.bytes = out.bytes();
  report.tensors = planned.tensors.size();
  return report;
}

}  // namespace troupe::checkpoint
