#include "formats/peft/adapter_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "core/json_text.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "formats/names/wrapper_names.hpp"
#include "kernels/base/cast.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {
namespace {

using json = nlohmann::ordered_json;

/// Keys of adapter_config.json that do not change the adapter's arithmetic: the tensors say which layers have one.
constexpr std::array<std::string_view, 12> keys_for_others{
    "auto_mapping",        "ensure_weight_tying", "exclude_modules", "inference_mode", "layers_pattern",
    "layers_to_transform", "megatron_core",       "peft_version",    "revision",       "qalora_group_size",
    "runtime_config",      "task_type"};

/// Largest number of elements that one step of a conversion reads.
constexpr size_t elements_at_once = size_t{1} << 16;

/// True for a value that switches an option off: null, false, or an empty mapping, list or text.
bool switches_off(const json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || (value.is_structured() && value.empty());
}

/// Reads the keys of one adapter_config.json, and refuses values by key and place.
class options_reader {
 public:
  options_reader(const json& keys, const std::string& place) : keys_(keys), place_(place) {}

  core::result<adapter_options> run() {
    adapter_options out;
    TROUPE_TRY(kind());
    TROUPE_TRY(rank(out));
    TROUPE_TRY(number("lora_alpha", out.alpha));
    if (!(out.alpha > 0)) return wanted("lora_alpha", "a number above 0", keys_["lora_alpha"]);
    TROUPE_TRY(number("lora_dropout", out.dropout));
    if (out.dropout < 0 || out.dropout >= 1)
      return wanted("lora_dropout", "a number from 0 to below 1", keys_["lora_dropout"]);
    TROUPE_TRY(flag("use_rslora", out.by_root));
    TROUPE_TRY(flag("fan_in_fan_out", out.is_in_out));
    TROUPE_TRY(first_values(out));
    TROUPE_TRY(names("target_modules", out.targets));
    TROUPE_TRY(names("modules_to_save", out.modules_to_save));
    if (const auto at = keys_.find("bias"); at != keys_.end() && *at != "none" && !switches_off(*at))
      return wanted("bias", "\"none\", because biases stay frozen", *at);
    if (const auto at = keys_.find("base_model_name_or_path"); at != keys_.end() && at->is_string())
      out.base = at->get<std::string>();
    if (const auto at = keys_.find("task_type"); at != keys_.end() && at->is_string())
      out.task = at->get<std::string>();
    TROUPE_TRY(nothing_else());
    return out;
  }

 private:
  [[nodiscard]] tl::unexpected<core::error> wanted(std::string_view key, std::string_view what, const json& got) const {
    return core::refused(fmt::format("'{}': key '{}': wanted {}, got {}", place_, core::shown(key), what,
                                     core::shown(got.dump(-1, ' ', false, json::error_handler_t::replace))));
  }
  [[nodiscard]] core::result<void> kind() const {
    const auto at = keys_.find("peft_type");
    if (at == keys_.end()) return core::refused(fmt::format("'{}': wanted the key 'peft_type', got none", place_));
    return *at == "LORA" ? core::result<void>() : wanted("peft_type", "\"LORA\"", *at);
  }
  [[nodiscard]] core::result<void> rank(adapter_options& out) const {
    constexpr uint64_t most = 65536;
    const auto at = keys_.find("r");
    if (at == keys_.end()) return {};
    if (!at->is_number_unsigned() || at->get<uint64_t>() == 0 || at->get<uint64_t>() > most)
      return wanted("r", fmt::format("an integer from 1 to {}", most), *at);
    out.rank = at->get<uint64_t>();
    return {};
  }
  [[nodiscard]] core::result<void> number(const char* key, double& out) const {
    const auto at = keys_.find(key);
    if (at == keys_.end()) return {};
    if (!at->is_number()) return wanted(key, "a number", *at);
    out = at->get<double>();
    return {};
  }
  [[nodiscard]] core::result<void> flag(const char* key, bool& out) const {
    const auto at = keys_.find(key);
    if (at == keys_.end() || at->is_null()) return {};
    if (!at->is_boolean()) return wanted(key, "true or false", *at);
    out = at->get<bool>();
    return {};
  }
  /// Reads how the first values were drawn. Methods that also change the base's weights (PiSSA, OLoRA, LoftQ ...) are
  /// refused, because the adapter does not belong to the base as it is in its folder.
  [[nodiscard]] core::result<void> first_values(adapter_options& out) const {
    const auto at = keys_.find("init_lora_weights");
    if (at == keys_.end() || at->is_boolean()) return {};
    out.is_normal = *at == "gaussian";
    return out.is_normal ? core::result<void>()
                         : wanted("init_lora_weights", "true, false or \"gaussian\", which leave the base as it is",
                                  *at);
  }
  [[nodiscard]] core::result<void> names(const char* key, std::vector<std::string>& out) const {
    const auto at = keys_.find(key);
    if (at == keys_.end() || at->is_null()) return {};
    if (at->is_string()) {
      out.push_back(at->get<std::string>());
      return {};
    }
    if (!at->is_array() || !std::ranges::all_of(*at, [](const json& name) { return name.is_string(); }))
      return wanted(key, "names of modules", *at);
    for (const json& name : *at) out.push_back(name.get<std::string>());
    std::ranges::sort(out);
    return {};
  }
  /// Refuses every further key that is not off: an option that would change the arithmetic, or may do so.
  [[nodiscard]] core::result<void> nothing_else() const {
    constexpr std::array<std::string_view, 11> read{
        "peft_type",       "r",    "lora_alpha",              "lora_dropout",      "use_rslora",    "target_modules",
        "modules_to_save", "bias", "base_model_name_or_path", "init_lora_weights", "fan_in_fan_out"};
    const auto is_in = [](const auto& list, const std::string& key) {
      return std::ranges::find(list, std::string_view(key)) != list.end();
    };
    for (const auto& [key, value] : keys_.items())
      if (!is_in(read, key) && !is_in(keys_for_others, key) && !switches_off(value))
        return wanted(key, "null, because Troupe's adapters do not have it", value);
    return {};
  }

