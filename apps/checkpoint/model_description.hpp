// Describes the model of a checkpoint by Hugging Face's config.json, which is written into the output for transformers
// and DeepSpeed.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "formats/megatron/rules.hpp"
#include "formats/names/layer_names.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::apps {

/// Limit of a config.json in bytes; a larger one is refused.
inline constexpr uint64_t max_description_bytes = uint64_t{16} << 20;
/// Limit of the depth to which values of a config.json are nested.
inline constexpr size_t max_description_depth = 64;

struct model_description {
  std::string json;  ///< the model's config.json with Hugging Face's keys; empty if unknown
  /// Hugging Face's name of the architecture: "gpt2", "llama", ...; empty if unknown.
  std::string model_type;
  bool tied_embedding = false;                 ///< true if the head shares the embedding's weight
  std::string place = {};                      ///< source of `json`, for messages: "'hf/config.json'"
  std::vector<std::string> ignored_keys = {};  ///< keys of `json` to ignore
};

/// Returns the description in `file`; if `file` is empty, the description that the source contains, or the config.json
/// in its folder. Refused: a description that is not a JSON object, and a key to ignore that the description does not
/// have.
core::result<model_description> describe_model(const formats::tensor_source& s, const std::filesystem::path& file,
                                               const std::vector<std::string>& ignored_keys = {});

/// Returns the refusal of a source that does not name its model.
core::error no_description_of(const formats::tensor_source& s);

/// Returns the parameters of the described model, in its order; empty for an unknown family.
std::vector<formats::wanted_tensor> parameters_of(const model_description& m);

/// Returns how `ranks` tensor-parallel ranks split the parameters; empty for one rank, for an unknown family, and for a
/// model that cannot be split over so many ranks.
formats::parameter_cuts cuts_of(const model_description& m, uint32_t ranks);

/// True if the model ties its head to the embedding, by a key that the user did not choose to ignore.
bool ties_head(const model_description& m);
/// Changes the description so that the head is a parameter of its own.
void untie_head(model_description& m);

/// Writes the description as config.json into `folder`; does nothing if the model is unknown.
core::result<void> write_description(const model_description& m, const std::filesystem::path& folder);

/// Returns config.json in the form that transformers requires, for weights in `type`.
std::string hugging_face_config(const model_description& m, core::dtype type);

/// Returns the further names that a model of this type has in transformers for a parameter and that the source lacks,
/// such as the head's name for the embedding. Maps each further name to the parameter.
std::map<std::string, std::string> shared_names(const model_description& m, const formats::tensor_source& s);

/// Returns the configuration of the run that wrote the checkpoint; nothing if there is none, or if it cannot be read.
std::optional<config::job_config> own_configuration(const formats::tensor_source& s);

}  // namespace troupe::apps
