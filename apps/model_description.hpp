// Which model a checkpoint is of, as Hugging Face's config.json says it: for files that transformers or DeepSpeed read.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/tensor_source.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// A config.json beyond it is refused.
inline constexpr uint64_t max_description_bytes = uint64_t{16} << 20;

struct model_description {
  std::string json;             ///< Hugging Face's keys; empty where nothing says them
  std::string model_type;       ///< "gpt2", "llama", ...; empty where unknown
  bool tied_embedding = false;  ///< the head shares the embedding's weight
};

/// From `file` where it is given; else what the source says of its model, or the config.json beside it. Refused: one
/// that is no JSON object.
core::result<model_description> describe_model(const checkpoint::tensor_source& s, const std::filesystem::path& file);

/// config.json as transformers wants it for weights in `type`.
std::string hugging_face_config(const model_description& m, core::dtype type);

/// Names that transformers' model of this type has for one parameter and the source lacks: the head's for the
/// embedding's. Alias to parameter.
std::map<std::string, std::string> shared_names(const model_description& m, const checkpoint::tensor_source& s);

}  // namespace troupe::apps
