#include "checkpoint/convert/compress.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "checkpoint/convert/weights_export.hpp"
#include "core/math.hpp"
#include "core/number.hpp"
#include "core/tensor_view.hpp"
#include "families/all_families.hpp"
#include "formats/compressed/stored_weight.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/source_reader.hpp"

namespace troupe::checkpoint {
namespace {

using kernels::group_scale;

constexpr std::string_view weight_suffix = ".weight", layer_prefix = "model.layers.";
constexpr std::string_view unlisted_family = "gemma";  ///< a family with such blocks that is not in families/

/// Layers that runtimes join into one: ending of the layer's name, and name of the joined layer.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> joined{{{"q_proj", "qkv_proj"},
                                                                               {"k_proj", "qkv_proj"},
                                                                               {"v_proj", "qkv_proj"},
                                                                               {"gate_proj", "gate_up_proj"},
                                                                               {"up_proj", "gate_up_proj"}}};

struct weight_job {  ///< one weight to compress
  exported_weight weight;
  std::string module;
  formats::compressed_matrix matrix;
  rounding_error error{};
};

/// True if the weights of the blocks of a family are those of linear layers, under the names of `layer_prefix`.
bool has_linear_blocks(const families::family& f) {
  return std::string(f.names.prefix).append(f.names.blocks) == layer_prefix && f.layout == core::weight_layout::out_in;
}

/// Returns the block number of a module: 12 for "model.layers.12.mlp.up_proj".
uint64_t layer_of(std::string_view module) {
  module.remove_prefix(std::min(module.size(), layer_prefix.size()));
  return core::take_number<uint64_t>(module).value_or(0);
}

/// Returns the name of the joined layer of a module that runtimes join with others; else the module's own name.
std::string joined_name(std::string_view module) {
  for (const auto& [part, whole] : joined)
    if (module.ends_with(part)) return std::string(module.substr(0, module.size() - part.size())) + std::string(whole);
  return std::string(module);
}

/// Calls f(first, count) for successive blocks of the matrix's rows.
template <class F>
core::result<void> in_blocks(const formats::compressed_matrix& m, uint64_t first, uint64_t rows, F&& f) {
  const uint64_t at_once = std::max<uint64_t>(1, compress_block_elements / m.columns);
  for (uint64_t row = first; row < first + rows; row += at_once)
    TROUPE_TRY(f(row, std::min(at_once, first + rows - row)));
  return {};
}

/// Copies the bytes of `part`, which begins at byte `begin`, that are in [offset, offset + out.size()).
void copy_common(std::span<const std::byte> part, uint64_t begin, uint64_t offset, std::span<std::byte> out) {
  const uint64_t from = std::max(begin, offset), to = std::min(begin + part.size(), offset + out.size());
  if (from < to) std::memcpy(out.data() + (from - offset), part.data() + (from - begin), to - from);
}

/// Makes the bytes of all tensors on request; scales are computed each time they are needed, so that none are stored.
class compressor {
 public:
  compressor(const formats::tensor_source& from, const compress_options& options)
      : from_(from), options_(options), reader_(from) {}

  core::result<void> plan() {
    TROUPE_ASSIGN(auto all, weights_of(from_, {.out = {}, .type = options_.type, .rename = options_.rename}));
    for (auto& w : all) {
      weights_ += core::numel_of(w.from->shape);
      source_bytes_ += core::numel_of(w.from->shape) * core::size_of(w.from->type);
      if (!is_linear_weight(w.name, w.from->shape) || !formats::is_floating(w.from->type)) {
        plain_.push_back(std::move(w));
        continue;
      }
      weight_job job;
      job.weight = w;
      job.module = w.name.substr(0, w.name.size() - weight_suffix.size());
      job.matrix = {static_cast<uint64_t>(w.from->shape[0]), static_cast<uint64_t>(w.from->shape[1]), options_.scheme};
      if (auto ok = formats::check(job.matrix); !ok)
        return fail(ok.error().in(fmt::format("layer '{}'", formats::shown(job.module))));
      jobs_.push_back(std::move(job));
    }
    if (jobs_.empty())
      return fail(error_kind::bad_input,
                  fmt::format("'{}' has no linear layer to compress", formats::shown_place(from_)));
    for (auto& job : jobs_)
      for (const auto& part : formats::parts_of(job.matrix)) add(job, part);
    for (const auto& w : plain_) add(w);
    return {};
  }

