#include "checkpoint/convert/unread_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "core/text.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

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

/// Returns the first file of `folder`, in the order of names, that contains weights of a known kind, and that kind;
/// nothing if there is no such file.
std::optional<std::pair<fs::path, const kind_of_weights*>> first_weights_in(const fs::path& folder, bool is_inner) {
  std::vector<fs::path> entries;
  std::error_code ec;
  size_t seen = 0;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end && seen < storage::max_folder_entries;
       at.increment(ec), ++seen)
    entries.push_back(at->path());
  std::ranges::sort(entries);
  for (const auto& path : entries) {
    const auto name = path.filename().string();
    const auto begins = [&](std::string_view with) { return name.starts_with(with); };
    if (const auto* kind = kind_of_name(name); kind != nullptr && fs::is_regular_file(path, ec)) return {{path, kind}};
    if (!is_inner && std::ranges::any_of(inner_folders, begins) && fs::is_directory(path, ec))
      if (auto inside = first_weights_in(path, true)) return inside;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> unread_weights_in(const fs::path& folder) {
  const auto found = first_weights_in(folder, false);
  if (!found) return std::nullopt;
  return fmt::format("'{}', {}: {}", core::shown(found->first.lexically_relative(folder).string()), found->second->what,
                     found->second->mend);
}

}  // namespace troupe::checkpoint
