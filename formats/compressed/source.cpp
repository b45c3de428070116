#include "formats/compressed/source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "core/math.hpp"
#include "core/tensor_view.hpp"
#include "core/text.hpp"
#include "formats/compressed/decompressed.hpp"
#include "formats/compressed/foreign.hpp"
#include "formats/compressed/stored_weight.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/source/tensor_source.hpp"
#include "formats/trainer/trainer.hpp"
#include "formats/weights/hugging_face.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

/// Endings of tensor names, after the module's name, that belong to its compressed weight or to activations.
constexpr std::array<std::string_view, 12> own_suffixes{"weight_packed", "weight_scale",        "weight_zero_point",
                                                        "weight_shape",  "weight_global_scale", "weight_g_idx",
                                                        "input_scale",   "input_zero_point",    "input_global_scale",
                                                        "output_scale",  "output_zero_point",   "output_global_scale"};

/// Endings of the names of attention's own tensors: ranges of queries, keys and values.
constexpr std::array<std::string_view, 6> attention_suffixes{"q_scale",      "k_scale",      "v_scale",
                                                             "q_zero_point", "k_zero_point", "v_zero_point"};

bool is_one_of(std::string_view suffix, std::span<const std::string_view> known) {
  return std::ranges::find(known, suffix) != known.end();
}

using core::refused;

fs::path folder_of(const fs::path& path) {
  std::error_code ec;
  return fs::is_directory(path, ec) ? path : path.parent_path();
}

/// Splits a name at its last dot: "M.weight_scale" into "M" and "weight_scale".
std::pair<std::string_view, std::string_view> halves_of(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? std::pair(std::string_view(), name)
                                       : std::pair(name.substr(0, dot), name.substr(dot + 1));
}

/// The tensors of one module that may be parts of a weight: name after the module's name -> tensor.
using module_parts = std::map<std::string_view, const tensor_entry*>;

/// Finds the tensors that are parts of one compressed weight, and describes each weight as a decompressed_weight.
class weight_finder {
 public:
  weight_finder(const stored_tensors& stored, const std::vector<scheme_group>& groups)
      : stored_(stored), groups_(groups), reader_(stored.source) {}

  /// Returns the weight of `module`, whose scales must be among its parts.
  core::result<decompressed_weight> weight_of(std::string_view module, const module_parts& parts) {
    const auto* scheme = find_scheme(groups_, module);
    if (scheme == nullptr)
      return refused(fmt::format("quantization_config has no group for the module '{}'", shown(module)));
    if (parts.contains("weight_g_idx"))
      return refused(fmt::format("tensor '{}.weight_g_idx': reordered columns are not supported", shown(module)));
    decompressed_weight out;
    out.name = std::string(module) + ".weight";
    out.matrix.scheme = *scheme;
    auto& m = out.matrix;
    const auto& scales = *parts.at("weight_scale");
    const bool is_half = scheme->codes().kind == kernels::code_kind::e2m1;
    if (!is_half) {
      if (!is_floating(scales.type) || scales.type == core::dtype::f64)
        return refused(fmt::format("tensor '{}': scales of fp32, bf16 or fp16 were wanted, got {}", shown(scales.name),
                                   core::name_of(scales.type)));
      m.scheme.scale_type = scales.type;
    }
    TROUPE_TRY(take_size(m, module, parts));
    out.one_scale = scheme->group_size == 0 && core::numel_of(scales.shape) == 1;
    if (!out.one_scale && m.rows > 0 && m.scheme.group_size == 0 && core::numel_of(scales.shape) != m.rows)
      return refused(fmt::format("tensor '{}': one scale for each of {} rows was wanted, got the shape [{}]",
                                 shown(scales.name), m.rows, fmt::join(scales.shape, ", ")));
    if (auto ok = check(m); !ok) return fail(ok.error().in(fmt::format("tensor '{}'", shown(out.name))));
    for (const auto& wanted : parts_of(m)) {
      const auto at = parts.find(wanted.suffix);
      if (at == parts.end()) return refused(fmt::format("tensor '{}.{}' is missing", shown(module), wanted.suffix));
      TROUPE_TRY(take(out, wanted, *at->second));
    }
    return out;
  }

