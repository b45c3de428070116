// Finds the tensor of a checkpoint that belongs to a given parameter of a model, even if the checkpoint's writer added
// prefixes to the names. Compares names only; the code that loads compares shapes.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensors/tensor_list.hpp"

namespace troupe::formats {

/// Returns the name without the parts that wrappers add anywhere in it (wrapper_names.hpp) and without the prefixes of
/// Hugging Face's model classes: `transformer.` and `model.`, in any order and any number.
std::string bare_name(std::string_view name);

/// True for tensors in state dicts and GGUF files that Troupe's models do not have: masks of attention, rotary
/// frequencies and their factors.
bool is_derived_buffer(std::string_view name);

/// Maps parameter names of a model to names in a checkpoint, tied names included: to an equal name if there is one,
/// else to a name with the same bare name if all names with it belong to one tensor.
class name_map {
 public:
  name_map() = default;
  explicit name_map(const tensor_list& source);

  /// Returns the name in the checkpoint (of a tensor, or a tied name) for the model's name `wanted`; nothing if no
  /// name matches.
  [[nodiscard]] std::optional<std::string> find(std::string_view wanted) const;

  /// Returns the names of the source's parameters (master, weight, frozen) that no wanted name maps to, ascending. Left
  /// out are tensors that a wanted name is tied to, buffers, and the head `lm_head.weight` if `wanted` has no head:
  /// models tie it to the embedding.
  [[nodiscard]] std::vector<std::string> unexpected(std::span<const std::string> wanted) const;

 private:
  /// Name of the tensor that each name of the checkpoint refers to; a name that is not tied maps to itself.
  std::map<std::string, std::string, std::less<>> owner_;
  std::map<std::string, std::vector<std::string>, std::less<>> by_bare_;
  std::vector<std::string> parameters_;  ///< names of the checkpoint's parameters, ascending
};

/// Bare name of the head's weight in all of Hugging Face's families that Troupe knows, also where its name in files is
/// another.
inline constexpr std::string_view head_name = "lm_head.weight";

/// Returns the name in Hugging Face's class for language models of a parameter of a Troupe model. `model_type` is the
/// value in config.json ("gpt2", "llama"); the names of models of any other type are returned unchanged.
std::string hugging_face_name(std::string_view model_type, std::string_view name);

/// Returns the tied names that Hugging Face's class has in addition to `names`: the name of the head, if `names` has an
/// embedding and no head, and the second name of the head's bias.
std::vector<tied_name> hugging_face_tied(std::string_view model_type, std::span<const std::string> names);

}  // namespace troupe::formats