  const json& keys_;
  const std::string& place_;
};

/// Returns the name without `end`; nothing if it does not end so.
std::optional<std::string_view> without_end(std::string_view name, std::string_view end) {
  if (!name.ends_with(end)) return std::nullopt;
  return name.substr(0, name.size() - end.size());
}

bool is_matrix(const safetensors_entry& e) { return e.shape.size() == 2 && e.shape[0] > 0 && e.shape[1] > 0; }

bool is_readable(const safetensors_entry& e) {
  constexpr std::array types{core::dtype::f64, core::dtype::f32, core::dtype::bf16, core::dtype::f16};
  return e.unread_type.empty() && !e.is_e4m3 && std::ranges::find(types, e.type) != types.end();
}

json names_as_json(const std::vector<std::string>& names) { return names.empty() ? json() : json(names); }
json text_as_json(const std::string& text) { return text.empty() ? json() : json(text); }

}  // namespace

double adapter_options::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (by_root ? std::sqrt(r) : r);
}

core::result<adapter_options> parse_adapter_options(const std::string& text, const std::string& place) {
  const auto keys = core::parse_json<json>(text);
  if (!keys) return core::fail(keys.error().kind, fmt::format("'{}': {}", place, keys.error().why));
  if (!keys->is_object()) return core::refused(fmt::format("'{}': wanted a JSON object", place));
  return options_reader(*keys, place).run();
}

peft_adapter::peft_adapter(std::filesystem::path folder, adapter_options options, safetensors_file file)
    : folder_(std::move(folder)), options_(std::move(options)), file_(std::move(file)) {}

core::result<std::unique_ptr<peft_adapter>> peft_adapter::open(const std::filesystem::path& folder) {
  const auto config = folder / adapter_config_name;
  if (!storage::is_there(config))
    return core::refused(fmt::format("'{}': wanted a folder of PEFT, got one without {}", folder.string(),
                                     adapter_config_name));
  TROUPE_ASSIGN(const auto text, core::read_file(config, max_adapter_config_bytes));
  TROUPE_ASSIGN(auto options, parse_adapter_options(text, config.string()));
  if (!storage::is_there(folder / adapter_file_name))
    return core::refused(fmt::format("'{}': wanted {}, got {}", folder.string(), adapter_file_name,
                                     storage::is_there(folder / "adapter_model.bin")
                                         ? "adapter_model.bin; save it again with peft's save_pretrained()"
                                         : "no weights"));
  TROUPE_ASSIGN(auto file, safetensors_file::open(folder / adapter_file_name));
  std::unique_ptr<peft_adapter> out(new peft_adapter(folder, std::move(options), std::move(file)));
  TROUPE_TRY(out->list_tensors());
  return out;
}