 private:
  /// Sets the rows and columns of `m`, from the tensor weight_shape if the layout has it, else from the shape of the
  /// codes.
  core::result<void> take_size(compressed_matrix& m, std::string_view module, const module_parts& parts) {
    const auto codes = parts_of({1, 1, m.scheme}).front();
    const auto at = parts.find(codes.suffix);
    if (at == parts.end() || at->second->shape.size() != 2)
      return refused(fmt::format("tensor '{}.{}': a matrix of codes was wanted", shown(module), codes.suffix));
    m.rows = static_cast<uint64_t>(at->second->shape[0]);
    m.columns =
        static_cast<uint64_t>(at->second->shape[1]) * (m.scheme.codes().kind == kernels::code_kind::e2m1 ? 2 : 1);
    if (m.scheme.layout != compressed_layout::pack_quantized) return {};
    const auto shape = parts.find("weight_shape");
    std::array<int64_t, 2> size{};
    if (shape == parts.end() || core::numel_of(shape->second->shape) != 2 ||
        (shape->second->type != core::dtype::i64 && shape->second->type != core::dtype::i32))
      return refused(fmt::format("tensor '{}.weight_shape': two whole numbers were wanted", shown(module)));
    if (shape->second->type == core::dtype::i64) {
      TROUPE_TRY(reader_.read(*shape->second, 0, 2, std::as_writable_bytes(std::span(size))));
    } else {
      std::array<int32_t, 2> narrow{};
      TROUPE_TRY(reader_.read(*shape->second, 0, 2, std::as_writable_bytes(std::span(narrow))));
      size = {narrow[0], narrow[1]};
    }
    const auto words = static_cast<uint64_t>(at->second->shape[1]);
    if (size[0] < 0 || static_cast<uint64_t>(size[0]) != m.rows || size[1] < 0 ||
        static_cast<uint64_t>(size[1]) > words * 32 ||
        kernels::packed_words(static_cast<uint64_t>(size[1]), m.scheme.bits) != words)
      return refused(fmt::format("tensor '{}.weight_shape' is {} x {}, but the codes have {} rows of {} words",
                                 shown(module), size[0], size[1], m.rows, words));
    m.columns = static_cast<uint64_t>(size[1]);
    return {};
  }

  core::result<void> take(decompressed_weight& to, const part_tensor& wanted, const tensor_entry& t) {
    const bool is_scale = wanted.part == weight_part::scales, is_shape = wanted.part == weight_part::shape;
    const bool one = is_scale && to.one_scale, a_row_each = is_scale && to.matrix.scheme.group_size == 0;
    const bool fits = t.shape == wanted.shape || one || (a_row_each && core::numel_of(t.shape) == to.matrix.rows) ||
                      (wanted.part == weight_part::global_scale && core::numel_of(t.shape) == 1);
    if (is_shape) return {};
    if (t.type != wanted.type || stored_.in_e4m3.contains(t.name) != wanted.is_e4m3 || !fits)
      return refused(fmt::format("tensor '{}': wanted {} [{}], got {} [{}]", shown(t.name),
                                 type_name(wanted.type, wanted.is_e4m3), fmt::join(wanted.shape, ", "),
                                 type_name(t.type, stored_.in_e4m3.contains(t.name)), fmt::join(t.shape, ", ")));
    const stored_part place{stored_.source.files[t.pieces.front().file], t.pieces.front().offset_bytes};
    if (wanted.part == weight_part::codes) to.codes = place;
    if (is_scale) to.scales = place;
    if (wanted.part == weight_part::zeros) to.zeros = place;
    if (wanted.part != weight_part::global_scale) return {};
    TROUPE_TRY(reader_.read(t, 0, 1, std::as_writable_bytes(std::span(&to.global_scale, 1))));
    if (std::isfinite(to.global_scale) && to.global_scale > 0) return {};
    return refused(fmt::format("tensor '{}': a scale above 0 was wanted, got {}", shown(t.name), to.global_scale));
  }

  static std::string type_name(core::dtype type, bool is_e4m3) {
    return is_e4m3 ? "F8_E4M3" : std::string(core::name_of(type));
  }

  const stored_tensors& stored_;
  const std::vector<scheme_group>& groups_;
  source_reader reader_;
};

