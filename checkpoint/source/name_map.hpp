// Finds the tensor of a checkpoint that is a given parameter of a model, although its writer may have added other
// prefixes to the names. Only names are compared here; the code that loads compares shapes.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/native/manifest.hpp"

namespace troupe::checkpoint {

/// The name without what wrappers add anywhere in it (wrapper_names.hpp) and what Hugging Face's model classes put in
/// front: `transformer.`, `model.`, in any order, each as often as it stands there.
std::string bare_name(std::string_view name);

/// What state dicts and GGUF files hold beside parameters, and models of ours do not have: masks of attention, rotary
/// frequencies and their factors.
bool is_derived_buffer(std::string_view name);

/// From the names of a model to those of a checkpoint. A name that stands there as it is comes first, tied names too;
/// then one whose bare name is the same, where there is exactly one.
class name_map {
 public:
  name_map() = default;
  explicit name_map(const tensor_list& source);

  /// The source's name of a tensor, or tied name, for the wanted one; nothing where there is none.
  [[nodiscard]] std::optional<std::string> find(std::string_view wanted) const;

  /// Names of the source's parameters (master, weight, frozen) that no wanted name leads to, ascending. Left out are
  /// tied names of wanted ones, buffers, and a head that is the embedding's copy, which models tie: `lm_head.weight`
  /// where the source has no other head to offer and `wanted` has none.
  [[nodiscard]] std::vector<std::string> unexpected(std::span<const std::string> wanted) const;

 private:
  std::map<std::string, std::string, std::less<>> owner_;  ///< of every name, itself where it is not tied
  std::map<std::string, std::vector<std::string>, std::less<>> by_bare_;
  std::vector<std::string> parameters_;  ///< names of tensors, ascending
};

/// The head's name in every family of Hugging Face's that is known here.
inline constexpr std::string_view head_name = "lm_head.weight";

/// The way out: a name of a model of ours as Hugging Face's class for language models has it. `model_type` is
/// config.json's ("gpt2", "llama"); names of other types, and of a host's own model, stay as they are.
std::string hugging_face_name(std::string_view model_type, std::string_view name);

/// Tied names that Hugging Face's class adds: the head, where the embedding is the head.
std::vector<tied_name> hugging_face_tied(std::string_view model_type, std::span<const std::string> names);

}  // namespace troupe::checkpoint
