#include "formats/compressed/scheme.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "core/text.hpp"
#include "formats/names/name_pattern.hpp"

namespace troupe::formats {
namespace {

using core::shown;
using json = nlohmann::ordered_json;
using kernels::code_kind;
using kernels::scale_kind;

constexpr size_t max_depth = 64;
constexpr uint64_t mxfp4_group = 32, nvfp4_group = 16, usual_group = 128;

constexpr std::array<std::pair<std::string_view, compressed_layout>, 5> layouts{
    {{"pack-quantized", compressed_layout::pack_quantized},
     {"int-quantized", compressed_layout::int_quantized},
     {"float-quantized", compressed_layout::float_quantized},
     {"mxfp4-pack-quantized", compressed_layout::mxfp4},
     {"nvfp4-pack-quantized", compressed_layout::nvfp4}}};

using core::refused;

bool has_halves(compressed_layout layout) {
  return layout == compressed_layout::mxfp4 || layout == compressed_layout::nvfp4;
}

/// Returns the number of bits that a format's name states: 2 for "int2" to 8 for "int8"; nothing for any other name.
std::optional<uint32_t> bits_of(std::string_view format) {
  if (format.size() != 4 || !format.starts_with("int") || format[3] < '2' || format[3] > '8') return std::nullopt;
  return static_cast<uint32_t>(format[3] - '0');
}

json weights_of(const weight_scheme& s) {
  const bool is_float = s.codes().kind != code_kind::integer;
  json out{{"num_bits", s.bits}, {"type", is_float ? "float" : "int"}, {"symmetric", s.symmetric}};
  out["strategy"] = s.layout == compressed_layout::nvfp4 ? "tensor_group" : s.group_size > 0 ? "group" : "channel";
  out["group_size"] = s.group_size > 0 ? json(s.group_size) : json(nullptr);
  out["dynamic"] = false;
  if (has_halves(s.layout)) {
    const char* type = s.layout == compressed_layout::mxfp4 ? "torch.uint8" : "torch.float8_e4m3fn";
    out["scale_dtype"] = type;
    out["zp_dtype"] = type;
  }
  return out;
}

/// True if a transform is applied to some weights or activations; an empty transform_config names none.
bool rotates_weights(const json& said) {
  const auto at = said.find("transform_config");
  if (at == said.end() || at->empty()) return false;
  const auto groups = at->find("config_groups");
  return !at->is_object() || groups == at->end() || !groups->empty();
}

/// True if the weights' zeros are not stored (sparse formats): sparsity_config has a format other than `dense`.
bool leaves_zeros_out(const json& said) {
  const auto at = said.find("sparsity_config");
  if (at == said.end() || at->empty()) return false;
  const auto format = at->is_object() ? at->find("format") : at->end();
  return !at->is_object() || format == at->end() || *format != "dense";
}

/// Reads keys of one JSON object in quantization_config; `where` is the path of the object for error messages.
class weights_reader {
 public:
  weights_reader(const json& weights, std::string where) : weights_(weights), where_(std::move(where)) {}