std::string layouts_of(const std::vector<scheme_group>& groups) {
  std::vector<std::string_view> names;
  for (const auto& g : groups)
    if (std::ranges::find(names, name_of(g.scheme.layout)) == names.end()) names.push_back(name_of(g.scheme.layout));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Returns the source with the tensors of decoded weights, as one whose weights are not compressed. `layouts` names the
/// layouts of the stored weights; empty if no weight is compressed.
core::result<tensor_source> with_values(tensor_source out, std::vector<decompressed_weight> weights,
                                        const std::string& layouts) {
  add_decompressed(out, std::move(weights));
  say_unread(out.remarks, out.unread);
  if (!layouts.empty()) out.format = fmt::format("Hugging Face, {}", layouts);
  out.run.model = without_quantization_config(out.run.model);
  TROUPE_TRY(complete(out));
  return out;
}

constexpr std::string_view weight_end = ".weight";
constexpr std::array<std::string_view, 2> scale_ends{".weight_scale_inv", ".weight_scale"};
/// Endings of the names of tensors that hold ranges of activations, after the name of a module with fp8 weights.
constexpr std::array<std::string_view, 5> range_ends{".input_scale", ".activation_scale", ".output_scale", ".k_scale",
                                                     ".v_scale"};

/// Returns the rows and columns of `codes` that one scale of `scales` covers, from the shape of `scales`: the blocks
/// `said` of config.json, the whole weight, or one row. Refused: any other shape, and types that scales cannot have.
core::result<scale_blocks> blocks_of(const tensor_entry& codes, const tensor_entry& scales, const scale_blocks& said) {
  const auto rows = static_cast<uint64_t>(codes.shape[0]), columns = static_cast<uint64_t>(codes.shape[1]);
  const uint64_t count = core::numel_of(scales.shape);
  if (!is_floating(scales.type) || scales.type == core::dtype::f64)
    return refused(fmt::format("tensor '{}': scales of fp32, bf16 or fp16 were wanted, got {}", shown(scales.name),
                               core::name_of(scales.type)));
  if (said.rows > 0 && scales.shape.size() == 2) {
    const uint64_t down = core::div_up(rows, said.rows), across = core::div_up(columns, said.columns);
    if (static_cast<uint64_t>(scales.shape[0]) == down && static_cast<uint64_t>(scales.shape[1]) == across) return said;
  } else if (count == 1) {
    return scale_blocks{rows, columns};
  } else if (count == rows) {
    return scale_blocks{1, columns};
  }
  return refused(fmt::format(
      "tensor '{}': its shape [{}] does not fit {} x {} codes{}", shown(scales.name), fmt::join(scales.shape, ", "),
      rows, columns, said.rows > 0 ? fmt::format(" in blocks of {} x {}", said.rows, said.columns) : std::string()));
}

/// Returns the source with decoded values for each E4M3 matrix `M.weight` of `stored`, in the type of its scales. The
/// scales are `M.weight_scale_inv` or `M.weight_scale`. Despite the first name, a code is multiplied by its scale, of
/// which there is one for the whole weight, for each row or for each block. Scales and the ranges of activations are
/// left out. Returns an error that names the tensor if scales are missing or of another type or shape, or codes are not
/// a matrix.
core::result<tensor_source> read_fp8(stored_tensors stored, const scale_blocks& blocks) {
  auto& out = stored.source;
  const auto entry_of = [&](const std::string& name) { return find_tensor(out, name, tensor_kind::weight); };
  std::vector<decompressed_weight> weights;
  std::set<std::string> used;
  for (const auto& name : stored.in_e4m3) {
    const auto& codes = *entry_of(name);
    if (!name.ends_with(weight_end) || codes.shape.size() != 2 || codes.pieces.empty())
      return refused(fmt::format("tensor '{}' of F8_E4M3 [{}]: only weights of linear layers, M.weight, can be decoded",
                                 shown(name), fmt::join(codes.shape, ", ")));
    const auto module = name.substr(0, name.size() - weight_end.size());
    const tensor_entry* scales = nullptr;
    for (const auto end : scale_ends)
      if (scales == nullptr) scales = entry_of(module + std::string(end));
    if (scales == nullptr)
      return refused(fmt::format("tensor '{}': its scales, '{}{}', are missing or have a type that is not supported",
                                 shown(name), shown(module), scale_ends.front()));
    TROUPE_ASSIGN(const auto of, blocks_of(codes, *scales, blocks));
    decompressed_weight w{.name = name, .matrix = {}, .codes = {}, .scales = {}};
    w.matrix = {.rows = static_cast<uint64_t>(codes.shape[0]),
                .columns = static_cast<uint64_t>(codes.shape[1]),
                .scheme = {.layout = compressed_layout::float_quantized, .bits = 8, .scale_type = scales->type}};
    w.codes = {out.files[codes.pieces.front().file], codes.pieces.front().offset_bytes};
    w.scales = {out.files[scales->pieces.front().file], scales->pieces.front().offset_bytes};
    w.blocks = of;
    used.insert(name);
    for (const auto end : scale_ends) used.insert(module + std::string(end));
    for (const auto end : range_ends) used.insert(module + std::string(end));
    weights.push_back(std::move(w));
  }
  std::erase_if(out.tensors, [&](const tensor_entry& t) { return used.contains(t.name); });
  return with_values(std::move(out), std::move(weights), "fp8");
}

}  // namespace