  [[nodiscard]] std::span<const formats::tensor_to_write> tensors() const { return tensors_; }
  [[nodiscard]] uint64_t tensor_bytes() const { return tensor_bytes_; }

  [[nodiscard]] std::map<std::string, std::shared_ptr<const stored_form>, std::less<>> forms() const {
    std::map<std::string, std::shared_ptr<const stored_form>, std::less<>> out;
    for (const auto& job : jobs_) out.emplace(job.weight.from->name, form_of(job.matrix));
    return out;
  }

  [[nodiscard]] compression_report report() const {
    compression_report out;
    out.weights = weights_;
    out.source_bytes = source_bytes_;
    out.tensor_bytes = tensor_bytes_;
    for (const auto& job : jobs_) {
      uint64_t stored = 0;
      for (const auto& part : formats::parts_of(job.matrix))
        stored += formats::bytes_of(part.type, part.shape).value_or(0);
      const auto elements = static_cast<double>(job.matrix.rows * job.matrix.columns);
      out.layers.push_back({job.module, job.matrix.rows, job.matrix.columns, 8 * static_cast<double>(stored) / elements,
                            job.error.relative(), job.error.largest});
    }
    std::ranges::stable_sort(out.layers, {}, [](const compressed_layer& l) { return layer_of(l.name); });
    return out;
  }

 private:
  using bytes = std::span<std::byte>;

  void add(weight_job& job, const formats::part_tensor& part) {
    auto source = [this, &job, kind = part.part](uint64_t offset, bytes out) -> core::result<void> {
      TROUPE_TRY(fill(job, kind, offset, out));
      return told(out.size());
    };
    tensors_.push_back(
        {job.module + "." + std::string(part.suffix), part.type, part.shape, {}, std::move(source), part.is_e4m3});
    tensor_bytes_ += formats::bytes_of(part.type, part.shape).value_or(0);
  }

  void add(const exported_weight& w) {
    auto source = [this, &w](uint64_t offset, bytes out) -> core::result<void> {
      const uint64_t width = core::size_of(w.type);
      TROUPE_TRY(reader_.read_as(w.type, *w.from, offset / width, out.size() / width, out));
      return told(out.size());
    };
    tensors_.push_back({w.name, w.type, w.from->shape, {}, std::move(source)});
    tensor_bytes_ += core::numel_of(w.from->shape) * core::size_of(w.type);
  }

  core::result<void> told(uint64_t count) {
    done_ += count;
    if (options_.progress && !options_.progress(done_, tensor_bytes_))
      return fail(error_kind::stopped, "compressing was stopped");
    return {};
  }

  core::result<void> fill(weight_job& job, formats::weight_part part, uint64_t offset, bytes out) {
    const auto* made = options_.prepared != nullptr ? options_.prepared->find(job.weight.from->name) : nullptr;
    if (made != nullptr && part != formats::weight_part::shape) {
      job.error = made->lost;
      return options_.prepared->read(*made, part, offset, out);
    }
    switch (part) {
      case formats::weight_part::codes:
        return fill_codes(job, offset, out);
      case formats::weight_part::scales:
        return fill_scales(job, offset, out);
      case formats::weight_part::zeros:
        return fill_zeros(job, offset, out);
      case formats::weight_part::shape: {
        const std::array<int64_t, 2> shape{job.weight.from->shape[0], job.weight.from->shape[1]};
        copy_common(std::as_bytes(std::span(shape)), 0, offset, out);
        return {};
      }
      case formats::weight_part::global_scale: {
        TROUPE_ASSIGN(const auto scale, global_of(job));
        copy_common(std::as_bytes(std::span(&scale, 1)), 0, offset, out);
        return {};
      }
    }
    return fail(error_kind::bug, "no writer for this part");
  }

