#include "checkpoint/convert/no_checkpoint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "checkpoint/convert/formats.hpp"
#include "core/json_text.hpp"
#include "core/text.hpp"
#include "formats/names/wrapper_names.hpp"
#include "formats/safetensors/weights_index.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t max_adapter_config_bytes = uint64_t{1} << 20;

constexpr std::string_view save_again = "save the weights as safetensors with the program that wrote them";
constexpr std::string_view by_own_name = "name the file itself to read it";

struct kind_of_weights {
  std::string_view begin, end;  ///< beginning and ending of the names of files of this kind
  std::string_view what, mend;
};

/// Kinds of weights by file name; the first row that matches a name decides.
constexpr std::array<kind_of_weights, 24> kinds_of_weights{{
    {"", ".h5", "weights of Keras or TensorFlow, which are not read", save_again},
    {"", ".keras", "weights of Keras, which are not read", save_again},
    {"", ".ckpt.index", "weights of TensorFlow, which are not read", save_again},
    {"", ".msgpack", "weights of Flax, which are not read", save_again},
    {"model", ".npz", "weights of NumPy, which are not read", save_again},
    {"weights", ".npz", "weights of NumPy, which are not read", save_again},
    {"", ".onnx", "a model in ONNX, which is not read", save_again},
    {"openvino_model", ".bin", "an OpenVINO model, which is not read", save_again},
    {"", ".mlmodel", "a Core ML model, which is not read", save_again},
    {"", ".tflite", "a TensorFlow Lite model, which is not read", save_again},
    {"", ".nemo", "a NeMo archive, which is not read", save_again},
    {"model_optim_rng", ".pt", "a checkpoint in Megatron-LM's old format, which is not read", save_again},
    {"distrib_optim", ".pt", "states of an optimizer in Megatron-LM's old format, which is not read", save_again},
    {"", ".distcp", "a part of a torch.distributed.checkpoint folder, without the .metadata that describes it",
     "copy the whole folder"},
    {"pytorch_model_fsdp", ".bin", "a file of torch.save", by_own_name},
    {"pytorch_model_", ".bin", "one rank's share of FSDP's weights (Accelerate's LOCAL_STATE_DICT), which is not read",
     "save with FSDP's SHARDED_STATE_DICT or FULL_STATE_DICT"},
    {"pytorch_model", ".bin", "a file of torch.save under a name that no index lists", by_own_name},
    {"adapter_model", ".bin", "a PEFT adapter, not a whole model", "merge it into its base model first"},
    {"", ".safetensors", "tensors under a name that no index lists", by_own_name},
    {"", ".gguf", "a GGUF file", by_own_name},
    {"", ".ckpt", "a file of torch.save or Lightning", by_own_name},
    {"", ".pth", "a file of torch.save", by_own_name},
    {"", ".pt", "a file of torch.save", by_own_name},
    {"hf_model", ".bin", "a file of torch.save", by_own_name},
}};

/// Beginnings of the names of files that trainers leave next to weights.
constexpr std::array<std::string_view, 9> side_files{"optimizer",     "scheduler",    "rng_state",
                                                     "random_states", "scaler",       "sampler",
                                                     "training_",     "recipe_state", "dl_state_dict"};
/// Beginnings of the names of folders that hold one rank's or one process's files, which are searched, too.
constexpr std::array<std::string_view, 2> inner_folders{"mp_rank_", "pytorch_model_fsdp_"};

const kind_of_weights* kind_of_name(std::string_view name) {
  const auto begins = [&](std::string_view with) { return name.starts_with(with); };
  if (std::ranges::any_of(side_files, begins)) return nullptr;
  const auto* at = std::ranges::find_if(
      kinds_of_weights, [&](const kind_of_weights& k) { return begins(k.begin) && name.ends_with(k.end); });
  return at == kinds_of_weights.end() ? nullptr : at;
}

bool any_name(std::string_view) { return true; }

