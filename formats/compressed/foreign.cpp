#include "formats/compressed/foreign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/json_text.hpp"
#include "core/text.hpp"
#include "formats/compressed/scheme.hpp"

namespace troupe::formats {
namespace {

using json = nlohmann::ordered_json;
using core::shown;

constexpr size_t max_foreign_depth = 64;

/// Values of quant_method in config.json, and the usual name of each method.
constexpr std::array<std::pair<std::string_view, std::string_view>, 23> method_names{
    {{"gptq", "GPTQ"},
     {"awq", "AWQ"},
     {"bitsandbytes", "bitsandbytes"},
     {"hqq", "HQQ"},
     {"eetq", "EETQ"},
     {"quanto", "quanto"},
     {"torchao", "torchao"},
     {"aqlm", "AQLM"},
     {"fbgemm_fp8", "FBGEMM FP8"},
     {"higgs", "HIGGS"},
     {"vptq", "VPTQ"},
     {"spqr", "SpQR"},
     {"bitnet", "BitNet"},
     {"quark", "Quark"},
     {"auto-round", "AutoRound"},
     {"mxfp4", "MXFP4"},
     {"fp_quant", "FP-Quant"},
     {"modelopt", "ModelOpt"},
     {"exl2", "ExLlamaV2"},
     {"exl3", "ExLlamaV3"},
     {"marlin", "Marlin"},
     {"bitblas", "BitBLAS"},
     {"intel/auto-round", "AutoRound"}}};

bool is_true(const json& of, const char* key) {
  const auto at = of.find(key);
  return at != of.end() && at->is_boolean() && at->get<bool>();
}

std::optional<foreign_codes> codes_of_config(const json& said) {
  const std::string key(quantization_config_key);
  const auto method = said.find("quant_method");
  if (method != said.end() && method->is_string()) {
    const auto name = method->get<std::string>();
    if (name == compressed_tensors_method || name == fp8_method) return std::nullopt;
    const auto* known = std::ranges::find(method_names, name, &std::pair<std::string_view, std::string_view>::first);
    const bool is_off = name == "bitsandbytes" && (said.contains("load_in_4bit") || said.contains("load_in_8bit")) &&
                        !is_true(said, "load_in_4bit") && !is_true(said, "load_in_8bit");
    if (is_off) return std::nullopt;
    return foreign_codes{known == method_names.end() ? shown(name) : std::string(known->second),
                         fmt::format("config.json: {}.quant_method '{}'", key, shown(name))};
  }
  for (const char* bits : {"load_in_4bit", "load_in_8bit"})
    if (is_true(said, bits)) return foreign_codes{"bitsandbytes", fmt::format("config.json: {}.{}", key, bits)};
  if (said.contains("bits") || said.contains("w_bit") || said.contains("weight_bits"))
    return foreign_codes{"an unnamed method", fmt::format("config.json: {}", key)};
  return std::nullopt;
}

bool ends_in(std::string_view name, std::string_view end) { return name.ends_with(end); }

bool is_whole_number(core::dtype type) {
  return type == core::dtype::i8 || type == core::dtype::u8 || type == core::dtype::i16 || type == core::dtype::i32;
}

bool is_weight_name(std::string_view name) { return name == "weight" || ends_in(name, ".weight"); }

/// Endings of the names of integer tensors, each used by one tool only, and the compression method of that tool.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> code_names{
    {{".W_q", "HQQ"},
     {".weight._data", "quanto"},
     {".codes", "AQLM"},
     {".q_weight", "ExLlamaV2"},
     {".trellis", "ExLlamaV3"},
     {"_blocks", "MXFP4"},
     {".weight_packed", "compressed-tensors"}}};

/// Endings of the names of tensors that a tool stores next to the codes `M.weight` (`M.SCB` ...), and the compression
/// method of that tool.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> scale_names{
    {{".SCB", "bitsandbytes"}, {".weight.absmax", "bitsandbytes"}, {".weight_scales", "EETQ"}, {".biases", "MLX"}}};

class code_finder {
 public:
  explicit code_finder(const tensor_source& s) {
    for (const auto& t : s.tensors) names_.insert(t.name);
    for (const auto& t : s.unread) names_.insert(t.name);
  }