  /// The values of some rows of a matrix, and the scales of the rows' groups.
  struct scaled_rows {
    std::vector<float> values;
    std::vector<group_scale> scales;
    std::vector<uint64_t> clamped;  ///< number of clamped values of each row; empty: none
  };

  /// Clamps values that are too large for every scale of the matrix's scale type, if the source allows clamping.
  /// Returns the number of clamped values of each row.
  std::vector<uint64_t> clamp_rows(const formats::compressed_matrix& m, std::span<float> values) const {
    const auto format = m.scheme.codes();
    if (from_.clamped == nullptr || m.scale_type() != core::dtype::f16) return {};
    constexpr double e4m3_largest = 448, rounding = 0.999;
    const double steps = format.kind == kernels::code_kind::integer ? std::exp2(format.bits - 1) - 0.5 : e4m3_largest;
    const auto limit = static_cast<float>(formats::largest_of(core::dtype::f16) * steps * rounding);
    std::vector<uint64_t> out(values.size() / m.columns);
    for (size_t i = 0; i < values.size(); ++i) {
      if (!(std::abs(values[i]) > limit) || std::isinf(values[i])) continue;
      values[i] = std::copysign(limit, values[i]);
      ++out[i / m.columns];
    }
    return out;
  }

  core::result<std::vector<float>> read_rows(const weight_job& job, uint64_t first, uint64_t rows) {
    std::vector<float> out(rows * job.matrix.columns);
    TROUPE_TRY(reader_.read_as(core::dtype::f32, *job.weight.from, first * job.matrix.columns, out.size(),
                               std::as_writable_bytes(std::span(out))));
    return out;
  }

  core::result<scaled_rows> read_scaled(const weight_job& job, uint64_t first, uint64_t rows) {
    TROUPE_ASSIGN(const auto global, global_of(job));
    TROUPE_ASSIGN(auto values, read_rows(job, first, rows));
    auto clamped = clamp_rows(job.matrix, values);
    auto scales = formats::scales_of(job.matrix, values, first, global);
    if (!scales && job.matrix.scale_type() == core::dtype::f16 && from_.clamped == nullptr)
      return fail(scales.error().kind, scales.error().text + "; --allow-overflow clamps what is too large");
    if (!scales) return fail(scales.error());
    return scaled_rows{std::move(values), std::move(*scales), std::move(clamped)};
  }

  core::result<void> fill_codes(weight_job& job, uint64_t offset, bytes out) {
    const auto& m = job.matrix;
    const uint64_t row_bytes = m.code_row_bytes(), first = offset / row_bytes;
    const float global = global_of(job).value_or(1);
    return in_blocks(m, first, core::div_up(offset + out.size(), row_bytes) - first,
                     [&](uint64_t row, uint64_t rows) -> core::result<void> {
                       TROUPE_ASSIGN(const auto in, read_scaled(job, row, rows));
                       std::vector<std::byte> stored(rows * row_bytes);
                       formats::encode_rows(m, in.values, in.scales, global, stored);
                       copy_common(stored, row * row_bytes, offset, out);
                       std::vector<float> back(in.values.size());
                       formats::decode_rows(m, stored, in.scales, global, back);
                       // A row whose bytes are split over two requests is counted in the request with its first byte.
                       for (uint64_t r = 0; r < rows; ++r) {
                         if ((row + r) * row_bytes < offset) continue;
                         if (!in.clamped.empty()) from_.clamped->count += in.clamped[r];
                         job.error.add(std::span(in.values).subspan(r * m.columns, m.columns),
                                       std::span(back).subspan(r * m.columns, m.columns));
                       }
                       return {};
                     });
  }

  core::result<void> fill_scales(const weight_job& job, uint64_t offset, bytes out) {
    const auto& m = job.matrix;
    const uint64_t row_bytes = m.groups_of_row() * core::size_of(m.scale_type()), first = offset / row_bytes;
    return in_blocks(m, first, core::div_up(offset + out.size(), row_bytes) - first,
                     [&](uint64_t row, uint64_t rows) -> core::result<void> {
                       TROUPE_ASSIGN(const auto in, read_scaled(job, row, rows));
                       std::vector<std::byte> stored(rows * row_bytes);
                       formats::encode_scales(m, in.scales, stored);
                       copy_common(stored, row * row_bytes, offset, out);
                       return {};
                     });
  }

