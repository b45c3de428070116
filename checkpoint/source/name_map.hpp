// Finds the tensor of a checkpoint that belongs to a given parameter of a model, although its writer may have added
// prefixes to the names. Compares names only; the code that loads compares shapes.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/native/manifest.hpp"

namespace troupe::checkpoint {

/// Returns the name without the parts that wrappers add anywhere in it (wrapper_names.hpp) and without the prefixes of
/// Hugging Face's model classes: `transformer.` and `model.`, in any order and any number.
std::string bare_name(std::string_view name);

/// True for tensors in state dicts and GGUF files that Troupe's models do not have: masks of attention, rotary
/// frequencies and their factors.
bool is_derived_buffer(std::string_view name);

/// Maps the names of a model to the names of a checkpoint. An equal name comes first, tied names included; then a name
/// with the same bare name, if it is the only one.
class name_map {
 public:
  name_map() = default;
  explicit name_map(const tensor_list& source);

  /// Returns the source's name of a tensor, or tied name, for the wanted name; nothing if there is none.
  [[nodiscard]] std::optional<std::string> find(std::string_view wanted) const;

  /// Returns the names of the source's parameters (master, weight, frozen) that no wanted name maps to, ascending. Left
  /// out are tensors that a wanted name is tied to, buffers, and the head `lm_head.weight` if `wanted` has no head:
  /// models tie it to the embedding.
  [[nodiscard]] std::vector<std::string> unexpected(std::span<const std::string> wanted) const;

 private:
  /// The tensor of every name; a name that is not tied maps to itself.
  std::map<std::string, std::string, std::less<>> owner_;
  std::map<std::string, std::vector<std::string>, std::less<>> by_bare_;
  std::vector<std::string> parameters_;  ///< names of the parameters, ascending
};

/// Name of the head in all of Hugging Face's families that Troupe knows.
inline constexpr std::string_view head_name = "lm_head.weight";

/// Returns the name that Hugging Face's class for language models gives a parameter of a Troupe model. `model_type` is
/// config.json's ("gpt2", "llama"); names of other types, and of a host's own model, are unchanged.
std::string hugging_face_name(std::string_view model_type, std::string_view name);

/// Returns the tied names that Hugging Face's class adds: the head, if it uses the embedding's weights.
std::vector<tied_name> hugging_face_tied(std::string_view model_type, std::span<const std::string> names);

}  // namespace troupe::checkpoint
