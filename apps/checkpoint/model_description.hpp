// Which model a checkpoint is of, as Hugging Face's config.json says it: for files that transformers or DeepSpeed read.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/checkpoint/checkpoint_arguments.hpp"
#include "checkpoint/megatron/rules.hpp"
#include "checkpoint/source/layer_names.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "config/sections/job_config.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// A config.json beyond it is refused.
inline constexpr uint64_t max_description_bytes = uint64_t{16} << 20;

struct model_description {
  std::string json;                            ///< Hugging Face's keys; empty where nothing says them
  std::string model_type;                      ///< "gpt2", "llama", ...; empty where unknown
  bool tied_embedding = false;                 ///< the head shares the embedding's weight
  std::string place = {};                      ///< where `json` is, for messages: "'hf/config.json'"
  std::vector<std::string> ignored_keys = {};  ///< of `json`, read as if they were not there
};

/// From `file` where it is given; else what the source says of its model, or the config.json beside it. Refused: one
/// that is no JSON object, and a key to ignore that the description does not have.
core::result<model_description> describe_model(const checkpoint::tensor_source& s, const std::filesystem::path& file,
                                               const std::vector<std::string>& ignored_keys = {});

/// The refusal of a source that does not say which model it is of.
core::error no_description_of(const checkpoint::tensor_source& s);

/// The parameters of a model of that description, in its order; empty of a family that is not known here.
std::vector<checkpoint::wanted_tensor> parameters_of(const model_description& m);

/// How ranks of a tensor group cut them; empty of such a family, and where there are too many ranks.
checkpoint::parameter_cuts cuts_of(const model_description& m, uint32_t ranks);

/// A checkpoint and what is known of its model.
struct described_checkpoint {
  checkpoint::tensor_source source;
  model_description model;
};

/// Opens what `a` names, its model as describe_model() says. A pipeline's layers get the model's names where they are
/// known: see named_by_layers(). A head that the model ties and whose values are its own is untied, with a note; one of
/// the embedding's values is a tied name: see settle_tied_head(). Refused: keys of the model's config.json that no
/// table has.
core::result<described_checkpoint> open_described(const source_arguments& a, const std::filesystem::path& model_config);

/// Refuses a checkpoint whose tensors are not the parameters of the model that its config.json describes: one that is
/// missing, one that the model has not, one of another shape, a pipeline whose layers nobody names. Of a family that is
/// not known here, the embedding's shape and the number of layers are compared.
core::result<void> check_parameters(const described_checkpoint& c);

/// Keeps the description with files that do not say their model; nothing where it is not known.
core::result<void> write_description(const model_description& m, const std::filesystem::path& folder);

/// How a folder for transformers names a tensor of the source: nothing for a tied name, which config.json says, and for
/// factors of rotary positions, which are config.json's too.
std::optional<std::string> exported_name(const described_checkpoint& c, const std::string& name);

/// config.json as transformers wants it for weights in `type`.
std::string hugging_face_config(const model_description& m, core::dtype type);

/// Names that transformers' model of this type has for one parameter and the source lacks: the head's for the
/// embedding's. Alias to parameter.
std::map<std::string, std::string> shared_names(const model_description& m, const checkpoint::tensor_source& s);

/// The configuration of the run that wrote it; nothing where there is none, or none that is read today.
std::optional<config::job_config> own_configuration(const checkpoint::tensor_source& s);

}  // namespace troupe::apps