  [[nodiscard]] std::optional<foreign_codes> by_name(std::string_view name) const {
    if (ends_in(name, ".qweight")) return said(has(name, ".qweight", ".g_idx") ? "GPTQ" : "AWQ or GPTQ", name);
    for (const auto& [end, method] : code_names) {
      if (!ends_in(name, end)) continue;
      if (end == "_blocks" && !has(name, end, "_scales")) continue;
      if (end == ".codes" && !has(name, end, ".codebooks")) continue;
      return said(std::string(method), name);
    }
    return std::nullopt;
  }

  /// Returns the compression method that the names of the tensors next to the weight `name` show; the method is
  /// `unknown` if they show none. For weights whose own name shows no method.
  [[nodiscard]] foreign_codes of_weight(std::string_view name, const std::string& type, const char* unknown) const {
    for (const auto& [end, method] : scale_names)
      if (has(name, ".weight", end)) return {std::string(method), sign_of(name, type)};
    return {unknown, sign_of(name, type)};
  }

 private:
  /// True if a tensor exists whose name has the ending `other` in place of `end` in `name`.
  [[nodiscard]] bool has(std::string_view name, std::string_view end, std::string_view other) const {
    return ends_in(name, end) && names_.contains(std::string(name.substr(0, name.size() - end.size())).append(other));
  }
  static std::string sign_of(std::string_view name, const std::string& type) {
    return fmt::format("tensor '{}' has the type {}", shown(name), type);
  }
  static foreign_codes said(std::string method, std::string_view name) {
    return {std::move(method), fmt::format("tensor '{}'", shown(name))};
  }

  std::set<std::string, std::less<>> names_;
};

}  // namespace

std::optional<foreign_codes> foreign_codes_of(std::string_view config) {
  const auto keys = core::parse_json<json>(std::string(config), max_foreign_depth);
  if (!keys || !keys->is_object()) return std::nullopt;
  for (const json* of : {&*keys, keys->contains("text_config") ? &(*keys)["text_config"] : nullptr}) {
    if (of == nullptr || !of->is_object()) continue;
    // MLX writes its quantisation parameters under the key `quantization` as well as under quantization_config.
    const auto own = of->find("quantization");
    if (own != of->end() && own->is_object() && own->contains("group_size") && own->contains("bits"))
      return foreign_codes{"MLX", "config.json: quantization"};
    const auto said = of->find(std::string(quantization_config_key));
    if (said == of->end() || !said->is_object()) continue;
    if (auto found = codes_of_config(*said)) return found;
  }
  return std::nullopt;
}

std::optional<foreign_codes> foreign_codes_of(const tensor_source& s) {
  const code_finder find(s);
  const auto may_be = [](const tensor_entry& t) {
    return t.kind != tensor_kind::moment && t.kind != tensor_kind::buffer && is_whole_number(t.type);
  };
  for (const auto& t : s.tensors)
    if (may_be(t))
      if (auto found = find.by_name(t.name)) return found;
  for (const auto& t : s.unread) {
    if (auto found = find.by_name(t.name)) return found;
    if (is_weight_name(t.name)) return find.of_weight(t.name, t.type, "");
  }
  for (const auto& t : s.tensors)
    if (may_be(t) && is_weight_name(t.name) && t.shape.size() > 1)
      return find.of_weight(t.name, std::string(core::name_of(t.type)), "an unknown method");
  return std::nullopt;
}

core::result<void> judge_codes(tensor_source& s, bool as_stored) {
  auto codes = foreign_codes_of(s);
  if (!codes) codes = foreign_codes_of(s.run.model);
  if (!codes) return {};
  if (!as_stored) return fail(foreign_refusal(shown_place(s), *codes));
  if (codes->method.empty()) return {};  // say_unread() has added a remark about tensors of types that are not read
  s.remarks.push_back(fmt::format(
      "weights are quantised with {} ({}) and are shown as they are stored: no command can decode their values",
      codes->method, codes->sign));
  return {};
}

core::error foreign_refusal(const std::string& place, const foreign_codes& codes) {
  if (codes.method.empty())
    return {core::error_kind::bad_input,
            fmt::format("'{}': {}, which is not read: save it as float32, float16 or bfloat16", place, codes.sign)};
  return {core::error_kind::bad_input,
          fmt::format("'{}': its weights are quantised with {} ({}), which Troupe does not decode: use the model from "
                      "before the quantisation, or save it with whole weights with the tool that quantised it",
                      place, codes.method, codes.sign)};
}

}  // namespace troupe::formats