  [[nodiscard]] std::string text(const char* key, const char* otherwise) const {
    const auto at = weights_.find(key);
    return at != weights_.end() && at->is_string() ? at->get<std::string>() : otherwise;
  }
  [[nodiscard]] bool flag(const char* key, bool otherwise) const {
    const auto at = weights_.find(key);
    return at != weights_.end() && at->is_boolean() ? at->get<bool>() : otherwise;
  }
  /// Returns the number under `key`; 0 if the key is missing or its value is null or -1.
  [[nodiscard]] core::result<uint64_t> number(const char* key) const {
    const auto at = weights_.find(key);
    if (at == weights_.end() || at->is_null() || *at == -1) return 0;
    if (!at->is_number_unsigned())
      return refused(fmt::format("{}.{}: a whole number was wanted, got {}", where_, key,
                                 shown(at->dump(-1, ' ', false, json::error_handler_t::replace))));
    return at->get<uint64_t>();
  }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  const json& weights_;
  std::string where_;
};

core::result<weight_scheme> scheme_from(const weights_reader& in, compressed_layout layout) {
  TROUPE_ASSIGN(const auto bits, in.number("num_bits"));
  TROUPE_ASSIGN(const auto group, in.number("group_size"));
  weight_scheme out{.layout = layout,
                    .bits = static_cast<uint32_t>(std::min<uint64_t>(bits, 99)),
                    .symmetric = in.flag("symmetric", true)};
  const auto type = in.text("type", "int"), strategy = in.text("strategy", group > 0 ? "group" : "tensor");
  const bool is_float = out.codes().kind != code_kind::integer;
  if (type != (is_float ? "float" : "int"))
    return refused(fmt::format("{}.type: {} requires codes of type {}, got '{}'", in.where(), name_of(layout),
                               is_float ? "float" : "int", shown(type)));
  const uint32_t least = layout == compressed_layout::pack_quantized ? 2 : has_halves(layout) ? 4 : 8;
  const uint32_t most = has_halves(layout) ? 4 : 8;
  if (out.bits < least || out.bits > most)
    return refused(fmt::format("{}.num_bits: {} requires {} bits, got {}", in.where(), name_of(layout),
                               least == most ? fmt::to_string(most) : fmt::format("{} to {}", least, most), bits));
  const bool by_group = strategy == "group" || strategy == "tensor_group";
  if (!by_group && strategy != "channel" && strategy != "tensor")
    return refused(fmt::format("{}.strategy: wanted tensor, channel, group or tensor_group, got '{}'", in.where(),
                               shown(strategy)));
  if (by_group != (group > 0))
    return refused(fmt::format("{}.group_size: {} does not fit the strategy '{}'", in.where(), group, strategy));
  if (is_float && !out.symmetric)
    return refused(
        fmt::format("{}.symmetric: {} has no zero points and requires true, got false", in.where(), name_of(layout)));
  out.group_size = by_group ? group : 0;
  const uint64_t fixed = layout == compressed_layout::mxfp4 ? mxfp4_group : nvfp4_group;
  if (has_halves(layout) && out.group_size != fixed)
    return refused(
        fmt::format("{}.group_size: {} requires groups of {}, got {}", in.where(), name_of(layout), fixed, group));
  return out;
}

}  // namespace

std::string_view name_of(compressed_layout layout) { return layouts[static_cast<size_t>(layout)].first; }

std::optional<compressed_layout> compressed_layout_from(std::string_view name) {
  for (const auto& [known, layout] : layouts)
    if (known == name) return layout;
  return std::nullopt;
}

kernels::code_format weight_scheme::codes() const {
  kernels::code_format out{.kind = code_kind::integer, .bits = bits, .symmetric = symmetric};
  out.scales = scale_type == core::dtype::f32   ? scale_kind::f32
               : scale_type == core::dtype::f16 ? scale_kind::f16
                                                : scale_kind::bf16;
  if (layout == compressed_layout::float_quantized) out.kind = code_kind::e4m3;
  if (has_halves(layout)) {
    out.kind = code_kind::e2m1;
    out.scales = layout == compressed_layout::mxfp4 ? scale_kind::e8m0 : scale_kind::e4m3;
  }
  return out;
}

core::dtype weight_scheme::value_type() const { return has_halves(layout) ? core::dtype::bf16 : scale_type; }

std::span<const std::string_view> scheme_formats() {
  static constexpr std::array<std::string_view, 11> all{"int2", "int3", "int4", "int5",  "int6", "int7",
                                                        "int8", "w8a8", "fp8",  "mxfp4", "nvfp4"};
  return all;
}

core::result<weight_scheme> scheme_of(const scheme_wish& wish) {
  weight_scheme out{.bits = 8, .symmetric = !wish.asymmetric, .scale_type = wish.type};
  const auto integer = bits_of(wish.format);
  uint64_t group = 0;
  if (integer) {
    out.bits = *integer;
    group = *integer < 8 ? usual_group : 0;
  } else if (wish.format == "w8a8") {
    out.layout = compressed_layout::int_quantized;
  } else if (wish.format == "fp8") {
    out.layout = compressed_layout::float_quantized;
  } else if (wish.format == "mxfp4" || wish.format == "nvfp4") {
    out.layout = wish.format == "mxfp4" ? compressed_layout::mxfp4 : compressed_layout::nvfp4;
    out.bits = 4;
    group = wish.format == "mxfp4" ? mxfp4_group : nvfp4_group;
  } else {
    return refused(
        fmt::format("wanted int4, int8 (or int2 to int7), w8a8, fp8, mxfp4 or nvfp4, got '{}'", shown(wish.format)));
  }
  out.group_size = wish.group_size.value_or(group);
  if (!integer && out.group_size != group)
    return refused(
        group > 0
            ? fmt::format("{} requires groups of {} columns, got {}", wish.format, group, out.group_size)
            : fmt::format("{} has one scale per row and no groups, got groups of {}", wish.format, out.group_size));
  if (!integer && wish.asymmetric) return refused(fmt::format("{} has no zero points: it is symmetric", wish.format));
  return out;
}

core::result<std::string> with_quantization_config(const std::string& config, const weight_scheme& s,
                                                   const std::vector<std::string>& ignored) {
  auto keys = core::parse_json<json>(config, max_depth);
  if (!keys || !keys->is_object()) return refused("config.json: a JSON object was wanted");
  json group{{"targets", {"Linear"}}, {"weights", weights_of(s)}, {"input_activations", nullptr}};
  if (s.layout == compressed_layout::int_quantized)
    group["input_activations"] = {{"num_bits", 8},       {"type", "int"},         {"symmetric", true},
                                  {"strategy", "token"}, {"group_size", nullptr}, {"dynamic", true}};
  group["output_activations"] = nullptr;
  (*keys)[std::string(quantization_config_key)] = {{"quant_method", compressed_tensors_method},
                                                   {"format", name_of(s.layout)},
                                                   {"quantization_status", "compressed"},
                                                   {"config_groups", {{"group_0", std::move(group)}}},
                                                   {"ignore", ignored},
                                                   {"kv_cache_scheme", nullptr}};
  return keys->dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string without_quantization_config(const std::string& config) {
  auto keys = core::parse_json<json>(config, max_depth);
  if (!keys || !keys->is_object() || keys->erase(std::string(quantization_config_key)) == 0) return config;
  return keys->dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

namespace {

/// Reads the blocks of fp8, whose description in config.json is `said`. Refused (bad_input): codes other than E4M3,
/// blocks that are not two numbers above 0.
core::result<scale_blocks> blocks_in(const json& said) {
  const auto format = said.find("fmt");
  if (format != said.end() && format->is_string() && *format != "e4m3")
    return refused(
        fmt::format("{}.fmt: wanted e4m3, got '{}'", quantization_config_key, shown(format->get<std::string>())));
  scale_blocks out;
  const auto size = said.find("weight_block_size");
  if (size == said.end() || size->is_null()) return out;
  const bool is_pair = size->is_array() && size->size() == 2 && (*size)[0].is_number_unsigned() &&
                       (*size)[1].is_number_unsigned() && (*size)[0] > 0 && (*size)[1] > 0;
  if (!is_pair)
    return refused(fmt::format("{}.weight_block_size: two whole numbers above 0 were wanted, got {}",
                               quantization_config_key,
                               shown(size->dump(-1, ' ', false, json::error_handler_t::replace))));
  out.rows = (*size)[0].get<uint64_t>();
  out.columns = (*size)[1].get<uint64_t>();
  return out;
}

/// Reads the groups of compressed-tensors, whose description in config.json is `said`; an empty list if it leaves the
/// weights as they are. Groups of activations alone are left out. Refused (bad_input): a malformed description, and
/// layouts, strategies and widths that are not read.
core::result<std::vector<scheme_group>> groups_in(const json& said) {
  const std::string where(quantization_config_key);
  if (rotates_weights(said)) return refused(where + ".transform_config: transformed weights are not supported");
  if (leaves_zeros_out(said)) return refused(where + ".sparsity_config: sparse weights are not supported");
  const auto groups = said.find("config_groups");
  if (groups == said.end() || !groups->is_object() || groups->empty()) {
    const bool is_dense = said.contains("sparsity_config") || (said.contains("format") && said["format"] == "dense");
    const auto cache = said.find("kv_cache_scheme");
    if (is_dense || (cache != said.end() && cache->is_object())) return std::vector<scheme_group>();
    return refused(where + ".config_groups: wanted at least one group of modules, got none");
  }
  std::vector<scheme_group> out;
  for (const auto& [name, group] : groups->items()) {
    const auto at = fmt::format("{}.config_groups.{}", where, shown(name));
    // this group compresses activations and no weights
    if (group.is_object() && group.contains("weights") && group["weights"].is_null()) continue;
    if (!group.is_object() || !group.contains("weights") || !group["weights"].is_object())
      return refused(at + ".weights: an object was wanted");
    const weights_reader format(group, at), whole(said, where);
    const auto text = format.text("format", whole.text("format", "").c_str());
    const auto layout = compressed_layout_from(text);
    if (!layout)
      return refused(
          fmt::format("{}.format: wanted pack-quantized, int-quantized, float-quantized, "
                      "mxfp4-pack-quantized or nvfp4-pack-quantized, got '{}'",
                      at, shown(text)));
    TROUPE_ASSIGN(auto scheme, scheme_from(weights_reader(group["weights"], at + ".weights"), *layout));
    scheme_group read{{}, scheme};
    if (const auto targets = group.find("targets"); targets != group.end() && targets->is_array())
      for (const auto& target : *targets)
        if (target.is_string()) read.targets.push_back(target.get<std::string>());
    if (read.targets.empty()) return refused(at + ".targets: wanted at least one name of a module, got none");
    out.push_back(std::move(read));
  }
  return out;
}

}  // namespace

core::result<weight_compression> compression_in(const std::string& config) {
  weight_compression out;
  const auto keys = core::parse_json<json>(config, max_depth);
  if (!keys || !keys->is_object()) return out;
  const auto said = keys->find(std::string(quantization_config_key));
  if (said == keys->end() || !said->is_object()) return out;
  const auto method = said->find("quant_method");
  if (method == said->end()) return out;
  if (*method == std::string(fp8_method)) {
    TROUPE_ASSIGN(out.fp8, blocks_in(*said));
  } else if (*method == std::string(compressed_tensors_method)) {
    TROUPE_ASSIGN(out.groups, groups_in(*said));
  }
  return out;
}

const weight_scheme* find_scheme(const std::vector<scheme_group>& groups, std::string_view module) {
  const auto names = [module](const std::string& target) {
    if (target.starts_with("re:")) {
      const auto pattern = name_pattern::of(target.substr(3));
      return pattern && pattern->matches(module);
    }
    return target == module;
  };
  // A group that names the module takes precedence over one that names its class.
  for (const auto& group : groups)
    if (std::ranges::any_of(group.targets, names)) return &group.scheme;
  for (const auto& group : groups)
    if (std::ranges::find(group.targets, "Linear") != group.targets.end()) return &group.scheme;
  return nullptr;
}

}  // namespace troupe::formats