std::string compressed_refusal(const fs::path& path) {
  return fmt::format(
      "'{}': its weights are compressed: set model.dequantise: true (--dequantise) to begin with the decoded values, "
      "or write whole weights with troupe checkpoint to-hf",
      path.string());
}

namespace {

/// Returns the compression that `config`, the text of config.json next to the weights at `path`, states.
core::result<weight_compression> said_by(const std::string& config, const fs::path& path) {
  if (const auto codes = foreign_codes_of(config)) return fail(foreign_refusal(path.string(), *codes));
  auto said = compression_in(config);
  if (said) return said;
  return fail(said.error().in(fmt::format("'{}'", (folder_of(path) / model_config_file_name).string())));
}

/// Returns the tensors of `path` with the values that the codes of its weights stand for. The weight of module M is
/// `M.weight`, in the type of the scales (bf16 for codes of 4-bit numbers). Codes, scales, zero points, and the ranges
/// of activations, which only matter when the model runs, are not among the source's tensors. Returns bad_input with
/// the tensor's name for parts that are missing or of another type or shape, and for columns in another order
/// (weight_g_idx). Reading fails for a scale that is negative or not finite, and, except for fp8, for a scale of 0.
core::result<tensor_source> decoded(stored_tensors stored, const weight_compression& said, const fs::path& path) {
  const auto in_folder = [&](const core::error& e) { return e.in(fmt::format("'{}'", path.string())); };
  if (said.fp8) {
    auto values = read_fp8(std::move(stored), *said.fp8);
    if (!values) return fail(in_folder(values.error()));
    return values;
  }
  const auto& groups = *said.groups;

  std::map<std::string_view, module_parts> modules;
  for (const auto& t : stored.source.tensors) {
    const auto [module, suffix] = halves_of(t.name);
    if (suffix == "weight" || is_one_of(suffix, own_suffixes)) modules[module][suffix] = &t;
  }
  std::erase_if(modules, [](const auto& m) { return !m.second.contains("weight_scale"); });

  weight_finder finder(stored, groups);
  std::vector<decompressed_weight> weights;
  for (const auto& [module, parts] : modules) {
    auto weight = finder.weight_of(module, parts);
    if (!weight) return fail(in_folder(weight.error()));
    weights.push_back(std::move(*weight));
  }
  tensor_source out = stored.source;
  std::erase_if(out.tensors, [&](const tensor_entry& t) {
    const auto [module, suffix] = halves_of(t.name);
    return is_one_of(suffix, attention_suffixes) ||
           (modules.contains(module) && (suffix == "weight" || is_one_of(suffix, own_suffixes)));
  });
  for (const auto& t : out.tensors)
    if (stored.in_e4m3.contains(t.name) && !modules.contains(halves_of(t.name).first))
      return refused(
          fmt::format("'{}': tensor '{}.weight_scale' is missing", path.string(), shown(halves_of(t.name).first)));
  return with_values(std::move(out), std::move(weights), layouts_of(groups));
}

/// Opens the weights of a Hugging Face folder, with decoded values if their codes can be decoded.
core::result<tensor_source> open_weights(const fs::path& path, const source_options& options) {
  TROUPE_ASSIGN(auto config, read_model_config(folder_of(path)));
  weight_compression said;
  if (!options.as_stored || !foreign_codes_of(config)) {
    TROUPE_ASSIGN(said, said_by(config, path));
  }
  TROUPE_ASSIGN(auto stored, read_stored_tensors(path, std::move(config)));
  if (said.is_read()) return decoded(std::move(stored), said, path);
  return plain_source(std::move(stored), path, options.as_stored);
}

}  // namespace

core::result<weight_compression> compression_of(const fs::path& path) {
  TROUPE_ASSIGN(const auto config, read_model_config(folder_of(path)));
  return said_by(config, path);
}

constexpr source_format hugging_face_format{
    .described = "weights in safetensors files",
    .lacks = "no model.safetensors or pytorch_model.bin (Hugging Face)",
    .file_kind = "a safetensors file",
    .in_folder = [](const fs::path& folder) -> core::result<likeness> {
      if (storage::is_there(folder / single_file_name) || storage::is_there(folder / index_file_name))
        return likeness::certain;
      const auto index = find_weights_index(folder, index_file_name, safetensors_index_infix);
      return index ? likeness::possible : likeness::none;
    },
    .in_file =
        [](const file_start& start) {
          const bool is_header = start.byte(8) == '{';
          return is_header || start.first_shard.ends_with(".safetensors") ? likeness::possible : likeness::none;
        },
    .has_states = has_optimizer_file,
    .open = open_weights,
    .is_model_folder = true,
    .has_module_names = true,
    .has_trainer_files = true,
};

}  // namespace troupe::formats