core::result<void> peft_adapter::list_tensors() {
  const std::string place = file_.path().string();
  const auto refuse = [&](const safetensors_entry& e, std::string_view what) {
    return core::fail(error_kind::mismatch, fmt::format("'{}': tensor '{}' {}", place, core::shown(e.name), what));
  };
  std::map<std::string, adapter_layer, std::less<>> layers;
  for (const safetensors_entry& e : file_.entries()) {
    if (!e.name.starts_with(adapter_name_begin))
      return refuse(e, fmt::format("has no name of an adapter, which begins with {}", adapter_name_begin));
    if (!is_readable(e)) return refuse(e, "wanted a floating type");
    const auto name = std::string_view(e.name).substr(adapter_name_begin.size());
    const auto of_a = without_end(name, adapter_a_end), of_b = without_end(name, adapter_b_end);
    if (!of_a && !of_b) {
      if (is_peft_name(name)) return refuse(e, "belongs to an adapter that Troupe does not compute");
      parameters_.push_back({std::string(name), &e});
      continue;
    }
    const auto rank = static_cast<int64_t>(options_.rank);
    if (!is_matrix(e) || e.shape[of_a ? 0 : 1] != rank)
      return refuse(e, fmt::format("has the shape {}, and r is {} in {}", core::shape_text(e.shape), rank,
                                   adapter_config_name));
    adapter_layer& layer = layers[std::string(of_a ? *of_a : *of_b)];
    (of_a ? layer.a : layer.b) = &e;
  }
  for (auto& [name, layer] : layers) {
    if (layer.a == nullptr || layer.b == nullptr)
      return core::fail(error_kind::mismatch, fmt::format("'{}': layer '{}' has only one of its two matrices", place,
                                                          core::shown(name)));
    layer.name = name;
    layers_.push_back(layer);
  }
  if (layers_.empty()) return core::fail(error_kind::mismatch, fmt::format("'{}' holds no adapter", place));
  return {};
}

const safetensors_entry* peft_adapter::find(std::string_view name) const {
  return file_.find(std::string(adapter_name_begin).append(name));
}

core::result<void> peft_adapter::read(const safetensors_entry& entry, uint64_t first, std::span<float> out) const {
  const size_t element_bytes = core::size_of(entry.type);
  std::vector<std::byte> stored(std::min(out.size(), elements_at_once) * element_bytes);
  for (size_t done = 0; done < out.size(); done += elements_at_once) {
    const size_t n = std::min(elements_at_once, out.size() - done);
    const auto bytes = std::span(stored).first(n * element_bytes);
    TROUPE_TRY(file_.read(entry, (first + done) * element_bytes, bytes));
    if (const auto lost = kernels::cast(bytes.data(), entry.type, reinterpret_cast<std::byte*>(out.data() + done),
                                        core::dtype::f32, n))
      return core::fail(error_kind::numeric,
                        fmt::format("'{}': tensor '{}': element {} is {}, which fp32 cannot hold",
                                    file_.path().string(), core::shown(entry.name), first + done + lost->element,
                                    lost->value));
  }
  return {};
}

core::result<void> write_adapter(const std::filesystem::path& folder, const adapter_options& options,
                                 std::vector<tensor_to_write> tensors) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  if (ec) return core::fail(error_kind::io, fmt::format("cannot make '{}': {}", folder.string(), ec.message()));
  for (tensor_to_write& t : tensors) t.name.insert(0, adapter_name_begin);
  TROUPE_TRY(write_safetensors(folder / adapter_file_name, tensors));
  json keys = json::object();
  keys["peft_type"] = "LORA";
  keys["task_type"] = text_as_json(options.task);
  keys["base_model_name_or_path"] = text_as_json(options.base);
  keys["inference_mode"] = true;
  keys["r"] = options.rank;
  keys["lora_alpha"] = options.alpha;
  keys["lora_dropout"] = options.dropout;
  keys["use_rslora"] = options.by_root;
  keys["init_lora_weights"] = options.is_normal ? json("gaussian") : json(true);
  keys["fan_in_fan_out"] = options.is_in_out;
  keys["bias"] = "none";
  keys["target_modules"] = names_as_json(options.targets);
  keys["modules_to_save"] = names_as_json(options.modules_to_save);
  return storage::write_file_atomically(folder / adapter_config_name,
                                        keys.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace troupe::formats