  core::result<void> fill_zeros(const weight_job& job, uint64_t offset, bytes out) {
    const auto& m = job.matrix;
    const uint64_t row_bytes = m.groups_of_row() * sizeof(uint32_t), first = offset / row_bytes;
    const auto which = formats::rows_of_words(m, first, core::div_up(offset + out.size(), row_bytes) - first);
    std::vector<group_scale> scales;
    auto ok = in_blocks(m, which.first_row, which.rows, [&](uint64_t row, uint64_t rows) -> core::result<void> {
      TROUPE_ASSIGN(const auto in, read_scaled(job, row, rows));
      scales.insert(scales.end(), in.scales.begin(), in.scales.end());
      return {};
    });
    if (!ok) return ok;
    std::vector<std::byte> stored(which.words * row_bytes);
    formats::encode_zeros(m, which, scales, stored);
    copy_common(stored, first * row_bytes, offset, out);
    return {};
  }

  /// Returns NVFP4's global scale, which a weight shares with all weights that programs join to one matrix with it
  /// (joined_name(), such as queries, keys and values); 1 for other formats.
  core::result<float> global_of(const weight_job& job) {
    if (job.matrix.scheme.layout != formats::compressed_layout::nvfp4) return 1.0F;
    const auto name = joined_name(job.module);
    if (const auto known = globals_.find(name); known != globals_.end()) return known->second;
    float largest = 0;
    for (const auto& other : jobs_) {
      if (joined_name(other.module) != name) continue;
      TROUPE_TRY(in_blocks(other.matrix, 0, other.matrix.rows, [&](uint64_t row, uint64_t rows) -> core::result<void> {
        TROUPE_ASSIGN(const auto values, read_rows(other, row, rows));
        for (const float x : values) largest = std::max(largest, std::fabs(x));
        return {};
      }));
    }
    return globals_[name] = kernels::global_scale_of(largest);
  }

  const formats::tensor_source& from_;
  const compress_options& options_;
  formats::source_reader reader_;
  std::vector<weight_job> jobs_;
  std::vector<exported_weight> plain_;
  std::vector<formats::tensor_to_write> tensors_;  ///< tensors to write; their functions refer to jobs_ and plain_
  std::map<std::string, float> globals_;  ///< [name of a joined layer]: NVFP4's global scale of the layer's weights
  uint64_t weights_ = 0, source_bytes_ = 0, tensor_bytes_ = 0, done_ = 0;
};

}  // namespace

bool has_linear_layers(std::string_view model_type) {
  const auto* f = families::find(model_type);
  return f != nullptr ? has_linear_blocks(*f) : model_type == unlisted_family;
}

std::string families_with_linear_layers() {
  std::vector<std::string_view> out{unlisted_family};
  for (const auto* f : families::all)
    if (has_linear_blocks(*f)) out.push_back(f->model_type);
  std::ranges::sort(out);
  return fmt::format("{}", fmt::join(out, ", "));
}

bool is_linear_weight(std::string_view name, const std::vector<int64_t>& shape) {
  return shape.size() == 2 && name.starts_with(layer_prefix) && name.ends_with("_proj.weight");
}

core::result<std::map<std::string, std::shared_ptr<const stored_form>, std::less<>>> stored_forms(
    const formats::tensor_source& from, const compress_options& options) {
  compressor plan(from, options);
  TROUPE_TRY(plan.plan());
  return plan.forms();
}

core::result<uint64_t> compressed_bytes(const formats::tensor_source& from, const compress_options& options) {
  compressor plan(from, options);
  TROUPE_TRY(plan.plan());
  return plan.tensor_bytes();
}

core::result<compression_report> compress_weights(const formats::tensor_source& from, const compress_options& options) {
  compressor work(from, options);
  TROUPE_TRY(work.plan());
  TROUPE_TRY(formats::write_weights_folder(options.out, work.tensors(), options.max_shard_bytes));
  return work.report();
}

}  // namespace troupe::checkpoint
