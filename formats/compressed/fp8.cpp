#include "formats/compressed/fp8.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "core/math.hpp"
#include "core/tensor_view.hpp"
#include "core/text.hpp"
#include "formats/compressed/decompressed.hpp"
#include "formats/compressed/scheme.hpp"
#include "formats/source/element_cast.hpp"

namespace troupe::formats {
namespace {

using core::refused;
using core::shown;

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

}  // namespace

core::result<tensor_source> fp8_source(stored_tensors stored, const scale_blocks& blocks) {
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
  add_decompressed(out, std::move(weights));
  say_unread(out.remarks, out.unread);
  out.format = "Hugging Face, fp8";
  out.run.model = without_quantization_config(out.run.model);
  TROUPE_TRY(complete(out));
  return std::move(out);
}

}  // namespace troupe::formats