/// Returns the first file of `folder`, in the order of names, that contains weights of a known kind, and that kind;
/// nothing if there is no such file.
std::optional<std::pair<fs::path, const kind_of_weights*>> first_weights_in(const fs::path& folder, bool is_inner) {
  std::error_code ec;
  for (const auto& name : storage::names_in(folder, any_name)) {
    const auto path = folder / name;
    const auto begins = [&](std::string_view with) { return name.starts_with(with); };
    if (const auto* kind = kind_of_name(name); kind != nullptr && fs::is_regular_file(path, ec)) return {{path, kind}};
    if (!is_inner && std::ranges::any_of(inner_folders, begins) && fs::is_directory(path, ec))
      if (auto inside = first_weights_in(path, true)) return inside;
  }
  return std::nullopt;
}

/// Returns "it is empty", or "it holds a.txt, plots/ and 7 more": the contents of a folder that is not a checkpoint.
std::string seen_in(const fs::path& folder) {
  constexpr size_t most_shown = 5;
  std::vector<std::string> names;
  for (const auto& name : storage::names_in(folder, any_name))
    names.push_back(core::shown(name) + (storage::is_folder(folder / name) ? "/" : ""));
  if (names.empty()) return "it is empty";
  std::ranges::sort(names);
  const size_t more = names.size() > most_shown ? names.size() - most_shown : 0;
  names.resize(names.size() - more);
  return fmt::format("it holds {}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

/// Returns the error that refuses an adapter's folder; nothing for any other folder.
std::optional<core::error> adapter_in(const fs::path& folder) {
  if (!storage::is_there(folder / formats::adapter_config_name) && formats::adapter_weights_in(folder).empty())
    return std::nullopt;
  const auto text =
      storage::read_small_file(storage::real_files(), folder / formats::adapter_config_name, max_adapter_config_bytes);
  const auto keys = text ? core::parse_json(*text) : tl::make_unexpected(core::json_problem{});
  const auto said = [&](const char* key) {
    if (!keys || !keys->is_object()) return std::string();
    const auto at = keys->find(key);
    return at != keys->end() && at->is_string() ? core::shown(at->get<std::string>()) : std::string();
  };
  const auto kind = said("peft_type"), base = said("base_model_name_or_path");
  return core::error{
      error_kind::bad_input,
      fmt::format("'{}' holds a PEFT adapter{}, not a whole model: merge it into {} first {}", folder.string(),
                  kind.empty() ? "" : fmt::format(" ({})", kind),
                  base.empty() ? "its base model" : fmt::format("its base model, '{}',", base), formats::merge_by)};
}

/// Joins the texts that the formats have in their member `text`, omitting empty ones, to a list whose last separator is
/// `last`, such as "a, b or c".
std::string listed_texts(std::string_view formats::source_format::*text, std::string_view last) {
  std::string out, behind;
  for (const auto* format : all_formats) {
    if ((format->*text).empty()) continue;
    if (!behind.empty()) out += out.empty() ? behind : ", " + behind;
    behind = format->*text;
  }
  return fmt::format("{} {} {}", out, last, behind);
}

}  // namespace

std::optional<std::string> unread_weights_in(const fs::path& folder) {
  const auto found = first_weights_in(folder, false);
  if (!found) return std::nullopt;
  return fmt::format("'{}', {}: {}", core::shown(found->first.lexically_relative(folder).string()), found->second->what,
                     found->second->mend);
}

core::error no_checkpoint(const fs::path& path) {
  const auto refusal = [&](const std::string& why) {
    return core::error{error_kind::bad_input, fmt::format("'{}' is not a checkpoint: it {}", path.string(), why)};
  };
  for (const auto infix : {formats::safetensors_index_infix, formats::torch_index_infix})
    if (const auto all = formats::weights_indices(path, infix); all.size() > 1)
      return refusal(fmt::format("has {} index files of weights: name one of them, such as '{}'", all.size(),
                                 all.front().string()));
  if (auto adapter = adapter_in(path)) return std::move(*adapter);
  if (const auto unread = unread_weights_in(path)) return refusal("holds " + *unread);
  return refusal(fmt::format("holds {}; {}", listed_texts(&formats::source_format::lacks, "and"), seen_in(path)));
}

core::error no_file_of_weights(const fs::path& file) {
  return {error_kind::bad_input,
          fmt::format("'{}' is not {}", file.string(), listed_texts(&formats::source_format::file_kind, "or"))};
}

}  // namespace troupe::checkpoint
